/* demangle.h: the readable name of a function: scopes and name, without parameters, template arguments and clones. */
#ifndef ARS_HOST_DEMANGLE_H
#define ARS_HOST_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the name that people know for a symbol: "Pythia8::TauDecays::decay" for _ZN7Pythia89TauDecays5decayEi.part.0. A name
 * that cannot be read is kept as it is. The characters / # > and blanks, which separate names in a path, never occur. */
void host_demangle(const char *symbol, char *text, size_t size);

/* The same for a name as debug information has it, such as "apply<int>", inside scopes that are in `text` already: adds it
 * there, behind "::" if there are any. A function object's operator() without a name of its class is a lambda. */
void host_name_add(const char *name, char *text, size_t size);

/* The length of a symbol without what compilers add for copies of a function: .part.0, .constprop.1, .cold, ... */
size_t host_base_length(const char *symbol);

/* Of readable names: whether a function is of libars, draws (ars_flat, ars_sample, ...), or is of the C++ library. */
bool host_name_is_ours(const char *name);
bool host_name_is_draw(const char *name);
bool host_name_is_standard(const char *name);

/* Whether two names count as one function: all that draw do. */
bool host_same_name(const char *a, const char *b);

#endif /* ARS_HOST_DEMANGLE_H */
