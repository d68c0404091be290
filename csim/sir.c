/* sir: an epidemic in a closed population, seen through its reported cases.
 *
 * Of every POPULATION people some are susceptible, some infected, some recovered. The outbreak is in the records because
 * somebody noticed it: its beginning is drawn again until there are at least 10 infected. Then, day by day, each infected
 * person recovers or stays infectious, each susceptible one is infected or not, and a share of the new infections is
 * reported. With the default of 20 days a trace has 45 latents and the loop; the data are the 20 numbers of cases.
 *
 * tests/exact.py computes the evidence for a small population. */
#include <ars.h>

#include "args.h"

enum { NOTICED = 10, MAX_DAYS = 60 };

struct parameters {
    int days, population;
};

struct rates {
    double transmission, recovery, reporting; /* per day, per day, share of the infections */
};

/* How many are infected when the outbreak is noticed: travellers who came back ill, and those whom they infected. */
static int beginning(const struct rates *rates, int population) {
    double reproduction = rates->transmission / rates->recovery;
    for (;;) {
        rs_start("beginning");
        double imported = ars_sample("imported", ars_poisson(5));
        double local = ars_sample("local", ars_poisson(imported * reproduction));
        if (imported + local >= NOTICED && imported + local <= population) {
            rs_end();
            return (int)(imported + local);
        }
    }
}

static void model(void *user) {
    const struct parameters *with = user;
    const double no_report = 0.5; /* cases per day that are no infections: every count has some probability */
    struct rates rates;
    rates.transmission = ars_sample("transmission", ars_lognormal(log(0.5), 0.3));
    rates.recovery = ars_sample("recovery", ars_lognormal(log(0.2), 0.3));
    rates.reporting = ars_sample("reporting", ars_beta(5, 5));

    int infected = beginning(&rates, with->population), susceptible = with->population - infected;
    double cases[MAX_DAYS], prevalence[MAX_DAYS];
    for (int day = 0; day < with->days; day++) {
        double recovers = 1 - exp(-rates.recovery);
        infected -= (int)ars_sample("recoveries", ars_binomial((unsigned)infected, recovers));
        double is_infected = 1 - exp(-rates.transmission * infected / with->population);
        int infections = (int)ars_sample("infections", ars_binomial((unsigned)susceptible, is_infected));
        susceptible -= infections;
        infected += infections;
        cases[day] = ars_observe("cases", ars_poisson(rates.reporting * infections + no_report));
        prevalence[day] = infected;
    }

    ars_result("reproduction", rates.transmission / rates.recovery);
    ars_result("attack_rate", 1 - (double)susceptible / with->population);
    ars_results("prevalence", prevalence, (size_t)with->days);
    if (ars_standalone()) {
        printf("transmission %.6g recovery %.6g reporting %.6g cases", rates.transmission, rates.recovery,
               rates.reporting);
        for (int day = 0; day < with->days; day++) printf(" %.0f", cases[day]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    const char *usage = "sir [DAYS [POPULATION]]   (default 20 1000)";
    args_count(usage, argc, 0, 2);
    struct parameters with = {.days = 20, .population = 1000};
    if (argc > 1) with.days = args_integer(usage, argv[1], 1, MAX_DAYS, "DAYS must be a whole number from 1 to 60");
    if (argc > 2) {
        const char *what = "POPULATION must be a whole number from 20 to 1000000";
        with.population = args_integer(usage, argv[2], 20, 1000000, what);
    }
    return ars_main(argc, argv, model, &with);
}
