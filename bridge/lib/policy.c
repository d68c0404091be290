/* policy.c: latent or nuisance, by pattern of the address. */
#include "policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "family.h"
#include "process.h"
#include "thread_owner.h"
#include "wire.h"

/* * stands for any characters, ? for any one. */
static bool matches_whole(const char *pattern, const char *text) {
    const char *star = NULL, *from = NULL; /* the last *, and where what it stands for begins to end */
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static bool matches(const char *pattern, const char *text) {
    return strpbrk(pattern, "*?") ? matches_whole(pattern, text) : strstr(text, pattern) != NULL;
}

bool ars__policy_is_nuisance(const char *address) {
    const struct ars__policy *p = &ars__me.policy;
    for (size_t i = p->n; i-- > 0;)
        if (matches(p->at[i].pattern, address)) return p->at[i].policy == ARS_NUISANCE;
    return false;
}

/* A sentence about the mistake, or NULL. */
static const char *add(const char *pattern, size_t size, enum ars_policy policy) {
    struct ars__policy *p = &ars__me.policy;
    if (!size) return "the pattern is empty. \"*\" matches every unnamed draw";
    if (size > ARS_WIRE_MAX_NAME) return "the pattern is longer than any address can be (1024 bytes)";
    if (policy != ARS_LATENT && policy != ARS_NUISANCE) return "the policy must be ARS_LATENT or ARS_NUISANCE";
    if (p->n == ARS__MOST_RULES) return "there are more than 256 rules. Join some with * in their patterns";
    if (!p->at) p->at = malloc(ARS__MOST_RULES * sizeof *p->at);
    char *copy = strndup(pattern, size);
    if (!p->at || !copy) return "no memory for the rule";
    p->at[p->n++] = (struct ars__rule){copy, policy};
    return NULL;
}

void ars_flat_policy(const char *pattern, enum ars_policy policy) {
    int kept = errno;
    ars__thread_check(ARS__CALL_FLAT_POLICY);
    const char *shown = pattern ? pattern : "";
    if (ars__me.role != ARS__UNDECIDED)
        ars__fail(ARS_FAIL_MISUSE, 0,
                  "ars_flat_policy(\"%.80s\") was called after the first trace had begun. Call it before ars_main or "
                  "ars_next_trace",
                  shown);
    const char *problem = pattern ? add(pattern, strlen(pattern), policy) : "the pattern is NULL";
    if (problem) ars__fail(ARS_FAIL_MISUSE, 0, "ars_flat_policy(\"%.80s\"): %s", shown, problem);
    errno = kept;
}

/* "nuisance:*isotropicDecay*;latent:model#1" */
void ars__policy_from_outside(void) {
    const char *rules = getenv("ARS_FLAT_POLICY");
    if (!rules) return;
    while (*rules) {
        static const struct {
            const char *word;
            enum ars_policy policy;
        } words[] = {{"latent:", ARS_LATENT}, {"nuisance:", ARS_NUISANCE}};
        const size_t size = strcspn(rules, ";");
        const char *problem = "it must begin with latent: or nuisance:";
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const size_t n = strlen(words[i].word);
            if (size >= n && memcmp(rules, words[i].word, n) == 0) problem = add(rules + n, size - n, words[i].policy);
        }
        if (problem) {
            char text[300];
            snprintf(text, sizeof text, "ARS_FLAT_POLICY has the rule \"%.*s\": %s", size < 100 ? (int)size : 100,
                     rules, problem);
            ars__cannot_start(text, 0);
        }
        rules += size + (rules[size] == ';');
    }
}
