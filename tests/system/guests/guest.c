/* guest.c: a simulator that does to its process what simulators do. guest BEHAVIOUR [FILE]
 *
 * Whatever the behaviour, the random choices are the same, so the results must be too. */
#define _GNU_SOURCE
#include <ars.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *behaviour = "nothing", *file;
static volatile sig_atomic_t rings;
static char *memory;
static FILE *log_file;

static int is(const char *name) {
    return strcmp(behaviour, name) == 0;
}

static void count(int number) {
    (void)number;
    rings++;
}

/* The usual handler of programs that start others: takes whoever has ended, ours too. */
static void reap(int number) {
    int kept = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    errno = kept;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: calls come back with EINTR */
    sigaction(number, &action, NULL);
}

static void tick(long microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static char *touch(size_t size, size_t step) {
    char *at = malloc(size);
    if (!at) abort();
    for (size_t i = 0; i < size; i += step) at[i] = 1;
    return at;
}

static void close_all(void) {
    for (int fd = 0; fd < 1024; fd++) close(fd);
}

static void *nothing(void *argument) {
    return argument;
}

static void *sleep_long(void *argument) {
    sleep(3600);
    return argument;
}

static void start_thread(void *(*run)(void *), int join) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL)) abort();
    if (join) pthread_join(thread, NULL);
}

/* ---- before the first trace --------------------------------------------------------------------------------------- */

static void early(void) {
    if (is("alarm_before")) alarm(1); /* and no handler: it would end whoever keeps it */
    if (is("sigchld_handler")) handle(SIGCHLD, reap);
    if (is("sigchld_ignored")) signal(SIGCHLD, SIG_IGN);
    if (is("alarm_handler")) handle(SIGALRM, count);
    if (is("allocates_before")) memory = touch((size_t)1 << 30, 4096);
    if (is("closes_before")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        for (int i = 0; i < 64; i++) log_file = fopen(file, "a"); /* descriptors that libars once had */
    }
    if (is("keeps_file")) log_file = fopen(file, "a");
}

/* ---- in every trace, before its loop ------------------------------------------------------------------------------- */

static void print_much(FILE *out) {
    for (int i = 0; i < 2000; i++) fprintf(out, "%06d %0100d\n", i, 0);
}

static void fork_and(void (*child)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        child();
        _exit(7);
    }
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void draw_in_child(void) {
    ars_sample("in the child", ars_normal(0, 1));
    ars_result("in the child", 1);
}

static void leave_descendant(void) {
    if (fork() == 0) {
        setsid();
        sleep(3600);
    }
}

static void in_trace(void) {
    if (is("prints")) print_much(stdout);
    if (is("complains")) print_much(stderr);
    if (is("changes_directory") && chdir("/")) abort();
    if (is("closes")) close_all();
    if (is("alarm_handler")) tick(300);
    if (is("allocates") && !memory) memory = touch((size_t)1 << 30, 4096);
    if (is("starts_thread")) start_thread(nothing, 1);
    if (is("forks_child")) fork_and(draw_in_child);
    if (is("forks_exits")) fork_and(leave_descendant);
    if (is("runs_program") && system("exit 3") == -1) abort();
    if (is("waits_nohang")) reap(0);
    if (is("writes_file") || is("writes_file_guarded") || is("keeps_file")) {
        FILE *out = is("keeps_file") ? log_file : fopen(file, "a");
        fprintf(out, "trace\n");
        if (!is("keeps_file")) fclose(out);
    }
}

/* ---- in every try, so in continuations too -------------------------------------------------------------------------- */

static void in_try(void) {
    if (is("prints")) printf("try\n");
    if (is("complains")) fprintf(stderr, "try 000000\n");
    if (is("closes")) close_all();
    if (is("alarm_handler") && ars_in_continuation()) tick(300); /* a fork clears timers */
    if (is("changes_directory") && chdir("/tmp")) abort();
    if (is("runs_program") && system("exit 3") == -1) abort();
    if (is("waits_nohang")) reap(0);
    if (is("forks_child")) fork_and(draw_in_child);
    if (is("writes_file") || (is("writes_file_guarded") && !ars_in_continuation())) {
        FILE *out = fopen(file, "a");
        fprintf(out, "try\n");
        fclose(out);
    }
}

/* ---- what costs a trace, in some of them ----------------------------------------------------------------------------- */

static void misbehave(void) {
    if (is("exits")) exit(5);
    if (is("alarm_kills")) {
        tick(1000);
        for (;;) pause();
    }
    if (is("waits_any"))
        while (wait(NULL) > 0) {
        } /* for our snapshot, which waits for the end of the trace */
    if (is("keeps_thread")) start_thread(sleep_long, 0);
}

static double loop(const char *name, double width) {
    for (;;) {
        rs_start();
        in_try();
        double u = ars_sample(name, ars_normal(0, 1));
        if (u < width) {
            rs_end();
            return u;
        }
    }
}

static void model(void *user) {
    (void)user;
    in_trace();
    double x = ars_sample("x", ars_normal(0, 1)), u = loop("u", 0.2);
    if (x > 0.5) misbehave();
    u += loop("v", 0.6);
    ars_observe("y", ars_normal(x + u, 1));
    ars_result("sum", x + u);
    ars_result("misbehaves", x > 0.5);
}

int main(int argc, char **argv) {
    if (argc > 1) behaviour = argv[1];
    if (argc > 2) file = argv[2];
    early();
    int code = ars_main(argc, argv, model, NULL);
    free(memory);
    return code;
}
