/* Runs the generator under libars: main [MODE]. With -DDLOPEN the generator is a library that is loaded: main LIBRARY [MODE].
 * MODE: "events" has an event loop of its own; "misuse-..." makes a mistake; "policy" has rules of its own. */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#ifdef DLOPEN
#include <dlfcn.h>
#endif

#include <ars.h>

#include "generator.h"

namespace {

class ArsEngine : public Engine {
  public:
    double flat() override {
        double u = ars_flat();
        if (!(u > 0 && u < 1)) std::abort();
        return u;
    }
};

ars_loop loop = ARS_LOOP("decay");
void try_begins() {
    ars_loop_try(&loop);
}
void accepted() {
    ars_loop_accept(&loop);
}

struct Setup {
    Generator *generator;
    const char *mode;
};

bool is(const Setup *setup, const char *mode) {
    return !std::strcmp(setup->mode, mode);
}

void misuse(const Setup *setup) {
    if (is(setup, "misuse-pop")) ars_scope_pop();
    if (is(setup, "misuse-empty-scope")) ars_scope_push("");
    if (is(setup, "misuse-deep"))
        for (int i = 0; i < 100; i++) ars_scope_push("deeper");
    if (is(setup, "misuse-many"))
        for (int i = 0; i < 10000; i++) {
            char name[20];
            std::snprintf(name, sizeof name, "scope %d", i);
            ars_scope_push(name);
            ars_scope_pop();
        }
    if (is(setup, "misuse-parameter")) ars_sample(nullptr, ars_normal(0, -1));
    if (is(setup, "misuse-empty-name")) ars_sample("", ars_normal(0, 1));
    if (is(setup, "misuse-late-policy")) ars_flat_policy("*", ARS_NUISANCE);
    if (is(setup, "left-open")) ars_scope_push("left open");
}

void one_event(const Setup *setup) {
    misuse(setup);
    errno = 17;
    ars_scope_push("run/one");
    Event event = setup->generator->next();
    ars_scope_pop();
    if (errno != 17) std::abort();
    double extra = ars_sample(nullptr, ars_normal(0, 1)); /* one function that draws from two kinds of distribution */
    ars_result("energy", event.energy);
    ars_result("angle", event.angle);
    ars_result("shower", event.shower);
    ars_result("extra", extra);
    double y = ars_observe("y", ars_normal(event.energy + event.angle, 0.1));
    if (ars_standalone())
        std::printf("%.17g %.17g %.17g %.17g %.17g\n", event.energy, event.angle, event.shower, extra, y);
}

void model(void *setup) {
    one_event(static_cast<Setup *>(setup));
}

} // namespace

int main(int argc, char **argv) {
    ArsEngine engine;
    Hooks hooks = {try_begins, accepted};
#ifdef DLOPEN
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    Generator *(*make)(Engine *, Hooks) =
        reinterpret_cast<Generator *(*)(Engine *, Hooks)>(dlsym(library, "make_generator"));
    argv++;
    argc--;
#else
    Generator *(*make)(Engine *, Hooks) = make_generator;
#endif
    Setup setup = {make(&engine, hooks), argc > 1 ? argv[1] : ""};
    if (is(&setup, "policy")) {
        ars_flat_policy("*", ARS_NUISANCE);
        ars_flat_policy("decay/", ARS_LATENT);
    }
    if (is(&setup, "misuse-pattern")) ars_flat_policy("", ARS_LATENT);
    if (is(&setup, "misuse-kind")) ars_flat_policy("a", static_cast<ars_policy>(7));
    if (is(&setup, "misuse-outside")) ars_flat();
    if (is(&setup, "misuse-outside-sample")) ars_sample(nullptr, ars_uniform(0, 1));
    if (is(&setup, "misuse-outside-scope")) ars_scope_push("early");
    if (!is(&setup, "events")) return ars_main(argc, argv, model, &setup);
    while (ars_next_trace()) one_event(&setup);
    return 0;
}
