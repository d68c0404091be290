/* policy.h: which unnamed draws are latents, and which are nuisances. */
#ifndef ARS_LIB_POLICY_H
#define ARS_LIB_POLICY_H

#include <stdbool.h>
#include <stddef.h>

#include "ars.h"

enum { ARS__MOST_RULES = 256 };

struct ars__policy {
    struct ars__rule {
        char *pattern;
        enum ars_policy policy;
    } * at;
    size_t n;
};

/* Adds the rules of ARS_FLAT_POLICY, which win over the program's own; before the first trace. */
void ars__policy_from_outside(void);
/* What the rules make of the unnamed draw at this address. */
bool ars__policy_is_nuisance(const char *address);

#endif /* ARS_LIB_POLICY_H */
