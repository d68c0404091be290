/* module.h: an executable or a shared library, its functions, and the calls that each makes. */
#ifndef ARS_HOST_MODULE_H
#define ARS_HOST_MODULE_H

#include "code.h"
#include "elf_file.h"
#include "names.h"

/* A call in the source of a function. */
struct host_site {
    uint64_t line; /* with debug information; else the address */
    uint32_t column;
    const char *callee; /* interned; NULL: an indirect call */
    bool is_virtual;    /* the callee is a virtual function */
};

/* A function of the source, with all calls in all its copies. */
struct host_function {
    const char *name; /* interned */
    uint64_t key;     /* offset of its description in the debug information, or 0 */
    struct host_site *sites;
    size_t n_sites, capacity;
    struct host_function *next;
};

struct host_names_table; /* of interned texts */
struct host_dwarf;

struct host_module {
    char *path;
    const char *base; /* interned: the path's last part */
    bool readable;
    struct host_elf elf;
    struct host_dwarf *dwarf; /* NULL: no debug information */
    struct host_function *functions;
    char **texts; /* interned: a hash table */
    size_t n_texts, texts_capacity;
    struct host_module *next;
};

/* A function that a frame is in, and where. */
struct host_level {
    struct host_module *module;
    struct host_function *function;
    uint64_t line;
    uint32_t column;
    bool is_virtual; /* the function is a virtual one */
    enum host_names_quality quality;
};

struct host_module *host_module_open(const char *path);
void host_module_close(struct host_module *module);

const char *host_module_intern(struct host_module *module, const char *text);

/* The name of the function that an instruction calls, interned; NULL if it is an indirect call. `symbol`, unless NULL, gets the name
 * in the table of symbols, if it has one. */
const char *host_module_callee(struct host_module *module, const struct host_call *call, const char **symbol);

/* The call that returns to an address, or false. */
bool host_module_call_before(struct host_module *module, uint64_t after, struct host_call *call);

/* The functions that the instruction at an address is in, innermost first: those that were inlined, and the one with machine
 * code of its own. Returns their number, at least 1. */
size_t host_module_levels(struct host_module *module, uint64_t address, struct host_level *levels, size_t most);

/* For dwarf*.c: the function of a key, made without sites if it is not known (`fresh`). */
struct host_function *host_module_function(struct host_module *module, const char *name, uint64_t key, bool *fresh);
void host_function_add(struct host_function *function, struct host_site site);
/* Sorts the sites, and leaves out those that are there twice. */
void host_function_finish(struct host_function *function);

#endif /* ARS_HOST_MODULE_H */
