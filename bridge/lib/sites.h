/* sites.h: addresses and their ids; instances; the names of loops. */
#ifndef ARS_LIB_SITES_H
#define ARS_LIB_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ars.h"
#include "wire.h"

/* The loop marks of the program, as its modules have registered them. */
struct ars__marks {
    ars__loop_mark *first; /* NULL: none yet */
    ars__loop_mark end;    /* of the list; not one of them */
    bool abandons;         /* the program has a call of ars_loop_abandon */
};

/* Names to ids, by hash. */
struct ars__named_site {
    char *name; /* NULL: empty */
    uint32_t hash, path, id;
    enum ars_site_kind kind;
    unsigned dist; /* as the host knows it: a copy, because a forked process maps the segment's pages anew */
};
struct ars__site_table {
    struct ars__named_site *at;
    size_t room, used;
};

/* The id of `name` below the innermost open loop; asks the host the first time anybody meets it. */
uint32_t ars__site_id(const char *name, enum ars_site_kind kind, unsigned dist);
const char *ars__site_address(uint32_t id, int *size); /* for messages: "%.*s" */
/* A name for messages, with the bytes that are not UTF-8 as \xNN, cut to fit. Returns text. */
const char *ars__shown(const char *name, char *text, size_t size);
void ars__check_utf8(const char *name); /* fails the trace */
/* Per id: how often it was met in the trace with this serial number. */
struct ars__met {
    uint64_t trace;
    uint32_t count;
};
struct ars__instances {
    struct ars__met *at;
    size_t room;
    uint64_t trace;
};
uint32_t ars__instance_take(uint32_t site_id);
void ars__instance_give_back(uint32_t site_id);
void ars__instances_reset(void);

void ars__loop_name(ars__loop_mark *mark, char *text, size_t size);

#endif /* ARS_LIB_SITES_H */
