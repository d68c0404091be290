/* chosen.h: many programs in one executable, in C and in C++. The first draw of a trace chooses one of them, or the second
 * argument does. The first argument is "fresh" (every trace begins with the state of a new process) or "carry" (with what the
 * trace before has left). */
#ifndef REWIND_CHOSEN_H
#define REWIND_CHOSEN_H

#include <errno.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ars.h>

typedef struct {
    double (*run)(void);
    void (*reset)(void);
} chosen_program;

static const chosen_program *chosen_from;
static int chosen_of, chosen_always;
static bool chosen_fresh;

static void chosen_model(void *user) {
    (void)user;
    if (chosen_fresh) {
        fesetenv(FE_DFL_ENV);
        errno = 0;
    }
    double each[64];
    for (int i = 0; i < chosen_of; i++) each[i] = 1.0 / chosen_of;
    int which = chosen_always;
    if (which < 0) which = (int)ars_sample("program", ars_categorical(each, (size_t)chosen_of));
    if (chosen_fresh) chosen_from[which].reset();
    double sum = chosen_from[which].run();
    ars_result("which", which);
    ars_observe("y", ars_normal(sum, 2));
    ars_result("sum", sum);
}

static int chosen_main(int argc, char **argv, const chosen_program *programs, int n) {
    chosen_from = programs;
    chosen_of = n;
    chosen_fresh = argc > 1 && strcmp(argv[1], "fresh") == 0;
    chosen_always = argc > 2 ? atoi(argv[2]) : -1;
    time_t now = 0;
    if (!gmtime(&now)) return 1; /* so that time zones have been read */
    puts("programs");            /* so that stdout has its buffer */
    fflush(stdout);
    return ars_main(argc, argv, chosen_model, NULL);
}

#endif
