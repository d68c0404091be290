/* mini_sherpa: a much simplified event generator. A mother particle decays into one, two or three particles, which hit
 * a calorimeter; the angles of the decay come from a rejection loop each, with p(A) = 1/2.
 *
 * The data are the 20 x 20 noisy counts of deposits in the calorimeter, index = ix * 20 + iy. */
#include <ars.h>

#include "args.h"

#define PI 3.14159265358979323846
enum { MAX_PARTICLES = 3, BINS = 20 };

typedef struct {
    double x, y, z;
} vec;

static double norm(vec v) {
    return sqrt(v.x * v.x + v.y * v.y + v.z * v.z);
}
static vec minus(vec v, vec w) {
    return (vec){v.x - w.x, v.y - w.y, v.z - w.z};
}

/* Takes +z to the direction of v: first about y by the polar angle of v, then about z by its azimuth. */
static vec rotate_to(vec v, vec d) {
    double theta = acos(v.z / norm(v)), phi = atan2(v.y, v.x);
    vec e = {cos(theta) * d.x + sin(theta) * d.z, d.y, cos(theta) * d.z - sin(theta) * d.x};
    return (vec){cos(phi) * e.x - sin(phi) * e.y, sin(phi) * e.x + cos(phi) * e.y, e.z};
}

/* A daughter that takes the fraction f of v along v and leaves at angle theta to it. */
static vec daughter(vec v, double f, double theta, double phi) {
    double size = norm(v) * f / cos(theta);
    vec d = {size * sin(theta) * cos(phi), size * sin(theta) * sin(phi), size * cos(theta)};
    return rotate_to(v, d);
}

/* Angle to the mother, with density |x| / scale^2 on [-scale, scale]. */
static double theta_loop(double scale) {
    for (;;) {
        rs_start();
        double x = ars_sample("x", ars_uniform(-scale, scale));
        double a = ars_sample("a", ars_uniform(0, 1 / scale));
        if (a <= fabs(x) / (scale * scale)) {
            rs_end();
            return x;
        }
    }
}

/* Splits the mother's momentum into n particles. */
static void decay(vec mother, int n, const double *theta, const double *phi, vec *particle) {
    vec rest = mother;
    for (int i = 0; i < n - 1; i++) {
        particle[i] = daughter(rest, 1.0 / (n - i), theta[i], phi[i]);
        rest = minus(rest, particle[i]);
    }
    particle[n - 1] = rest;
}

/* Adds the energy of one particle, smeared by a Gaussian of standard deviation 1 around the point where it hits. */
static void deposit(vec v, double *energy) {
    const double plane = 3;
    double x = plane / v.z * v.x, y = plane / v.z * v.y;
    for (int ix = 0; ix < BINS; ix++) {
        for (int iy = 0; iy < BINS; iy++) {
            double dx = ix - BINS / 2 + 0.5 - x, dy = iy - BINS / 2 + 0.5 - y;
            energy[ix * BINS + iy] += norm(v) * exp(-0.5 * (dx * dx + dy * dy)) / (2 * PI);
        }
    }
}

static void print_event(int n, vec mother, const double *count) {
    double total = 0;
    for (int i = 0; i < BINS * BINS; i++) total += count[i];
    printf("channel %d momentum %.6g %.6g %.6g deposits %.6g\n", n - 1, mother.x, mother.y, mother.z, total);
}

static void model(void *user) {
    (void)user;
    const double third[MAX_PARTICLES] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    int n = (int)ars_sample("channel", ars_categorical(third, MAX_PARTICLES)) + 1;
    vec mother;
    mother.x = ars_sample("px", ars_uniform(-0.5, 0.5));
    mother.y = ars_sample("py", ars_uniform(-0.5, 0.5));
    mother.z = ars_sample("pz", ars_uniform(10, 20));

    double thetas[MAX_PARTICLES], phis[MAX_PARTICLES];
    for (int i = 0; i < n - 1; i++) thetas[i] = theta_loop(PI / 4);
    for (int i = 0; i < n - 1; i++) phis[i] = ars_sample("phi", ars_uniform(0, 2 * PI));

    vec particle[MAX_PARTICLES];
    decay(mother, n, thetas, phis, particle);
    double energy[BINS * BINS] = {0}, mean[BINS * BINS], std[BINS * BINS], count[BINS * BINS];
    for (int i = 0; i < n; i++) deposit(particle[i], energy);
    for (int i = 0; i < BINS * BINS; i++) {
        mean[i] = energy[i] / 0.3;
        std[i] = fmax(sqrt(mean[i]), 0.3);
    }
    ars_observe_normals("calorimeter", mean, std, BINS * BINS, count);

    ars_result("channel", n - 1);
    ars_results("momentum", (const double[]){mother.x, mother.y, mother.z}, 3);
    if (n > 1) { /* one particle is no decay: it has no angles */
        ars_results("thetas", thetas, (size_t)n - 1);
        ars_results("phis", phis, (size_t)n - 1);
    }
    if (ars_standalone()) print_event(n, mother, count);
}

int main(int argc, char **argv) {
    args_count("mini_sherpa", argc, 0, 0);
    return ars_main(argc, argv, model, NULL);
}
