/* kept.c: memory that a rewind leaves alone. It lies between pages that nobody can touch, so that the kernel joins it with no
 * other mapping, and an array that is overrun ends here. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "kept.h"
#include "process.h"

static unsigned char *map_between_guards(size_t size) {
    const size_t whole = (size + ARS__GUARD - 1) / ARS__GUARD * ARS__GUARD;
    unsigned char *all =
        mmap(NULL, whole + 2 * ARS__GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all + ARS__GUARD, whole, PROT_READ | PROT_WRITE)) return NULL;
    return all + ARS__GUARD;
}

bool ars__kept_make(void) {
    const size_t saved = (size_t)ARS__MOST_PAGES * ARS__PAGE_BYTES;
    unsigned char *kept = map_between_guards(sizeof(struct ars__kept)), *pages = map_between_guards(saved);
    if (!kept || !pages) return false;
    ars__me.kept = (struct ars__kept *)(void *)kept;
    ars__me.kept->rewind.pages.saved = pages;
    const uintptr_t ours[2][2] = {{(uintptr_t)kept, (uintptr_t)kept + sizeof(struct ars__kept)},
                                  {(uintptr_t)pages, (uintptr_t)pages + saved}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) ars__me.kept->rewind.pages.mappings.ours[i][k] = ours[i][k];
    return true;
}
