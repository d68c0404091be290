/* shim.c: preloaded into a simulator's family, makes one kind of call fail: the n-th one of all its processes together, or that
 * and all that follow. FAULT_FILE names a file that all of them map: a struct plan. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct plan {
    char call[16];         /* fork, mmap, mprotect, malloc, send or receive */
    int32_t n;             /* the first to fail, from 1 */
    int32_t for_good;      /* 0: only that one */
    _Atomic int32_t count; /* of the calls so far */
};

static struct plan *plan;

/* Before the simulator's own constructors, which may allocate. */
__attribute__((constructor(101))) static void open_plan(void) {
    const char *path = getenv("FAULT_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = (void *)syscall(SYS_mmap, NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) plan = at;
}

static bool fails(const char *call, int error) {
    if (!plan || strcmp(plan->call, call) != 0) return false;
    int32_t now = atomic_fetch_add(&plan->count, 1) + 1;
    if (now != plan->n && !(plan->for_good && now > plan->n)) return false;
    errno = error;
    return true;
}

pid_t fork(void) {
    static pid_t (*real)(void);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fork");
    return fails("fork", EAGAIN) ? -1 : real();
}

/* what libars forks continuations with */
pid_t _Fork(void) {
    static pid_t (*real)(void);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "_Fork");
    return fails("fork", EAGAIN) ? -1 : real();
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fails("mmap", ENOMEM)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

int mprotect(void *at, size_t size, int protection) {
    if (fails("mprotect", ENOMEM)) return -1;
    return (int)syscall(SYS_mprotect, at, size, protection);
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *at, size_t size);

void *malloc(size_t size) {
    return fails("malloc", ENOMEM) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    return fails("malloc", ENOMEM) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *at, size_t size) {
    return fails("malloc", ENOMEM) ? NULL : __libc_realloc(at, size);
}

/* As when the peer is gone: the other direction fails too. */
static bool cut(const char *call, int fd) {
    if (!fails(call, ECONNRESET)) return false;
    shutdown(fd, SHUT_RDWR);
    errno = ECONNRESET;
    return true;
}

ssize_t sendto(int fd, const void *bytes, size_t size, int flags, const struct sockaddr *to, socklen_t to_size) {
    if (cut("send", fd)) return -1;
    return syscall(SYS_sendto, fd, bytes, size, flags, to, to_size);
}
ssize_t send(int fd, const void *bytes, size_t size, int flags) {
    return sendto(fd, bytes, size, flags, NULL, 0);
}
ssize_t recvfrom(int fd, void *bytes, size_t size, int flags, struct sockaddr *from, socklen_t *from_size) {
    if (cut("receive", fd)) return -1;
    return syscall(SYS_recvfrom, fd, bytes, size, flags, from, from_size);
}
ssize_t recv(int fd, void *bytes, size_t size, int flags) {
    return recvfrom(fd, bytes, size, flags, NULL, NULL);
}
