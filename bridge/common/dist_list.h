/* dist_list.h: the list of distributions. Every table of kinds, in C and in Python, is made from it. */
#ifndef ARS_COMMON_DIST_LIST_H
#define ARS_COMMON_DIST_LIST_H

/* The codes on the wire, never renumbered. */
/* cffi: begin */
enum ars_dist_kind {
    ARS_DIST_UNIFORM = 1,
    ARS_DIST_NORMAL = 2,
    ARS_DIST_BERNOULLI = 3,
    ARS_DIST_CATEGORICAL = 4, /* k probabilities */
    ARS_DIST_POISSON = 5,
    ARS_DIST_BINOMIAL = 6,
    ARS_DIST_BETA = 7,
    ARS_DIST_GAMMA = 8,
    ARS_DIST_EXPONENTIAL = 9,
    ARS_DIST_WEIBULL = 10,
    ARS_DIST_LOGNORMAL = 11,
    ARS_DIST_TRUNCATED_NORMAL = 12,
    ARS_DIST_SCALED_BETA = 13,
    ARS_DIST_MIXTURE = 14, /* a proposal: components of any kind but Categorical and Mixture */
    ARS_DIST_PRIOR = 15,   /* a proposal: whatever the prior is */
    ARS_DIST_GIVEN = 16,   /* instead of a proposal: this value, not drawn (bridge/lib/given.h) */
    ARS_DIST_NEGATIVE_BINOMIAL = 17,
    ARS_DIST_STUDENT_T = 18,
    /* Vectors are drawn coordinate by coordinate: these two are one coordinate, given those before it (dist_vector.h). */
    ARS_DIST_MULTIVARIATE_NORMAL = 19,
    ARS_DIST_DIRICHLET = 20
};
/* cffi: end */
enum { ARS__DIST_LAST = ARS_DIST_DIRICHLET }; /* the largest code; a row beyond it does not compile */

/* One row per distribution with a fixed number of parameters:
 *
 *     X(CODE, name, "Name", use, values, ordered, n, {"parameter", rule}, ...)
 *
 * name     of its functions: ars__log_<name> is the log density, ars__draw_<name> the sampler
 * use      PRIOR: simulators draw from it, and proposals may use it; PROPOSAL: proposals only; COORDINATE: of a vector that
 *          simulators draw from, given the coordinates before it (dist_vector.h)
 * values   enum ars__values: the numbers that can be drawn, whatever the parameters
 * ordered  index of a parameter that must be below the next one; -1: none
 * n        number of parameters, 1 to 4; each has an enum ars__rule
 *
 * Categorical, Mixture, Prior and Given have no row: dist.c treats them apart. */
/* clang-format off */
#define ARS__DIST_LIST(X)                                                                                              \
    X(UNIFORM, uniform, "Uniform", PRIOR, REALS, 0, 2, {"low", ARS__REAL}, {"high", ARS__REAL})                        \
    X(NORMAL, normal, "Normal", PRIOR, REALS, -1, 2, {"mean", ARS__REAL}, {"std", ARS__POSITIVE})                      \
    X(BERNOULLI, bernoulli, "Bernoulli", PRIOR, BITS, -1, 1, {"p", ARS__PROBABILITY})                                  \
    X(POISSON, poisson, "Poisson", PRIOR, COUNTS, -1, 1, {"rate", ARS__RATE})                                          \
    X(BINOMIAL, binomial, "Binomial", PRIOR, COUNTS, -1, 2, {"n", ARS__COUNT}, {"p", ARS__PROBABILITY})                \
    X(BETA, beta, "Beta", PRIOR, UNIT, -1, 2, {"a", ARS__SHAPE}, {"b", ARS__SHAPE})                                    \
    X(GAMMA, gamma, "Gamma", PRIOR, FROM_ZERO, -1, 2, {"shape", ARS__SHAPE}, {"rate", ARS__POSITIVE})                  \
    X(EXPONENTIAL, exponential, "Exponential", PRIOR, FROM_ZERO, -1, 1, {"rate", ARS__POSITIVE})                       \
    X(WEIBULL, weibull, "Weibull", PRIOR, FROM_ZERO, -1, 2, {"scale", ARS__POSITIVE}, {"shape", ARS__SHAPE})           \
    X(LOGNORMAL, lognormal, "LogNormal", PRIOR, ABOVE_ZERO, -1, 2, {"mu", ARS__REAL}, {"sigma", ARS__POSITIVE})        \
    X(TRUNCATED_NORMAL, truncated_normal, "TruncatedNormal", PRIOR, REALS, 2, 4,                                       \
      {"mean", ARS__REAL}, {"std", ARS__POSITIVE}, {"low", ARS__BOUND}, {"high", ARS__BOUND})                          \
    X(SCALED_BETA, scaled_beta, "ScaledBeta", PROPOSAL, REALS, 2, 4,                                                   \
      {"a", ARS__SHAPE}, {"b", ARS__SHAPE}, {"low", ARS__REAL}, {"high", ARS__REAL})                                   \
    X(NEGATIVE_BINOMIAL, negative_binomial, "NegativeBinomial", PRIOR, COUNTS, -1, 2,                                  \
      {"r", ARS__SHAPE}, {"p", ARS__PROBABILITY})                                                                      \
    X(STUDENT_T, student_t, "StudentT", PRIOR, REALS, -1, 3,                                                           \
      {"df", ARS__SHAPE}, {"loc", ARS__REAL}, {"scale", ARS__POSITIVE})                                                \
    X(MULTIVARIATE_NORMAL, multivariate_normal, "MultivariateNormal", COORDINATE, REALS, -1, 2,                        \
      {"mean", ARS__REAL}, {"std", ARS__POSITIVE})                                                                     \
    X(DIRICHLET, dirichlet, "Dirichlet", COORDINATE, UNIT, 2, 4,                                                       \
      {"a", ARS__SHAPE}, {"b", ARS__SHAPE}, {"low", ARS__REAL}, {"high", ARS__REAL})
/* clang-format on */

#endif /* ARS_COMMON_DIST_LIST_H */
