/* tail.c: functions that are not on the stack any more, because their last call was a jump.
 *
 * The search looks at jumps to entries of other functions, and goes on with those functions, up to HOST_MOST_TAILS of them. If
 * no direct jump leads there, a function with a single indirect jump must have used it. */
#include <string.h>

#include "demangle.h"
#include "tail.h"

enum { MOST_JUMPS = 64, MOST_FUNCTIONS = 100 }; /* of one function; that are searched */

struct jump {
    struct host_call call;
    const char *symbol, *name; /* NULL: an indirect one */
};

/* The jumps that leave the function of a symbol, all its copies included. */
static size_t jumps_of(struct host_module *m, const char *symbol, struct jump *jumps) {
    size_t n = 0, length = host_base_length(symbol);
    for (size_t i = 0; i < m->elf.n_symbols; i++) {
        const struct host_symbol *one = &m->elf.symbols[i];
        if (strncmp(one->name, symbol, length) || host_base_length(one->name) != length) continue;
        uint64_t end = one->address + one->size;
        struct host_call call;
        for (uint64_t at = one->address; host_code_next(&m->elf, at, end, &call); at = call.after) {
            if (call.transfer != HOST_JUMP || call.table || n == MOST_JUMPS) continue;
            if (!call.indirect && !call.slot && call.target >= one->address && call.target < end) continue;
            struct jump jump = {.call = call};
            jump.name = host_module_callee(m, &call, &jump.symbol);
            bool itself =
                jump.symbol && !strncmp(jump.symbol, symbol, length) && host_base_length(jump.symbol) == length;
            if (itself || (jump.name && !jump.symbol)) continue;
            jumps[n++] = jump;
        }
    }
    return n;
}

/* The only jump that is indirect, or that has the name. */
static bool only(const struct jump *jumps, size_t n, const char *name, struct host_tail *tail) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) {
        if (name ? !jumps[i].name || !host_same_name(jumps[i].name, name) : jumps[i].name != NULL) continue;
        if (!found++) tail->jump = jumps[i].call;
    }
    tail->ambiguous = found > 1;
    return found > 0;
}

static size_t search(struct host_module *m, const char *symbol, const char *name, struct host_tail *tails, size_t room,
                     unsigned *budget) {
    struct jump jumps[MOST_JUMPS];
    size_t n = room && *budget && (*budget)-- ? jumps_of(m, symbol, jumps) : 0;
    if (!n) return 0;
    if (only(jumps, n, name, &tails[0])) return 1;
    size_t ways = 0, length = 0;
    for (size_t i = 0; i < n && ways < 2; i++) {
        struct host_tail rest[HOST_MOST_TAILS];
        size_t more = jumps[i].symbol ? search(m, jumps[i].symbol, name, rest, room - 1, budget) : 0;
        if (!more || ways++) continue;
        tails[0] = (struct host_tail){jumps[i].call, false};
        memcpy(&tails[1], rest, more * sizeof *rest);
        length = more + 1;
    }
    if (ways == 1) return length;
    return !ways && only(jumps, n, NULL, &tails[0]) && !tails[0].ambiguous;
}

size_t host_tails(struct host_module *m, const char *symbol, const char *name, struct host_tail *tails) {
    unsigned budget = MOST_FUNCTIONS;
    return m->readable ? search(m, symbol, name, tails, HOST_MOST_TAILS, &budget) : 0;
}
