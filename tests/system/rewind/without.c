/* without.c: starts a program on a system that lacks something. Usage: without WHAT ERRNO PROGRAM [ARGUMENTS]
 * WHAT: dispatch (stopping system calls), huge (no huge pages), query (questions about mappings), memory (of other processes),
 * usage (counts of faults). ERRNO: what the call gives; 0: whoever makes it is killed. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ANY = -1, DISPATCH = 59, THP_DISABLE = 41 };
#define QUERY _IOWR('f', 17, char[104])

static const struct {
    const char *name;
    unsigned call;
    int argument; /* the number of the one that tells, or ANY */
    unsigned value;
} lacks[] = {
    {"dispatch", SYS_prctl, 0, DISPATCH},     {"huge", SYS_prctl, 0, THP_DISABLE}, {"query", SYS_ioctl, 1, QUERY},
    {"memory", SYS_process_vm_readv, ANY, 0}, {"usage", SYS_getrusage, ANY, 0},
};

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        if (strcmp(lacks[i].name, argv[1]) != 0) continue;
        const unsigned error = (unsigned)atoi(argv[2]);
        const unsigned at = (unsigned)offsetof(struct seccomp_data, args) + 8u * (unsigned)(lacks[i].argument + 1) - 8u;
        struct sock_filter program[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, lacks[i].call, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, lacks[i].argument == ANY ? offsetof(struct seccomp_data, nr) : at),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, lacks[i].argument == ANY ? lacks[i].call : lacks[i].value, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, error ? SECCOMP_RET_ERRNO | error : SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = {sizeof program / sizeof *program, program};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)) break;
        execv(argv[3], argv + 3);
    }
    perror("without");
    return 2;
}
