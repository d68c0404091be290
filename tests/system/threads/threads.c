/* Makes one call into libars from a second thread, in traces whose first draw says so: threads CALL [ROLE]. ROLE is
 * "worker" (the default), or "continuation": the call is made in forked re-runs of a loop alone. "nothing" makes none.
 * "many" draws from four threads in every trace, "elsewhere" runs all traces in a thread that is not main's. */
#include <ars.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *call, *role;

static bool body(void *context) {
    (void)context;
    return true;
}

static void *make_call(void *nothing) {
    double one = 1, two[2];
    size_t size;
    const ars_dist standard = ars_normal(0, 1);
    if (!strcmp(call, "ars_sample")) ars_sample("stray", ars_normal(0, 1));
    if (!strcmp(call, "ars_draw")) ars_draw(ars_uniform(0, 1));
    if (!strcmp(call, "ars_observe")) ars_observe("y", ars_normal(0, 1));
    if (!strcmp(call, "ars_observe_normals")) ars_observe_normals("y", &one, &one, 1, two);
    if (!strcmp(call, "ars_observe_value")) ars_observe_value("y", ars_normal(0, 1), 1);
    if (!strcmp(call, "ars_observe_vector")) ars_observe_vector("y", &standard, 1, two);
    if (!strcmp(call, "ars_observe_values")) ars_observe_values("y", &standard, 1, &one, two);
    if (!strcmp(call, "ars_given")) ars_given("y", &size);
    if (!strcmp(call, "ars_factor")) ars_factor("stray", -1);
    if (!strcmp(call, "ars_result")) ars_result("stray", 1);
    if (!strcmp(call, "ars_results")) ars_results("stray", &one, 1);
    if (!strcmp(call, "ars_results_shaped")) ars_results_shaped("stray", &one, NULL, 0);
    if (!strcmp(call, "rs_start")) rs_start("stray");
    if (!strcmp(call, "rs_end")) rs_end();
    if (!strcmp(call, "ars_reject")) ars_reject_named("stray", body, NULL);
    if (!strcmp(call, "ars_flat")) ars_flat();
    if (!strcmp(call, "ars_scope_push")) ars_scope_push("stray");
    if (!strcmp(call, "ars_scope_pop")) ars_scope_pop();
    if (!strcmp(call, "ars_next_trace")) ars_next_trace();
    return nothing;
}

static void in_second_thread(void) {
    pthread_t thread;
    if (strcmp(call, "nothing") == 0 || pthread_create(&thread, NULL, make_call, NULL)) return;
    pthread_join(thread, NULL);
}

static void *draw_many(void *sum) {
    for (int i = 0; i < 2000; i++) *(double *)sum += ars_draw(ars_uniform(0, 1));
    return NULL;
}

static double from_four_threads(void) {
    pthread_t threads[4];
    double sums[4] = {0}, sum = 0;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, draw_many, &sums[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        sum += sums[i];
    }
    return sum;
}

static double loop(bool bad) {
    double u;
    for (;;) {
        rs_start("loop");
        if (bad && ars_in_continuation()) in_second_thread();
        u = ars_sample("u", ars_uniform(0, 1));
        if (u < 0.5) {
            rs_end();
            return u;
        }
    }
}

static void model(void *nothing) {
    (void)nothing;
    double x = ars_sample("x", ars_normal(0, 1)), u = 0;
    bool bad = x > 0.3;
    ars_result("bad", bad);
    if (!strcmp(call, "many")) ars_result("checksum", from_four_threads());
    if (bad && !strcmp(role, "worker")) in_second_thread();
    if (!strcmp(role, "continuation")) u = loop(bad);
    double y = ars_observe("y", ars_normal(x + u, 0.5));
    if (ars_standalone()) printf("%.17g %.17g %.17g\n", x, u, y);
}

static void *run(void *nothing) {
    ars_main(0, NULL, model, NULL);
    return nothing;
}

int main(int argc, char **argv) {
    call = argc > 1 ? argv[1] : "nothing";
    role = argc > 2 ? argv[2] : "worker";
    if (strcmp(call, "elsewhere")) return run(NULL), 0;
    pthread_t thread;
    call = "nothing";
    if (pthread_create(&thread, NULL, run, NULL)) return 1;
    pthread_join(thread, NULL);
    return 0;
}
