/* sites.c: which address has which id. The host keeps its own copy: the one in the segment is for the family to read, and
 * anyone there could write it. */
#include <string.h>

#include "host.h"
#include "sites.h"
#include "start.h"
#include "wanted.h"

enum { TABLE_SIZE = 2 * ARS_WIRE_MAX_SITES }; /* a power of two, never more than half full */

#define UNKNOWN_PATH UINT32_MAX /* the site is known from an earlier family, and not met in this one */

struct site {
    uint16_t kind, dist;
    uint32_t name_size, name_at;
    uint32_t path_size; /* bytes of the address that are the loops around it */
};

bool host_sites_open(struct host *host) {
    host->sites = host_grow(NULL, ARS_WIRE_MAX_SITES * sizeof *host->sites);
    host->site_kinds = host_grow(NULL, ARS_WIRE_MAX_SITES);
    host->site_dists = host_grow(NULL, ARS_WIRE_MAX_SITES);
    host->site_table = host_grow(NULL, TABLE_SIZE * sizeof *host->site_table);
    memset(host->site_table, 0xff, TABLE_SIZE * sizeof *host->site_table);
    host->loops_wanted = host_grow(NULL, ARS_WIRE_MAX_SITES * sizeof *host->loops_wanted);
    memset(host->loops_wanted, 0, ARS_WIRE_MAX_SITES * sizeof *host->loops_wanted);
    return true;
}

ars__known_sites host_sites_known(const struct host *host) {
    return (ars__known_sites){host->n_sites, host->site_kinds, host->site_dists};
}

static uint32_t hash(uint16_t kind, const unsigned char *name, uint32_t size) { /* FNV-1a */
    uint32_t h = (2166136261u ^ kind) * 16777619u;
    for (uint32_t i = 0; i < size; i++) h = (h ^ name[i]) * 16777619u;
    return h;
}

static void announce(struct host *host, uint32_t id, const void *name) {
    const struct site *s = &host->sites[id];
    struct ars_wire_site item = {.id = id, .kind = s->kind, .dist = s->dist, .name_size = s->name_size};
    if (!host->n_sites_out) host_buffer_zeros(&host->sites_out, sizeof(struct ars_wire_header));
    host_buffer_add(&host->sites_out, &item, sizeof item);
    host_buffer_add(&host->sites_out, name, s->name_size);
    host_buffer_zeros(&host->sites_out, ARS_WIRE_PAD(s->name_size) - s->name_size);
    host->n_sites_out++;
}

static uint32_t add_site(struct host *host, const struct ars_wire_site *site, const void *name, bool is_news) {
    if (host->n_sites == ARS_WIRE_MAX_SITES || host->names.size + site->name_size > ARS__NAME_BYTES) return ARS_NO_SITE;
    uint32_t id = host->n_sites++, at = (uint32_t)host->names.size;
    host->sites[id] = (struct site){site->kind, site->dist, site->name_size, at, site->reserved};
    host->site_kinds[id] = (uint8_t)site->kind;
    host->site_dists[id] = (uint8_t)site->dist;
    host_buffer_add(&host->names, name, site->name_size);

    struct ars__site_entry *entry = &host->shm->sites[id];
    memcpy(host->shm->names + at, name, site->name_size);
    entry->kind = site->kind;
    entry->dist = site->dist;
    entry->name_size = site->name_size;
    entry->name_at = at;
    atomic_store_explicit(&entry->always_prior, 0, memory_order_relaxed);
    if (site->kind == ARS_SITE_LOOP) host_wanted_meet(host, id); /* before anyone can enter it */
    atomic_store_explicit(&host->shm->n_sites, host->n_sites, memory_order_release);
    if (is_news) announce(host, id, name);
    return id;
}

static void identify(struct host *host, struct ars_wire_site *site, const void *name, bool is_news) {
    uint32_t at = hash(site->kind, name, site->name_size) % TABLE_SIZE;
    for (; host->site_table[at] != UINT32_MAX; at = (at + 1) % TABLE_SIZE) {
        uint32_t id = host->site_table[at];
        struct site *s = &host->sites[id];
        if (s->kind == site->kind && s->name_size == site->name_size &&
            !memcmp(host->names.data + s->name_at, name, s->name_size)) {
            site->id = id;
            site->dist = s->dist;
            if (s->path_size == UNKNOWN_PATH) s->path_size = site->reserved;
            site->reserved = s->path_size;
            return;
        }
    }
    site->id = add_site(host, site, name, is_news);
    if (site->id != ARS_NO_SITE) host->site_table[at] = site->id;
}

void host_site_identify(struct host *host, struct ars_wire_site *site, const void *name) {
    identify(host, site, name, true);
}

void host_sites_adopt(struct host *host, const unsigned char *frame, const struct ars_wire_header *header) {
    size_t at = sizeof *header;
    for (uint32_t i = 0; i < header->count; i++) {
        struct ars_wire_site site;
        memcpy(&site, frame + at, sizeof site);
        uint32_t expected = host->n_sites, wanted = site.id;
        site.reserved = UNKNOWN_PATH;
        identify(host, &site, frame + at + sizeof site, false);
        if (wanted != expected || site.id != expected) {
            host_give_up(host, "SITES from the controller: site %u comes out of turn, twice or is one too many",
                         wanted);
            return;
        }
        at += sizeof site + ARS_WIRE_PAD(site.name_size);
    }
}

uint32_t host_site_or_none(const struct host *host, uint32_t site_id, unsigned kinds) {
    return site_id < host->n_sites && kinds >> host->site_kinds[site_id] & 1 ? site_id : (uint32_t)ARS_NO_SITE;
}

const char *host_site_address(const struct host *host, uint32_t site_id, int *size) {
    *size = (int)host->sites[site_id].name_size;
    return (const char *)host->names.data + host->sites[site_id].name_at;
}
