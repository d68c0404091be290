/* scopes.h: the scopes around unnamed draws (ars_scope_push). */
#ifndef ARS_LIB_SCOPES_H
#define ARS_LIB_SCOPES_H

#include <stddef.h>
#include <stdint.h>

/* Which scopes are open: a node of the tree of all chains of scopes that this process has met. Nodes never change, so one
 * number is enough to come back to them. The plain simulator has no tree, and counts. */
struct ars__scope {
    uint32_t node; /* 0: none is open */
    uint32_t depth;
};

enum { ARS__MOST_CHAINS = 4096, ARS__SCOPE_BYTES = 256 << 10 };

/* The tree; in memory that no rewind reaches (kept.h), so that a continuation meets nothing for the first time twice. */
struct ars__scopes {
    uint32_t n, used; /* nodes but the first; bytes of `names` */
    struct ars__scope_node {
        uint32_t parent, hash, name_at, name_size;
    } at[ARS__MOST_CHAINS];
    uint16_t table[2 * ARS__MOST_CHAINS]; /* by hash; 0: empty */
    char names[ARS__SCOPE_BYTES];
};

void ars__scopes_reset(void); /* a trace begins */
/* The names of the open scopes, outermost first, each followed by ">". Returns their size, which may be beyond `size`. */
size_t ars__scopes_write(char *text, size_t size);

#endif /* ARS_LIB_SCOPES_H */
