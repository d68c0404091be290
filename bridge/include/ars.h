/* ars.h: link a stochastic simulator to the ars controller.
 *
 * A simulator names its random draws and marks its rejection-sampling loops:
 *
 *     for (;;) {
 *         rs_start();                                        // entry, and every retry
 *         x = ars_sample("x", ars_uniform(-1, 1));
 *         if (x * x < 0.5) { rs_end(); break; }              // accepted
 *     }
 *     ars_observe("y", ars_normal(x, 0.1));
 *
 * Run by hand, the program is an ordinary simulator: every draw comes from its prior. Run by the Python controller, the same
 * program works backwards. README.md shows how.
 *
 * Before you begin:
 *  - Use one thread. The thread that calls ars_main, or ars_next_trace for the first time, owns libars. Only this thread may
 *    draw, observe, record and mark loops; other threads may compute. A call from another thread ends the trace with the
 *    failure `threads`. Without a controller, the program prints a message and aborts (loop marks then do nothing).
 *    libars forks the simulator inside its loops, so no other thread may exist when the first trace begins or when a
 *    marked loop is entered.
 *  - Leave every loop through rs_end(), or ars_loop_accept() if it has a handle. Leaving it by return, exception or
 *    longjmp is an error that names the loop. One mistake cannot be detected: break without rs_end, if the same call of
 *    the function enters the same loop again and ends it. Therefore write rs_end before every break.
 *  - Observe nothing (ars_observe, ars_factor) inside a loop.
 *  - A try must not depend on earlier tries: the acceptance probability of a loop is a function of the state at its entry.
 *  - rs_end means "accepted". A loop that gives up after a number of tries must not call it, because the weights would count
 *    the last try as accepted. Use a handle for such a loop, and call ars_loop_abandon.
 *  - Inside a marked loop, take random numbers only from ars_sample and ars_draw. Each fork copies the state of your own
 *    generators (rand, std::mt19937). All continuations would then repeat the same numbers, their tries would not be
 *    independent, and the estimated acceptance would be wrong. libars cannot always detect this; `ars check` finds many cases.
 *  - Names are UTF-8. "/" separates a site from the loops around it. A name may contain it, but "a/x" outside any loop and
 *    "x" in the loop "a" would then be the same site. The trace fails in that case.
 *  - Declare variable-length arrays after rs_start, or outside the function that holds the loop. Suppose that an array is
 *    declared before rs_start in a block that is entered again. GCC then keeps its memory until the function returns. Clang
 *    frees the mark of the loop with the array, and libars reports that the loop was left.
 *  - Guard side effects inside loops (files, printing) with ars_in_continuation().
 *  - Under a controller, misuse of this interface ends the trace with a named failure. Without one, the program prints a
 *    message to stderr and aborts, like a failed assert (loop marks then do nothing).
 */
#ifndef ARS_H
#define ARS_H

#include <stdbool.h>
#include <stddef.h>

#define ARS_VERSION_MAJOR 0
#define ARS_VERSION_MINOR 1
#define ARS_VERSION_PATCH 0

#if defined(__GNUC__)
/* noinline: loop marks read the caller's stack pointer, so a call must be a call, also under link-time optimisation. */
#define ARS_API __attribute__((visibility("default"), noinline))
#else
#error "libars needs GCC or Clang: loop marks use their frame-address and statement-expression extensions"
#endif

/* For calls that are named by their call path. Otherwise, Clang merges equal calls in two branches, and with them their names. */
#ifdef __has_attribute
#if __has_attribute(nomerge)
#define ARS__APART __attribute__((nomerge))
#endif
#endif
#ifndef ARS__APART
#define ARS__APART
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- distributions -------------------------------------------------------------------------------------------- */

/* A distribution: a small value, built where it is used. Its fields are private. Categorical keeps a pointer to the
 * caller's probabilities, which must stay valid during the call that receives the distribution. That call also reports
 * wrong parameters, with the name of the site. */
typedef struct ars_dist {
    unsigned kind;
    unsigned n;
    const double *p;
    double a[4];
} ars_dist;

ARS_API ars_dist ars_uniform(double low, double high);       /* on [low, high] */
ARS_API ars_dist ars_normal(double mean, double std);        /* with a mean and a standard deviation */
ARS_API ars_dist ars_bernoulli(double p);                    /* 1 with probability p, otherwise 0 */
ARS_API ars_dist ars_categorical(const double *p, size_t k); /* 0 .. k-1; p sums to 1 */
ARS_API ars_dist ars_poisson(double rate);                   /* counts; their mean is rate */
ARS_API ars_dist ars_binomial(unsigned n, double p);         /* successes in n trials */
ARS_API ars_dist ars_beta(double a, double b);               /* on [0, 1]; the mean is a / (a + b) */
ARS_API ars_dist ars_gamma(double shape, double rate);       /* the mean is shape / rate */
ARS_API ars_dist ars_exponential(double rate);               /* the mean is 1 / rate */
ARS_API ars_dist ars_weibull(double scale, double shape);    /* an Exponential if shape is 1 */
ARS_API ars_dist ars_lognormal(double mu, double sigma);     /* the exponential of a Normal(mu, sigma) */
ARS_API ars_dist ars_truncated_normal(double mean, double std, double low, double high); /* a restricted Normal */
ARS_API ars_dist ars_negative_binomial(double r, double p); /* failures before r successes; r: any number > 0 */
ARS_API ars_dist ars_student_t(double df, double loc, double scale); /* with df degrees of freedom, centred at loc */

/* Returns the log density of x, or the log probability of a discrete value: -INFINITY outside the support, NaN if x is NaN.
 * The call draws and records nothing, so any thread may use it, inside or outside a trace or loop. Wrong parameters are an
 * error, as in the calls below; outside a trace and in other threads, the result is NaN instead. */
ARS_API double ars_log_density(ars_dist d, double x);

/* Vectors of at most 512 coordinates. Draw them with ars_sample_vector or ars_draw_vector, and observe them with
 * ars_observe_vector. The parameters are kept by pointer, like those of a Categorical.
 *
 * MultivariateNormal takes its mean and the lower Cholesky factor of its covariance: n x n numbers in row-major order, 0
 * above the diagonal. Dirichlet gives n positive numbers that sum to 1. Each coordinate is a separate latent, proposed
 * given the earlier ones. The last coordinate of a Dirichlet follows from the others and is not recorded. A coordinate of a
 * Dirichlet is exact to 1e-16 of the remainder that earlier coordinates leave of 1. With concentrations far below 1, put
 * those coordinates first that must be exact even when tiny. */
ARS_API ars_dist ars_multivariate_normal(const double *mean, const double *cholesky, size_t n);
ARS_API ars_dist ars_dirichlet(const double *concentration, size_t n);

/* Returns the number of values in one draw: n for these two, 1 for all others. */
ARS_API size_t ars_dimension(ars_dist d);

/* ---- random choices -------------------------------------------------------------------------------------------- */

/* Draws a latent: the controller proposes it and records it under `name`. Returns the value. The name is copied. A site always
 * has the same kind of distribution. If `name` is NULL, the draw is named by its call path, like ars_flat. */
ARS_API double ars_sample(const char *name, ars_dist d) ARS__APART;

/* Draws n latents of one site in one request to the controller. Values and records equal those of n calls of
 * ars_sample(name, d[i]), for a fraction of the waiting time. `values` receives ars_dimension(d[i]) numbers for each. All d
 * must be of the same kind. n may be 0. For kinds with one value, `name` may be NULL, as for ars_sample. */
ARS_API void ars_sample_vector(const char *name, const ars_dist *d, size_t n, double *values) ARS__APART;

/* Draws a nuisance: always from the prior, never recorded. */
ARS_API double ars_draw(ars_dist d);
/* Draws n nuisances into `values`. */
ARS_API void ars_draw_vector(const ars_dist *d, size_t n, double *values);

/* ---- draws without names --------------------------------------------------------------------------------------- */

/* Draws a uniform number strictly inside (0, 1), for generators that request random numbers without naming them. The draw is a
 * latent unless ars_flat_policy makes it a nuisance. Its name is its call path: the open scopes, then the functions from
 * the model down to the one that draws, each with the index of the call in it:
 *
 *     "tau decay/pythia>model#1>TauDecays::decay#3>isotropicDecay#2"     // in the loop "tau decay" and the scope "pythia"
 *
 * Names survive recompilation with other flags if the program has debug information (-g); docs/unnamed-draws.md has the
 * details. The plain simulator computes no names. */
ARS_API double ars_flat(void) ARS__APART;
#ifndef __cplusplus
#define ars_flat()                                                                                                     \
    (__extension__({                                                                                                   \
        double ars__u = (ars_flat)();                                                                                  \
        __asm__ volatile("");                                                                                          \
        ars__u;                                                                                                        \
    })) /* never a tail call */
#else
extern "C++" __attribute__((always_inline)) inline double ars_flat_here() {
    double drawn = (ars_flat)();
    __asm__ volatile(""); /* never a tail call */
    return drawn;
}
#define ars_flat() ars_flat_here() /* also where C++ allows no statement: default arguments and members */
#endif

/* Opens and closes a scope: a prefix for the names of unnamed draws. Named draws keep their names. Scopes nest, at most
 * ARS_MAX_SCOPES deep. The name is copied. A retry of a loop restores the scopes of the loop's entry. The end of a trace closes
 * all open scopes, so a scope that was left by longjmp does not last. ars_scope_pop without an open scope is an error. */
#define ARS_MAX_SCOPES 64
ARS_API void ars_scope_push(const char *name);
ARS_API void ars_scope_pop(void);

/* Makes unnamed draws whose address matches the pattern latents, or nuisances (drawn from the prior and not recorded). A
 * pattern with * (any characters) or ? (any one character) must match the entire address; a pattern without them must occur in
 * it. The last matching rule wins; a draw that matches none is a latent. Call this before the first trace. Rules that the
 * user gives to the controller (flat_policy=, --latent, --nuisance) come after those of the program. */
enum ars_policy { ARS_LATENT = 1, ARS_NUISANCE = 2 };
ARS_API void ars_flat_policy(const char *pattern, enum ars_policy policy);

/* ---- data and results ------------------------------------------------------------------------------------------- */

/* Observes data. If the controller gives data of this name, the call scores and returns it; otherwise it draws from d. Calls
 * with the same name in one trace take the elements of the given array in order.
 *
 * NaN in the given data means "not observed": the value is drawn from d, as without data, and the likelihood does not change.
 * The program may use the returned value, and weights stay exact. The call never returns NaN.
 *
 * A value that the distribution cannot take for any parameters is an error in the data (`observation`, which ends the run): a
 * fraction or a negative number for Poisson, Binomial or Categorical; anything but 0 or 1 for Bernoulli; a negative number for
 * Exponential, Gamma or Weibull; 0 or less for LogNormal; anything outside 0 to 1 for Beta. Bounds that are parameters may
 * depend on latents, so a value beyond them has likelihood 0 instead: outside a Uniform or TruncatedNormal, above the n of a
 * Binomial or the k of a Categorical. */
ARS_API double ars_observe(const char *name, ars_dist d);

/* Observes data that the program itself holds. A posterior run scores `value`, unless the controller gives data of this name,
 * which override it. Runs that simulate their data (prior draws, training) and the plain simulator ignore `value` and draw from
 * d, as ars_observe does. NaN means "not observed". Returns the value that was observed or drawn. A program that holds all its
 * data needs none from the controller: posterior(observe={}). A network that was trained with this name needs the data before
 * the first draw; in that case, also pass them in observe=. */
ARS_API double ars_observe_value(const char *name, ars_dist d, double value);

/* Observes n independent Normals at once. `value` (may be NULL) receives the observed numbers. Elements given as NaN are not
 * observed: they are drawn and do not enter the likelihood. */
ARS_API void ars_observe_normals(const char *name, const double *mean, const double *std, size_t n, double *value);

/* Observes n independent numbers at once, from distributions of any kinds, which may differ. `value` is as above. The data are
 * a single array, and the trace records a single array. */
ARS_API void ars_observe_vector(const char *name, const ars_dist *d, size_t n, double *value);

/* Observes n numbers that the program itself holds at `given`, each as ars_observe_value does. `value` (may be NULL, or `given`
 * itself if that is not const) receives the numbers that were observed or drawn. */
ARS_API void ars_observe_values(const char *name, const ars_dist *d, size_t n, const double *given, double *value);

/* Returns all data that the controller gives for `name`, and sets *n to their number. Use it in a program that needs the data
 * before it observes them, for example because their number decides how it runs. They count as observed, but the call scores
 * and records nothing. Returns NULL and sets *n to 0 if there are none, and in runs that simulate their data. The pointer is
 * valid until the trace ends. */
ARS_API const double *ars_given(const char *name, size_t *n);

/* Multiplies the likelihood by exp(log_likelihood). -INFINITY makes it 0. A sum that overflows to +INFINITY is an error. */
ARS_API void ars_factor(const char *name, double log_likelihood);

/* Records quantities of interest with the trace: one number, or n. */
ARS_API void ars_result(const char *name, double value);
ARS_API void ars_results(const char *name, const double *value, size_t n);

/* Records an array with n_dims axes, at most 32, of the lengths in `shape`, in row-major order. The shape may differ between
 * traces: arrays with the same number of axes are padded with NaN to the longest ones. With n_dims = 0 it is one number. */
ARS_API void ars_results_shaped(const char *name, const double *value, const size_t *shape, size_t n_dims);

/* ---- running -------------------------------------------------------------------------------------------------- */

/* Runs a model that is a function, once per trace. Returns the exit code for main. */
ARS_API int ars_main(int argc, char **argv, void (*model)(void *), void *user);

/* Begins the next trace, for a simulator with its own event loop: while (ars_next_trace()) { one event }. Without a
 * controller it returns true once, or as often as the environment variable ARS_TRACES says; ARS_SEED fixes the draws. */
ARS_API bool ars_next_trace(void);

/* Returns true inside a trace: from the moment that ars_next_trace returns true, or ars_main calls the model, to the end of that
 * trace. Code that also runs before the first trace, such as a generator's initialisation, can check whether it may draw. */
ARS_API bool ars_in_trace(void);

/* Returns true in a continuation: a re-run of a loop, whose only effect should be its acceptance. */
ARS_API bool ars_in_continuation(void);

/* Returns true between the entry of a marked loop and its end. Always false in the plain simulator, where marks do nothing. */
ARS_API bool ars_in_loop(void);

/* Returns true if no controller drives this process. Print results only then. */
ARS_API bool ars_standalone(void);

/* Returns the version of libars that the program runs with, such as "0.1.0". ARS_VERSION_MAJOR, _MINOR and _PATCH are the
 * version that it was compiled with. */
ARS_API const char *ars_version(void);

/* ---- rejection loops ------------------------------------------------------------------------------------------ */

/* ars_rs_start() marks the entry of a loop and every retry, ars_rs_end() its acceptance. Both belong in the function that
 * holds the loop. A loop may have a name, ars_rs_start("theta"), which keeps its address when code moves between functions.
 * An unnamed loop is called file:function#index. The short names rs_start() and rs_end() exist unless ARS_NO_SHORT_NAMES is
 * defined. */
#define ars_rs_start(...) ARS__RS_START("" __VA_ARGS__)
#define ars_rs_end() ars__rs_end(__builtin_frame_address(0), __FILE__, __func__)

#ifndef ARS_NO_SHORT_NAMES
#define rs_start(...) ars_rs_start(__VA_ARGS__)
#define rs_end() ars_rs_end()
#endif

/* A handle for a loop whose marks are in different functions. For example, an event generator begins a try in one method and
 * accepts it in another, or the marks are in interposed functions of a third-party program:
 *
 *     static ars_loop decay = ARS_LOOP("tau decay");
 *     void begin_decay(void)  { ars_loop_try(&decay); ... }        // entry, and every retry
 *     void write_decay(void)  { ...; ars_loop_accept(&decay); }    // accepted
 *
 * You own the handle, a small value that may be static, on the stack, or in an object. It must exist while its loop is open. It
 * holds the entire state of the loop; stack frames do not matter. Several handles may have the same name. Loops of all kinds may
 * be nested; each must end before the one around it. In a recursive function, every activation needs a separate handle: one
 * handle for two nested entries is an error, reported when the outer one ends. The rules at the top apply: call
 * ars_loop_accept or ars_loop_abandon before every way out of the loop.
 *
 * One mistake cannot be detected: a loop is left by return, exception or longjmp, and begun again later in the trace with the
 * same handle. This looks like a retry, so the draws made in between are discarded with the last try. Keep the lifetime of a
 * handle as short as possible, because libars does detect this mistake with local handles. In C++, call abandon() where you
 * catch the exception. */
typedef struct ars_loop {
    const char *name; /* the rest is private */
    unsigned ready;
    unsigned depth;
    unsigned long long entry;
} ars_loop;

/* Initialises a handle: ars_loop loop = ARS_LOOP("name"). The name is not copied. */
#define ARS_LOOP(loop_name)                                                                                            \
    { (loop_name), ARS__LOOP_READY, 0, 0 }
#define ARS__LOOP_READY 0x6c6f6f70u

/* Returns a handle with a name that is made at run time. The name is copied and kept until the process ends. */
ARS_API ars_loop ars_loop_named(const char *name);

/* Begins a try. If the handle is closed, this is the entry of the loop; otherwise it is a retry, which discards the draws of the
 * last try. */
ARS_API void ars_loop_try(ars_loop *loop);

/* Accepts the try and ends the loop. */
ARS_API void ars_loop_accept(ars_loop *loop);

/* Gives up: rejects the try and ends the loop. Use it in a loop that limits the number of tries.
 *
 *     for (int i = 0; i < 100; i++) {
 *         ars_loop_try(&loop);
 *         x = ars_sample("x", ars_normal(0, 1));
 *         if (x > limit) { ars_loop_accept(&loop); return x; }
 *     }
 *     ars_loop_abandon(&loop);
 *     return limit;                                                 // and the trace goes on
 *
 * The draws of the loop are removed from the trace, as after a rejected try. The weight of the trace stays correct;
 * docs/design.md has the proof. It covers a limit that is fixed when the loop is entered, and tries that themselves decide to be
 * the last. The weight of an abandoned loop contains p/q of all its tries. Where abandoning is common, keep the limit small or
 * the proposals close to the prior. If a program calls ars_loop_abandon anywhere, loops with handles take a little more work,
 * because libars must estimate how often each of them is abandoned. */
ARS_API void ars_loop_abandon(ars_loop *loop);
#define ars_loop_abandon(loop) ARS__LOOP_ABANDON(loop)

/* ars_reject(body, context) repeats bool body(void *context) until it returns true. It is an entire loop in one call, without
 * marks, and is never forked or rewound. Under a controller, libars estimates its acceptance by calling body many times before
 * the tries of the simulator itself. This is fast, and correct if body keeps two promises:
 *  - It changes nothing but *context and its own memory: no global or static variable, no file, no random number generator
 *    other than ars_sample and ars_draw, no allocation that it does not free.
 *  - It reads nothing from *context that an earlier call has written: every call begins in the same state.
 *
 * It may read anything else. After the loop, *context holds the state that the accepted try left. libars does not check the
 * promises, and a body that breaks them causes wrong weights. If a body cannot keep them, use a loop with rs_start and rs_end.
 *
 * The body may contain loops of either kind, and ars_reject may be used inside loops of either kind. There it is estimated in
 * every try of the outer loop, whereas a marked loop is estimated only in the accepted one. If the body fails, the trace ends
 * with that failure. An unnamed loop is named like an unnamed rs_start; ars_reject_named("theta", body, context) names it. */
#define ars_reject(body, context) ARS__REJECT("", body, context)
#define ars_reject_named(loop_name, body, context) ARS__REJECT("" loop_name, body, context)

/* ---- private: the parts of the loop macros ---------------------------------------------------------------------- */

/* A loop mark: one static record per rs_start in the source. `scope` groups the marks of one function, and the order of
 * their lines within it is what an unnamed loop is called by: adding lines above a loop does not rename it. */
typedef struct ars__loop_mark {
    const char *file;
    const char *scope;
    const char *func;
    const char *name;
    unsigned line;
    unsigned order; /* counted from 1 once known */
    struct ars__loop_mark *next;
} ars__loop_mark;

ARS_API void ars__register_loop_marks(ars__loop_mark *const *begin, ars__loop_mark *const *end);

/* True on entry into a loop whose function activation carries no tag yet; the macro then gives one. */
ARS_API bool ars__rs_start(ars__loop_mark *mark, void *frame, const void *pin);
ARS_API void ars__rs_tag(void *memory);
ARS_API void ars__rs_end(void *frame, const char *file, const char *func);
ARS_API void ars__reject(ars__loop_mark *mark, bool (*body)(void *), void *context);
ARS_API unsigned ars__scope_open(const char *name); /* for ars::scope: ars_scope_push, and the number of open scopes */
ARS_API void ars__scope_close(unsigned depth);      /* for its end, if no retry of a loop has closed it */
ARS_API double ars__outside_flat(void); /* for the adapters: a draw outside a trace, from a stream with a fixed seed */
ARS_API void ars__reject_named(const char *name, bool (*body)(void *), void *context); /* for the Fortran module */

/* Loop identity is (mark, frame). Four things in this macro keep the optimiser from blurring it:
 *  - &&ars__pin: a function whose label's address escapes cannot be inlined by Clang, and one that calls alloca cannot
 *    be inlined by GCC; so a recursive function keeps one frame per activation.
 *  - its value: GCC does inline an always_inline function, and every inlined copy has its own label, while the copies
 *    that peeling and unrolling make share one.
 *  - the mark is a static object, so copies of the call (peeling, unrolling, cloning) share it.
 *  - the alloca of a first entry lives as long as the activation and holds a number that no other has. A retry finds it
 *    where it was; a fresh activation that happens to sit at the same frame address does not: that is how a loop left
 *    by return and entered again is told from a retry. */
#define ARS__RS_CALL(mark)                                                                                             \
    ars__pin:                                                                                                          \
    if (ars__rs_start((mark), __builtin_frame_address(0), &&ars__pin)) ars__rs_tag(__builtin_alloca(32));              \
    (void)0;

#ifdef __cplusplus
} /* extern "C" */

namespace ars_detail {
/* A static member of a template is set up before main for every loop in the program, reached or not. The mark itself
 * has no initialiser of its own: the two would run in either order, and the later one undo the registration. */
template <class Tag> struct loop_mark_of {
    static ars__loop_mark mark;
    struct registrar {
        registrar() {
            ars__loop_mark made = {Tag::file(), Tag::func(), Tag::func(), Tag::name(), Tag::line(), 0, 0};
            ars__loop_mark *p = &mark;
            mark = made;
            ars__register_loop_marks(&p, &p + 1);
        }
    };
    static registrar registered;
};
template <class Tag> ars__loop_mark loop_mark_of<Tag>::mark;
template <class Tag> typename loop_mark_of<Tag>::registrar loop_mark_of<Tag>::registered;
} // namespace ars_detail

#define ARS__LOOP_MARK_HERE(loop_name)                                                                                 \
    static const char *const ars__func = __func__;                                                                     \
    struct ars__tag {                                                                                                  \
        static const char *file() { return __FILE__; }                                                                 \
        static const char *func() { return ars__func; }                                                                \
        static const char *name() { return loop_name; }                                                                \
        static unsigned line() { return __LINE__; }                                                                    \
    };                                                                                                                 \
    (void)ars_detail::loop_mark_of<ars__tag>::registered;
#define ARS__LOOP_MARK ars_detail::loop_mark_of<ars__tag>::mark

#else

/* The linker gathers the pointers to all marks of one program or shared library into one section. */
extern ars__loop_mark *const __start_ars_loop_marks[] __attribute__((weak, visibility("hidden")));
extern ars__loop_mark *const __stop_ars_loop_marks[] __attribute__((weak, visibility("hidden")));
#ifndef ARS__NO_REGISTER /* for files without loops that are also linked without libars: ars-host, the Python module */
static void __attribute__((constructor, unused)) ars__register_module(void) {
    if (__start_ars_loop_marks) ars__register_loop_marks(__start_ars_loop_marks, __stop_ars_loop_marks);
}
#endif

#define ARS__LOOP_MARK_HERE(loop_name)                                                                                 \
    static ars__loop_mark ars__here = {__FILE__, __func__, __func__, loop_name, __LINE__, 0, 0};                       \
    static ars__loop_mark *const ars__listed __attribute__((section("ars_loop_marks"), used)) = &ars__here;            \
    (void)ars__listed;
#define ARS__LOOP_MARK ars__here
#endif

#define ARS__RS_START(loop_name)                                                                                       \
    (__extension__({                                                                                                   \
        __label__ ars__pin;                                                                                            \
        ARS__LOOP_MARK_HERE(loop_name)                                                                                 \
        ARS__RS_CALL(&ARS__LOOP_MARK)                                                                                  \
    }))

/* A mark without a name is no loop: it says, before main, that the program abandons loops. */
#define ARS__LOOP_ABANDON(loop)                                                                                        \
    (__extension__({                                                                                                   \
        ARS__LOOP_MARK_HERE(0)                                                                                         \
        ars_loop_abandon(loop);                                                                                        \
    }))

#define ARS__REJECT(loop_name, body, context)                                                                          \
    (__extension__({                                                                                                   \
        ARS__LOOP_MARK_HERE(loop_name)                                                                                 \
        ars__reject(&ARS__LOOP_MARK, (body), (context));                                                               \
    }))

#endif /* ARS_H */
