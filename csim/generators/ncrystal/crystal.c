/* crystal: neutrons of unknown wavelength are reflected by a crystal of unknown orientation, and hit a detector bank.
 *
 * All scattering is NCrystal's: Bragg reflection by the blocks of a mosaic germanium crystal, and inelastic and incoherent
 * scattering, which may send a neutron anywhere. NCrystal's source is not touched. It asks for random numbers through a function,
 * and gets them from libars.
 *
 *   x, y   the horizontal plane; the beam flies along x
 *   z      up
 *
 * The (111) planes reflect by the angle 2 theta, where wavelength = 2 d sin(theta), if their normal lies close to that direction;
 * else nearly all neutrons fly on. So the chance that a neutron hits the bank depends on wavelength and orientation: from two in
 * three in reflection to one in a hundred. Every detected neutron is one loop, until a neutron is detected. */
#include <NCrystal/cinterface/ncrystal.h>
#include <math.h>
#include <stdio.h>

#include <ars/flat.h>

#include "../../args.h"

static const double DEGREE = 3.14159265358979323846 / 180;

static const char CRYSTAL[] =
    "stdlib::Ge_sg227.ncmat;temp=300K;mos=4deg;" /* the (111) normal at 135 degrees from the beam: */
    "dir1=@crys_hkl:1,1,1@lab:-1,1,0;dir2=@crys_hkl:0,-1,1@lab:0,0,1";
static const double THICKNESS = 3;                              /* cm */
static const double SPREAD = 0.01;                              /* of the wavelength */
static const double BANK[2] = {65, 115}, BANK_HEIGHT = 20;      /* degrees */
static const double RESOLUTION_ACROSS = 1.2, RESOLUTION_UP = 3; /* degrees */

struct setup {
    ncrystal_scatter_t scatter;
    double density; /* atoms per barn and centimetre */
    int neutrons;   /* detected ones per trace */
};

struct orientation { /* degrees off the position that the crystal was mounted for */
    double turn;     /* about the vertical axis */
    double tilt;     /* about the horizontal axis in the reflecting planes */
};

struct hit { /* degrees */
    double across, up;
};

static void turn(double v[3], double angle) {
    double c = cos(angle * DEGREE), s = sin(angle * DEGREE), x = v[0], y = v[1];
    v[0] = c * x - s * y;
    v[1] = s * x + c * y;
}

/* About (1, 1, 0), by way of the frame in which that is the x-axis. */
static void tilt(double v[3], double angle) {
    turn(v, -45);
    double c = cos(angle * DEGREE), s = sin(angle * DEGREE), y = v[1], z = v[2];
    v[1] = c * y - s * z;
    v[2] = s * y + c * z;
    turn(v, 45);
}

/* One neutron: false if it flies through the crystal without touching it. Turning the crystal is turning the neutron back. */
static bool scattered(const struct setup *setup, const struct orientation *o, double wavelength, struct hit *hit) {
    double energy = ncrystal_wl2ekin(wavelength), energy_after, barn, in[3] = {1, 0, 0}, out[3];
    turn(in, -o->turn);
    tilt(in, -o->tilt);
    const double(*direction)[3] = (const double(*)[3]) & in;
    ncrystal_crosssection(ncrystal_cast_scat2proc(setup->scatter), energy, direction, &barn);
    double depth = ars_sample("depth", ars_exponential(1)); /* in mean free paths */
    if (depth > setup->density * barn * THICKNESS) return false;
    ncrystal_samplescatter(setup->scatter, energy, direction, &energy_after, &out);
    tilt(out, o->tilt);
    turn(out, o->turn);
    hit->across = atan2(out[1], out[0]) / DEGREE;
    hit->up = asin(fmax(-1, fmin(1, out[2]))) / DEGREE;
    return true;
}

static bool in_bank(const struct hit *hit) {
    return hit->across > BANK[0] && hit->across < BANK[1] && fabs(hit->up) < BANK_HEIGHT;
}

static void detect(const struct setup *setup, const struct orientation *o, double wavelength, struct hit *hit) {
    for (;;) {
        rs_start("neutron");
        double spread = ars_sample("spread", ars_normal(0, SPREAD));
        if (scattered(setup, o, wavelength * (1 + spread), hit) && in_bank(hit)) {
            rs_end();
            return;
        }
    }
}

static void model(void *user) {
    const struct setup *setup = user;
    double wavelength = ars_sample("wavelength", ars_uniform(4.45, 4.85)); /* angstrom */
    struct orientation o;
    o.turn = ars_sample("turn", ars_normal(0, 1.5));
    o.tilt = ars_sample("tilt", ars_normal(0, 2.5));
    for (int i = 0; i < setup->neutrons; i++) {
        struct hit hit;
        detect(setup, &o, wavelength, &hit);
        double across = ars_observe("across", ars_normal(hit.across, RESOLUTION_ACROSS));
        double up = ars_observe("up", ars_normal(hit.up, RESOLUTION_UP));
        if (ars_standalone())
            printf("wavelength %.17g turn %.17g tilt %.17g across %.17g up %.17g\n", wavelength, o.turn, o.tilt, across,
                   up);
    }
}

int main(int argc, char **argv) {
    const char *usage = "crystal [NEUTRONS]   (default 4)";
    struct setup setup;
    args_count(usage, argc, 0, 1);
    setup.neutrons =
        argc > 1 ? args_integer(usage, argv[1], 1, 1000, "NEUTRONS must be a whole number from 1 to 1000") : 4;

    ncrystal_setrandgen(ars_flat_function);
    setup.scatter = ncrystal_create_scatter(CRYSTAL);
    ncrystal_info_t info = ncrystal_create_info(CRYSTAL);
    setup.density = ncrystal_info_getnumberdensity(info); /* per cubic angstrom, which is the same */
    ncrystal_unref(&info);

    /* Of all that NCrystal draws, the choice between its processes is worth proposing: a neutron in the spot was reflected. The other
     * draws turn a mosaic block about the beam, or are background, in loops that draw how often they like. */
    ars_flat_policy("*", ARS_NUISANCE);
    ars_flat_policy("*ProcComposition::sampleScatter#?", ARS_LATENT);
    return ars_main(argc, argv, model, &setup);
}
