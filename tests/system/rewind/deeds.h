/* deeds.h: what continuations do that cannot be undone, or has to be; for guard.c. */
#ifndef REWIND_DEEDS_H
#define REWIND_DEEDS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <ars.h>

struct deed {
    const char *name;
    void (*act)(void);          /* in the first try of a continuation, in some of the traces */
    void (*once)(void);         /* before the first trace */
    void (*before_trace)(void); /* in the worker */
    double (*after_loops)(void);
};

enum { DEED_NUMBERS = 6 };
static long deed_number[DEED_NUMBERS];

static void must(bool good) {
    if (!good) abort();
}

/* ---- files: the one named by DEED_FILE is open from the beginning ----------------------------------------------------------- */

static int file = -1;

static void open_file(void) {
    const char *name = getenv("DEED_FILE");
    must(name && (file = open(name, O_RDWR | O_CREAT | O_APPEND, 0600)) >= 0);
}
static void act_open(void) {
    FILE *opened = fopen("/dev/null", "r");
    must(opened && fclose(opened) == 0);
}
static void act_write_file(void) {
    must(write(file, "continuation\n", 13) == 13);
}
static double write_in_main(void) {
    must(write(file, "main\n", 5) == 5);
    return 0;
}
static void act_stdout(void) {
    printf("a line\n");
    must(fflush(stdout) == 0);
    must(write(STDOUT_FILENO, "another\n", 8) == 8);
}
static double print_in_main(void) {
    printf("main\n");
    must(fflush(stdout) == 0);
    return 0;
}
static void act_stdout_buffer(void) {
    for (int i = 0; i < 2000; i++) printf("a line of a continuation\n");
}
static void act_stderr(void) {
    must(write(STDERR_FILENO, "a line\n", 7) == 7);
}
static void act_read(void) {
    char byte;
    must(read(file, &byte, 1) >= 0);
}
static void act_lseek(void) {
    must(lseek(file, 0, SEEK_SET) == 0);
}
static void act_map_file(void) {
    void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
    must(mapped != MAP_FAILED && munmap(mapped, 4096) == 0);
}

/* ---- processes and threads ------------------------------------------------------------------------------------------------- */

static void await(pid_t child) {
    must(child > 0);
    while (waitpid(child, NULL, 0) < 0) must(errno == EINTR);
}
static void act_fork(void) {
    pid_t child = fork();
    if (child == 0) _exit(0);
    await(child);
}
static void act_vfork(void) {
    pid_t child = vfork();
    if (child == 0) _exit(0);
    await(child);
}
static void act_spawn(void) {
    extern char **environ;
    pid_t child;
    char *const words[] = {(char[]){"true"}, NULL};
    must(posix_spawnp(&child, "true", NULL, NULL, words, environ) == 0);
    await(child);
}
static void act_system(void) {
    must(system("true") == 0);
}
static void *nothing(void *user) {
    return user;
}
static void act_thread(void) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
}
/* A thread that stays. */
static void *sleep_on(void *user) {
    for (;;) pause();
    return user;
}
static void start_thread(void) {
    pthread_t thread;
    must(pthread_create(&thread, NULL, sleep_on, NULL) == 0);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

static unsigned char *old;
enum { OLD = 1 << 16 };

static void map_old(void) {
    old = mmap(NULL, OLD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(old != MAP_FAILED);
    memset(old, 5, OLD);
}
static double read_old(void) {
    double sum = 0;
    for (int i = 0; i < OLD; i += 4096) sum += ++old[i];
    for (int i = 0; i < OLD; i += 4096) old[i]--;
    return sum;
}
static void act_munmap(void) {
    must(munmap(old + 4096, 8192) == 0);
}
static void act_mprotect(void) {
    must(mprotect(old, 4096, PROT_READ) == 0);
}
static void act_madvise(void) {
    must(madvise(old, OLD, MADV_DONTNEED) == 0);
}
static void act_map_over(void) {
    must(mmap(old, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == old);
}
static void act_map_shared(void) {
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(mapped != MAP_FAILED);
    mapped[0] = 1;
}
static void act_gigabyte(void) {
    const size_t size = (size_t)1 << 30;
    char *block = malloc(size);
    must(block);
    for (size_t i = 0; i < size; i += 4096) block[i] = 1;
    if (deed_number[0]) free(block);
}
static void act_heap(void) {
    for (int i = 0; i < 150; i++) {
        char *block = malloc(100000);
        must(block);
        memset(block, i, 100000);
        if (i % 3 == 0) free(block);
    }
}
static void act_remap(void) {
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(mapped != MAP_FAILED);
    mapped[5000] = 1;
    must((mapped = mremap(mapped, 8192, 1 << 20, MREMAP_MAYMOVE)) != MAP_FAILED);
    mapped[1 << 19] = 1;
    must(munmap(mapped + (1 << 18), 1 << 18) == 0);
}
static void act_brk_down(void) {
    must(sbrk(1 << 20) != (void *)-1);
    sbrk(-(1 << 20));
}

/* ---- the end --------------------------------------------------------------------------------------------------------------- */

static void act_exit(void) {
    exit((int)deed_number[0]);
}
static void act_exit_at_once(void) {
    _exit((int)deed_number[0]);
}
static void act_abort(void) {
    abort();
}
static void act_segv(void) {
    *(volatile int *)(deed_number[0] + 8) = 1;
}
static void act_fpe(void) {
    volatile int zero = 0, many = 7;
    zero = many / zero;
}
static void act_ill(void) {
    __builtin_trap();
}
static int descend(int depth) {
    volatile char frame[4000];
    frame[depth % 4000] = 1;
    return depth < 0 ? 0 : descend(depth + 1) + frame[0];
}
static void act_stack_end(void) {
    if (descend(0)) abort();
}
static void act_never(void) {
    for (;;) {
        rs_start("hopeless");
        ars_sample("z", ars_uniform(0, 1));
    }
}
static void act_hang(void) {
    for (volatile long i = 0;; i++)
        if (i > deed_number[0]) usleep(1000);
}
static void act_nan(void) {
    volatile double zero = 0;
    ars_sample("n", ars_normal(zero / zero, 1));
}
static void act_leave(void) {
    for (int i = 0; i < 2; i++) {
        rs_start("left");
        break;
    }
}
static void act_observe(void) {
    ars_observe("y", ars_normal(0, 1));
}

/* ---- signals and timers ------------------------------------------------------------------------------------------------------ */

static volatile sig_atomic_t caught;
static sigjmp_buf back;

static void on_signal(int number) {
    (void)number;
    caught++;
}
static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    must(sigaction(number, &action, NULL) == 0);
}
static void handle_usr1(void) {
    handle(SIGUSR1, on_signal, 0);
}
static void act_raise(void) {
    must(raise(SIGUSR1) == 0 && caught > 0);
}
static double caught_in_main(void) {
    int before = caught;
    must(raise(SIGUSR1) == 0);
    return caught - before;
}
static void act_sigaction(void) {
    handle(SIGUSR2, on_signal, 0);
}
static void act_sigprocmask(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    must(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
static void handle_sigsys(void) {
    handle(SIGSYS, on_signal, 0);
}
static double sigsys_in_main(void) {
    int before = caught;
    must(raise(SIGSYS) == 0);
    return caught - before;
}
static void jump_back(int number) {
    siglongjmp(back, number);
}
/* A simulator that survives its own wild reads; with the mask of signals put back, or without. */
static void handle_segv(void) {
    handle(SIGSEGV, jump_back, deed_number[1] ? SA_NODEFER : 0);
}
static void act_caught_segv(void) {
    if (sigsetjmp(back, (int)deed_number[0]) == 0) *(volatile int *)(deed_number[2] + 8) = 1;
}
static void act_setitimer(void) {
    must(setitimer(ITIMER_VIRTUAL, &(struct itimerval){{1000, 0}, {1000, 0}}, NULL) == 0);
}
static void act_alarm(void) {
    alarm(1000);
}
static void act_timer_create(void) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    must(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}
/* Ticks every 0.5 ms through main runs and estimates; its handler writes to memory. */
static void on_tick(int number) {
    (void)number;
    static volatile unsigned ticks[3000];
    ticks[ticks[0]++ % 2999 + 1]++;
}
static void start_ticking(void) {
    handle(SIGALRM, on_tick, SA_RESTART);
    must(setitimer(ITIMER_REAL, &(struct itimerval){{0, 500}, {0, 500}}, NULL) == 0);
}

/* ---- a filter of system calls of the simulator's own ---------------------------------------------------------------------- */

static void filter(unsigned call, unsigned answer) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog all = {sizeof program / sizeof *program, program};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) == 0);
}
/* Whoever makes the call of this number is answered by the simulator's own handler, with 77. */
static void answer_77(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 77;
}
static void filter_with_trap(void) {
    struct sigaction action = {.sa_sigaction = answer_77, .sa_flags = SA_SIGINFO};
    must(sigaction(SIGSYS, &action, NULL) == 0);
    filter((unsigned)deed_number[0], SECCOMP_RET_TRAP);
}
static void act_trapped(void) {
    must(syscall(deed_number[0], 0) == 77);
}
static double trapped_in_main(void) {
    return (double)syscall(deed_number[0], 0);
}
static void filter_with_error(void) {
    filter(SYS_sched_yield, SECCOMP_RET_ERRNO | EPERM);
}
static void act_filtered(void) {
    must(syscall(SYS_sched_yield) == -1 && errno == EPERM);
}
static void act_filter(void) {
    filter_with_error();
}

/* ---- questions --------------------------------------------------------------------------------------------------------------- */

static void act_sleep(void) {
    usleep(2000);
    must(sleep(0) == 0);
}
static void act_time(void) {
    struct timespec now;
    struct timeval day;
    must(time(NULL) > 0 && clock() != (clock_t)-1 && gettimeofday(&day, NULL) == 0);
    must(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0);
}
static void act_random(void) {
    unsigned char bytes[16];
    must(getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
}
static void act_who(void) {
    struct rusage usage;
    must(getpid() > 0 && getppid() > 0 && getuid() == geteuid() && getrusage(RUSAGE_SELF, &usage) == 0);
}
/* Any call, by its number and arguments. */
static void act_syscall(void) {
    const long *n = deed_number;
    must(syscall(n[0], n[1], n[2], n[3], n[4], n[5]) != -1);
}

static struct deed deeds[] = {
    {"nothing", NULL, NULL, NULL, NULL},
    {"open", act_open, NULL, NULL, NULL},
    {"write_file", act_write_file, open_file, NULL, write_in_main},
    {"stdout", act_stdout, NULL, NULL, print_in_main},
    {"stdout_buffer", act_stdout_buffer, NULL, NULL, print_in_main},
    {"stderr", act_stderr, NULL, NULL, NULL},
    {"read", act_read, open_file, NULL, NULL},
    {"lseek", act_lseek, open_file, NULL, NULL},
    {"map_file", act_map_file, open_file, NULL, NULL},
    {"fork", act_fork, NULL, NULL, NULL},
    {"vfork", act_vfork, NULL, NULL, NULL},
    {"spawn", act_spawn, NULL, NULL, NULL},
    {"system", act_system, NULL, NULL, NULL},
    {"thread", act_thread, NULL, NULL, NULL},
    {"thread_from_start", NULL, start_thread, NULL, NULL},
    {"thread_in_trace", NULL, NULL, start_thread, NULL},
    {"thread_in_trace_gone", NULL, NULL, act_thread, NULL},
    {"munmap", act_munmap, map_old, NULL, read_old},
    {"mprotect", act_mprotect, map_old, NULL, read_old},
    {"madvise", act_madvise, map_old, NULL, read_old},
    {"map_over", act_map_over, map_old, NULL, read_old},
    {"map_shared", act_map_shared, NULL, NULL, NULL},
    {"gigabyte", act_gigabyte, NULL, NULL, NULL},
    {"heap", act_heap, NULL, NULL, NULL},
    {"remap", act_remap, NULL, NULL, NULL},
    {"brk_down", act_brk_down, NULL, NULL, NULL},
    {"exit", act_exit, NULL, NULL, NULL},
    {"exit_at_once", act_exit_at_once, NULL, NULL, NULL},
    {"abort", act_abort, NULL, NULL, NULL},
    {"segv", act_segv, NULL, NULL, NULL},
    {"fpe", act_fpe, NULL, NULL, NULL},
    {"ill", act_ill, NULL, NULL, NULL},
    {"stack_end", act_stack_end, NULL, NULL, NULL},
    {"never", act_never, NULL, NULL, NULL},
    {"hang", act_hang, NULL, NULL, NULL},
    {"nan", act_nan, NULL, NULL, NULL},
    {"leave", act_leave, NULL, NULL, NULL},
    {"observe", act_observe, NULL, NULL, NULL},
    {"raise", act_raise, handle_usr1, NULL, caught_in_main},
    {"sigaction", act_sigaction, NULL, NULL, NULL},
    {"sigprocmask", act_sigprocmask, handle_usr1, NULL, caught_in_main},
    {"sigsys_handler", NULL, handle_sigsys, NULL, sigsys_in_main},
    {"caught_segv", act_caught_segv, handle_segv, NULL, NULL},
    {"setitimer", act_setitimer, NULL, NULL, NULL},
    {"alarm", act_alarm, NULL, NULL, NULL},
    {"timer_create", act_timer_create, NULL, NULL, NULL},
    {"ticking", NULL, NULL, start_ticking, NULL},
    {"trapped", act_trapped, filter_with_trap, NULL, trapped_in_main},
    {"filtered", act_filtered, filter_with_error, NULL, NULL},
    {"filter", act_filter, NULL, NULL, NULL},
    {"sleep", act_sleep, NULL, NULL, NULL},
    {"time", act_time, NULL, NULL, NULL},
    {"random", act_random, NULL, NULL, NULL},
    {"who", act_who, NULL, NULL, NULL},
    {"syscall", act_syscall, NULL, NULL, NULL},
};

static struct deed *find_deed(const char *name) {
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++)
        if (strcmp(deeds[i].name, name) == 0) return &deeds[i];
    fprintf(stderr, "guard: there is no deed \"%s\"\n", name);
    exit(2);
}

#endif
