/* names.c: one way to name sites, or to score, per argument: names WAY. In traces whose first draw says so, except for
 * those that end in _always. */
#include <ars.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *way;
static bool is(const char *name) {
    return strcmp(way, name) == 0;
}

static void in_loop(const char *name) {
    for (;;) {
        rs_start("a");
        double u = ars_sample(name, ars_uniform(0, 1));
        if (u < 0.7) break;
    }
    rs_end();
}

static void loop_in_loop(void) {
    for (;;) {
        rs_start("a");
        for (;;) {
            rs_start("b");
            if (ars_sample("x", ars_uniform(0, 1)) < 0.7) break;
        }
        rs_end();
        if (ars_sample("y", ars_uniform(0, 1)) < 0.7) break;
    }
    rs_end();
}

static void loop_with_slash(const char *site) {
    for (;;) {
        rs_start("a/b");
        if (ars_sample(site, ars_uniform(0, 1)) < 0.7) break;
    }
    rs_end();
}

static bool accept(void *context) {
    (void)context;
    return ars_sample("u", ars_uniform(0, 1)) < 0.7;
}

static void slashes(bool second) {
    if (is("site_then_loop")) ars_sample("a/x", ars_normal(0, 1)), in_loop("x");
    if (is("loop_then_site")) in_loop("x"), ars_sample("a/x", ars_normal(0, 1));
    if (is("across_traces")) second ? in_loop("x") : (void)ars_sample("a/x", ars_uniform(0, 1));
    if (is("loops")) loop_with_slash("y"), loop_in_loop();
    if (is("loops_reversed")) loop_in_loop(), loop_with_slash("y");
    if (is("reject")) ars_reject_named("a/b", accept, NULL), loop_in_loop();
    if (is("results")) {
        ars_result("a/r", 1);
        for (;;) {
            rs_start("a");
            ars_result("r", 2);
            if (ars_sample("x", ars_uniform(0, 1)) < 0.7) break;
        }
        rs_end();
    }
    /* Slashes that share no address with anything. A sample, a result and a loop may have one name. */
    if (is("harmless")) {
        ars_sample("b/x", ars_normal(0, 1));
        ars_sample("b/c/x", ars_normal(0, 1));
        in_loop("x/y");
        in_loop("x");
        loop_with_slash("z");
        ars_result("a/x", 1);
        ars_result("a", 1);
        ars_sample("a", ars_normal(0, 1));
    }
}

static void bytes_of_names(void) {
    if (is("latin1"))
        ars_sample("gr\xfc\xdf"
                   "e",
                   ars_normal(0, 1));
    if (is("latin1_result")) ars_result("\xff", 1);
    if (is("latin1_observe")) ars_observe("d\xe9tecteur", ars_normal(0, 1));
    if (is("cut_short")) ars_sample("x\xe2\x82", ars_normal(0, 1));
    if (is("utf8"))
        ars_sample("gr\xc3\xbc\xc3\x9f"
                   "e",
                   ars_normal(0, 1));
}

static void scores(void) {
    if (is("factors")) ars_factor("first", 1e308), ars_factor("second", 1e308);
    if (is("factors_down")) ars_factor("first", -1e308), ars_factor("second", -1e308);
}

static void model(void *nothing) {
    (void)nothing;
    bool bad = ars_sample("first", ars_uniform(0, 1)) < 0.5;
    ars_result("bad", bad);
    if (is("across_traces") || is("harmless") || bad) slashes(bad);
    if (bad) bytes_of_names();
    if (bad) scores();
    ars_observe("y", ars_normal(0, 1));
}

int main(int argc, char **argv) {
    way = argc > 1 ? argv[1] : "nothing";
    return ars_main(argc, argv, model, NULL);
}
