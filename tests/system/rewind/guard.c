/* guard.c: a loop whose continuations do what cannot be undone, in some of the traces. Usage: guard DEED [NUMBER ...]
 * Numbers depend on memory only, so they are the same whatever the deed is, unless it fails. deeds.h has the deeds. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <ars.h>

#include "deeds.h"
#include "hash.h"

static double memory[5000];
static unsigned steps;

static double change(double x) {
    memory[++steps * 37 % 5000] += x;
    char *grown = malloc(100 + steps % 3000); /* never freed */
    if (!grown) abort();
    grown[0] = (char)steps;
    return hash_unit(hash_add(hash_word(steps, (uint64_t)grown[0]), memory[steps * 11 % 5000]));
}

static void model(void *user) {
    const struct deed *deed = user;
    memset(memory, 0, sizeof memory);
    steps = 0;
    if (deed->before_trace) deed->before_trace();
    const bool bad = ars_sample("bad", ars_uniform(0, 1)) < 0.3;
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        unsigned tries = 0;
        for (;;) {
            rs_start("guarded");
            const double x = ars_sample("x", ars_uniform(0, 1));
            if (bad && tries++ == 0 && ars_in_continuation() && deed->act) deed->act();
            const double unit = change(x);
            const double m = ars_sample("m", ars_normal(unit, 1));
            if (x + 0.01 * m < 0.35 + 0.4 * unit) {
                rs_end();
                sum += m;
                break;
            }
        }
    }
    if (deed->after_loops) sum += deed->after_loops();
    ars_observe("y", ars_normal(sum, 2));
    ars_result("sum", sum + change(sum));
}

int main(int argc, char **argv) {
    struct deed *deed = find_deed(argc > 1 ? argv[1] : "");
    for (int i = 0; i < DEED_NUMBERS && i + 2 < argc; i++) deed_number[i] = atol(argv[i + 2]);
    if (deed->once) deed->once();
    return ars_main(argc, argv, model, deed);
}
