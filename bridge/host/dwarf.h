/* dwarf.h: the functions of an address, and the calls of a function, from debug information. */
#ifndef ARS_HOST_DWARF_H
#define ARS_HOST_DWARF_H

#include "module.h"

/* NULL if the module has no debug information that we can read. */
struct host_dwarf *host_dwarf_open(struct host_elf *elf);
void host_dwarf_close(struct host_dwarf *dwarf);

/* As host_module_levels; 0 if nothing is known about the address. */
size_t host_dwarf_levels(struct host_module *module, uint64_t address, struct host_level *levels, size_t most);

/* The name of the function that the indirect call before an address calls, interned; NULL if the debug information does not say. */
const char *host_dwarf_callee(struct host_module *module, uint64_t after);

#endif /* ARS_HOST_DWARF_H */
