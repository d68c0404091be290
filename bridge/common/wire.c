/* wire.c: see wire_check.h. Fields are copied out with memcpy, because a frame may start at any address. */
#include "wire_says.h"

/* ---- header ------------------------------------------------------------------------------------------------------ */

bool ars__check_header(const void *frame, size_t size, struct ars_wire_header *header, ars__why *why) {
    if (size < sizeof *header)
        return bad(why, "a frame of %zu bytes is shorter than a header (%zu)", size, sizeof *header);
    memcpy(header, frame, sizeof *header);
    if (header->magic != ARS_WIRE_MAGIC) return bad(why, "wrong magic 0x%08x: not a message of ours", header->magic);
    if (header->type < ARS_MSG_HELLO || header->type > ARS_MSG_ERROR)
        return bad(why, "unknown message type %u", (unsigned)header->type);
    bool any_version =
        header->type == ARS_MSG_HELLO || header->type == ARS_MSG_WELCOME || header->type == ARS_MSG_ERROR;
    if (!any_version && (header->version < ARS_WIRE_VERSION_MIN || header->version > ARS_WIRE_VERSION))
        return bad(why, "protocol version %u; this side speaks %d to %d", (unsigned)header->version,
                   ARS_WIRE_VERSION_MIN, ARS_WIRE_VERSION);
    if (size > ARS_WIRE_MAX_MESSAGE)
        return bad(why, "a frame of %zu bytes is over the limit %d", size, ARS_WIRE_MAX_MESSAGE);
    if (header->size != size) return bad(why, "the header says %u bytes, the frame has %zu", header->size, size);
    return true;
}

/* ---- distributions ----------------------------------------------------------------------------------------------- */

static bool check_parameters(unsigned kind, const unsigned char *at, uint32_t n, ars__why *why) {
    for (uint32_t i = 0; i < n; i++) {
        double x = double_at(at, i);
        bool may_be_infinite = kind == ARS_DIST_TRUNCATED_NORMAL && i >= 2 && x == x;
        if (!finite_number(x) && !may_be_infinite)
            return bad(why, "parameter %u of distribution kind %u is %s", i, kind, x == x ? "infinite" : "NaN");
    }
    return true;
}

static bool check_mixture(const unsigned char *at, uint32_t n, ars__why *why) {
    if (n == 0 || n % 6 != 0 || n / 6 > ARS_WIRE_MAX_COMPONENTS)
        return bad(why, "a mixture of %u numbers: it must be 6 per component, 1 to %d components", n,
                   ARS_WIRE_MAX_COMPONENTS);
    double total = 0;
    for (uint32_t c = 0; c < n / 6; c++, at += 6 * sizeof(double)) {
        double weight = double_at(at, 0), coded = double_at(at, 1);
        if (!finite_number(weight) || weight < 0) return bad(why, "weight %u of a mixture is %g", c, weight);
        total += weight;
        if (!(coded >= 1 && coded <= ARS__DIST_LAST) || coded != (double)(unsigned)coded ||
            !ars__dist_is_component((unsigned)coded))
            return bad(why, "component %u of a mixture has kind %g", c, coded);
        unsigned kind = (unsigned)coded;
        uint32_t used = (uint32_t)ars__dist_parameters(kind);
        if (!check_parameters(kind, at + 2 * sizeof(double), used, why)) return false;
        for (uint32_t i = used; i < 4; i++)
            if (double_at(at, 2 + i) != 0) return bad(why, "component %u of a mixture has a spare parameter not 0", c);
    }
    if (!(total > 0)) return bad(why, "the weights of a mixture sum to %g", total);
    return true;
}

bool ars__check_dist(const void *bytes, size_t size, enum ars__dist_role role, size_t *used, ars__why *why) {
    struct ars_wire_dist d;
    if (size < sizeof d) return bad(why, "%zu bytes are too few for a distribution", size);
    memcpy(&d, bytes, sizeof d);
    bool known = d.kind >= 1 && d.kind <= ARS__DIST_LAST;
    if (role == ARS__AS_PRIOR ? !ars__dist_is_prior(d.kind) : !known)
        return bad(why, "distribution kind %u is unknown, or not one for a %s", (unsigned)d.kind,
                   role == ARS__AS_PRIOR ? "prior" : "proposal");
    if (d.reserved) return bad(why, "a distribution's reserved field is not 0");
    if (d.n > (size - sizeof d) / sizeof(double))
        return bad(why, "a distribution of %u numbers does not fit into %zu bytes", d.n, size);
    const unsigned char *at = (const unsigned char *)bytes + sizeof d;
    int n = ars__dist_parameters(d.kind);
    if (n >= 0 && d.n != (uint32_t)n)
        return bad(why, "distribution kind %u takes %d numbers, not %u", (unsigned)d.kind, n, d.n);
    if (d.kind == ARS_DIST_CATEGORICAL && (d.n < 1 || d.n > ARS_WIRE_MAX_CATEGORIES))
        return bad(why, "%u categories: there must be 1 to %d", d.n, ARS_WIRE_MAX_CATEGORIES);
    if (d.kind == ARS_DIST_MIXTURE ? !check_mixture(at, d.n, why) : !check_parameters(d.kind, at, d.n, why))
        return false;
    *used = sizeof d + (size_t)d.n * sizeof(double);
    return true;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static bool check_item_size(uint32_t item, size_t least, size_t size, ars__why *why) {
    if (item < least || item % 8 != 0 || item > ARS_WIRE_MAX_STEP)
        return bad(why, "an item's size %u is not a multiple of 8 from %zu to %d", item, least, ARS_WIRE_MAX_STEP);
    if (item > size) return bad(why, "an item of %u bytes is cut short to %zu", item, size);
    return true;
}

/* The priors of a step request and, if they are several, the stream; *used is their length. */
static bool check_priors(const unsigned char *bytes, size_t size, const struct ars_wire_step *s, ars__known_sites sites,
                         size_t *used, ars__why *why) {
    size_t at = 0;
    for (uint32_t i = 0; i <= s->n_more; i++, at += *used) {
        uint16_t kind, first;
        if (!ars__check_dist(bytes + at, size - at, ARS__AS_PRIOR, used, why)) return false;
        memcpy(&kind, bytes + at, sizeof kind);
        memcpy(&first, bytes, sizeof first);
        if (kind != first || (sites.dists && sites.dists[s->site_id] != kind))
            return bad(why, "site %u has distribution kind %u, and was announced with %u", s->site_id, (unsigned)kind,
                       (unsigned)(sites.dists ? sites.dists[s->site_id] : first));
    }
    *used = at;
    if (!s->n_more) return true;
    struct ars_wire_stream stream;
    if (size - at < sizeof stream) return bad(why, "%zu bytes are too few for a stream", size - at);
    memcpy(&stream, bytes + at, sizeof stream);
    if (stream.reserved || stream.used % 2 || stream.used > ARS__RNG_WORDS ||
        (stream.block < ARS__RNG_BLOCKS && stream.used < ARS__RNG_WORDS))
        return bad(why, "a stream with block %llu and %u words used", (unsigned long long)stream.block, stream.used);
    *used += sizeof stream;
    return true;
}

bool ars__check_step(const void *bytes, size_t size, ars__known_sites sites, size_t *used, ars__why *why) {
    struct ars_wire_step s;
    if (size < sizeof s) return bad(why, "%zu bytes are too few for a step request", size);
    memcpy(&s, bytes, sizeof s);
    if (!check_item_size(s.size, sizeof s, size, why)) return false;
    if (s.n_more > ARS_WIRE_MAX_MORE || (s.n_more && s.site_id == ARS_NO_SITE))
        return bad(why, "a step request asks for %u draws more", s.n_more);
    if (s.n_told > ARS_WIRE_MAX_TOLD) return bad(why, "%u values told: at most %d", s.n_told, ARS_WIRE_MAX_TOLD);
    size_t at = sizeof s + (size_t)s.n_told * sizeof(struct ars_wire_told);
    if (at > s.size) return bad(why, "%u values told do not fit into an item of %u bytes", s.n_told, s.size);
    for (uint32_t i = 0; i < s.n_told; i++) {
        struct ars_wire_told told;
        memcpy(&told, (const unsigned char *)bytes + sizeof s + i * sizeof told, sizeof told);
        if (!is_site(sites, told.site_id, ARS_SITE_SAMPLE))
            return bad(why, "told of %u, which is no sample site", told.site_id);
        if (!finite_number(told.value)) return bad(why, "told of a value that is not finite at site %u", told.site_id);
    }
    size_t dist = 0;
    if (s.site_id != ARS_NO_SITE) {
        if (!is_site(sites, s.site_id, ARS_SITE_SAMPLE))
            return bad(why, "asked about %u, which is no sample site", s.site_id);
        if (!check_priors((const unsigned char *)bytes + at, s.size - at, &s, sites, &dist, why)) return false;
    }
    if (at + dist != s.size) return bad(why, "a step request of %u bytes has content for %zu", s.size, at + dist);
    *used = s.size;
    return true;
}

bool ars__check_reply(const void *bytes, size_t size, size_t *used, ars__why *why) {
    struct ars_wire_reply r;
    if (size < sizeof r) return bad(why, "%zu bytes are too few for a reply", size);
    memcpy(&r, bytes, sizeof r);
    if (!check_item_size(r.size, sizeof r, size, why)) return false;
    if (r.n_more > ARS_WIRE_MAX_MORE || (r.n_more && r.flags))
        return bad(why, "a reply with %u proposals more, and flags 0x%x", r.n_more, r.flags);
    if (r.flags & ~(uint32_t)ARS_REPLY_ALWAYS_PRIOR) return bad(why, "unknown reply flags 0x%x", r.flags);
    size_t dist = 0;
    if (r.size > sizeof r) {
        const unsigned char *at = (const unsigned char *)bytes + sizeof r;
        if (!ars__check_dist(at, r.size - sizeof r, ARS__AS_PROPOSAL, &dist, why)) return false;
        uint16_t kind;
        memcpy(&kind, at, sizeof kind);
        if ((r.flags & ARS_REPLY_ALWAYS_PRIOR) && kind != ARS_DIST_PRIOR)
            return bad(why, "ALWAYS_PRIOR goes with a PRIOR proposal, not with kind %u", (unsigned)kind);
        for (uint32_t i = 0; i < r.n_more; i++) {
            size_t one;
            if (!ars__check_dist(at + dist, r.size - sizeof r - dist, ARS__AS_PROPOSAL, &one, why)) return false;
            dist += one;
        }
    } else if (r.flags || r.n_more) {
        return bad(why, "a reply without a proposal has flags 0x%x and %u proposals more", r.flags, r.n_more);
    }
    if (sizeof r + dist != r.size) return bad(why, "a reply of %u bytes has content for %zu", r.size, sizeof r + dist);
    *used = r.size;
    return true;
}

size_t ars__utf8_sequence(const unsigned char *c, size_t n) {
    if (c[0] < 0x80) return 1;
    size_t length = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4 || length > n) return 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool outside = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

bool ars__check_name(const unsigned char *at, uint32_t name_size, size_t size, ars__why *why) {
    if (name_size < 1 || name_size > ARS_WIRE_MAX_NAME)
        return bad(why, "a name of %u bytes: 1 to %d are allowed", name_size, ARS_WIRE_MAX_NAME);
    size_t padded = ARS_WIRE_PAD(name_size);
    if (padded > size) return bad(why, "a name of %u bytes is cut short to %zu", name_size, size);
    if (memchr(at, 0, name_size)) return bad(why, "a name has a zero byte in it");
    for (size_t i = 0, n; i < name_size; i += n)
        if (!(n = ars__utf8_sequence(at + i, name_size - i))) return bad(why, "a name is not UTF-8");
    for (size_t i = name_size; i < padded; i++)
        if (at[i]) return bad(why, "a name is padded with other than zeros");
    return true;
}

bool ars__check_site(const void *bytes, size_t size, size_t *used, ars__why *why) {
    struct ars_wire_site s;
    if (size < sizeof s) return bad(why, "%zu bytes are too few for a site", size);
    memcpy(&s, bytes, sizeof s);
    if (s.id >= ARS_WIRE_MAX_SITES) return bad(why, "site id %u: ids are below %d", s.id, ARS_WIRE_MAX_SITES);
    if (s.kind < ARS_SITE_SAMPLE || s.kind > ARS_SITE_LOOP) return bad(why, "unknown site kind %u", (unsigned)s.kind);
    if (s.reserved) return bad(why, "a site's reserved field is not 0");
    bool has_dist = s.kind == ARS_SITE_SAMPLE || s.kind == ARS_SITE_OBSERVE; /* a factor is an observe without one */
    if ((s.dist && !ars__dist_is_prior(s.dist)) || (!has_dist && s.dist) || (s.kind == ARS_SITE_SAMPLE && !s.dist))
        return bad(why, "site kind %u with distribution kind %u", (unsigned)s.kind, (unsigned)s.dist);
    if (!ars__check_name((const unsigned char *)bytes + sizeof s, s.name_size, size - sizeof s, why)) return false;
    *used = sizeof s + ARS_WIRE_PAD(s.name_size);
    return true;
}

/* ---- whole messages ---------------------------------------------------------------------------------------------- */

typedef bool item_check(const void *bytes, size_t size, ars__known_sites sites, size_t *used, ars__why *why);

static bool check_reply_item(const void *bytes, size_t size, ars__known_sites sites, size_t *used, ars__why *why) {
    (void)sites;
    return ars__check_reply(bytes, size, used, why);
}

static bool check_site_item(const void *bytes, size_t size, ars__known_sites sites, size_t *used, ars__why *why) {
    (void)sites;
    return ars__check_site(bytes, size, used, why);
}

static bool check_items(const unsigned char *frame, const struct ars_wire_header *h, item_check *check,
                        ars__known_sites sites, ars__why *why) {
    size_t at = sizeof *h, used = 0;
    if (!h->count) return bad(why, "a message of 0 items");
    for (uint32_t i = 0; i < h->count; i++, at += used)
        if (!check(frame + at, h->size - at, sites, &used, why)) return false;
    if (at != h->size) return bad(why, "%zu bytes after the last of %u items", h->size - at, h->count);
    return true;
}

static bool check_plain(const struct ars_wire_header *h, const char *name, size_t size, ars__why *why) {
    if (h->size != size) return bad(why, "%s has %u bytes; it must have %zu", name, h->size, size);
    if (h->count != 0) return bad(why, "%s has count %u; it must be 0", name, h->count);
    return true;
}

static bool check_welcome(const unsigned char *frame, const struct ars_wire_header *h, ars__why *why) {
    struct ars_wire_welcome welcome;
    if (!check_plain(h, "WELCOME", sizeof welcome, why)) return false;
    memcpy(&welcome, frame, sizeof welcome);
    if (welcome.version < ARS_WIRE_VERSION_MIN || welcome.version > ARS_WIRE_VERSION)
        return bad(why, "WELCOME to protocol version %u; this side speaks %d to %d", (unsigned)welcome.version,
                   ARS_WIRE_VERSION_MIN, ARS_WIRE_VERSION);
    if (welcome.reserved0 || welcome.reserved1) return bad(why, "WELCOME's reserved field is not 0");
    return true;
}

static bool check_done(const unsigned char *frame, const struct ars_wire_header *h, ars__why *why) {
    struct ars_wire_done done;
    if (!check_plain(h, "DONE", sizeof done, why)) return false;
    memcpy(&done, frame, sizeof done);
    if (done.cancelled > 1) return bad(why, "DONE has cancelled = %llu", (unsigned long long)done.cancelled);
    return true;
}

static bool check_hello(const unsigned char *frame, const struct ars_wire_header *h, ars__why *why) {
    struct ars_wire_hello hello;
    if (!check_plain(h, "HELLO", sizeof hello, why)) return false;
    memcpy(&hello, frame, sizeof hello);
    if (hello.version_min > hello.version_max)
        return bad(why, "HELLO speaks versions %u to %u", (unsigned)hello.version_min, (unsigned)hello.version_max);
    if (hello.workers == 0) return bad(why, "HELLO has 0 workers");
    return true;
}

bool ars__check_message(const void *frame, size_t size, ars__known_sites sites, ars__why *why) {
    struct ars_wire_header h;
    if (!ars__check_header(frame, size, &h, why)) return false;
    switch (h.type) {
    case ARS_MSG_HELLO:
        return check_hello(frame, &h, why);
    case ARS_MSG_WELCOME:
        return check_welcome(frame, &h, why);
    case ARS_MSG_RUN:
        return ars__check_run(frame, &h, why);
    case ARS_MSG_SITES:
        return check_items(frame, &h, check_site_item, sites, why);
    case ARS_MSG_STEPS:
        return check_items(frame, &h, ars__check_step, sites, why);
    case ARS_MSG_REPLIES:
        return check_items(frame, &h, check_reply_item, sites, why);
    case ARS_MSG_DONE:
        return check_done(frame, &h, why);
    case ARS_MSG_CANCEL:
        return check_plain(&h, "CANCEL", sizeof h, why);
    case ARS_MSG_QUIT:
        return check_plain(&h, "QUIT", sizeof h, why);
    case ARS_MSG_ERROR:
        return true; /* the rest of the frame is its text */
    default:
        return bad(why, "message type %u has more than one frame", (unsigned)h.type);
    }
}
