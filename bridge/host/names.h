/* names.h: names of call paths, the same after recompiling, at every optimisation and load address; names.c explains them. */
#ifndef ARS_HOST_NAMES_H
#define ARS_HOST_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* A place in the program that is waiting for a call to return. */
struct host_frame {
    const char *module; /* path of the executable or shared library */
    uint64_t offset;    /* the return address minus the module's load bias: the address that the linker gave it */
};

/* How much a name survives: the worst of the functions in the path. */
enum host_names_quality {
    HOST_NAMES_UNREADABLE, /* a module could not be read: its base name and an offset. Only for the same file */
    HOST_NAMES_STRIPPED,   /* functions without a name: their numbers. Only for the same binary, at any load address */
    HOST_NAMES_SYMBOLS,    /* no debug information: for the same compiler and flags, and where it does not inline */
    HOST_NAMES_DEBUG,      /* survives other flags and compilers */
};

/* Writes the name of the path, outermost function first: "main#1>decay#2>isotropic#1", where decay#2 is in decay at its second
 * call of isotropic. `frames` is innermost first, without those of libars. At most `size` bytes with the final 0 (at least 32): of a
 * longer path the outer part is replaced by its hash, "~0123456789abcdef>isotropic#1". Returns the quality. */
enum host_names_quality host_names_of_path(const struct host_frame *frames, size_t n, char *text, size_t size);

/* The same for frames below a model that libars has called: the beginning of that function. */
enum host_names_quality host_names_in_model(const struct host_frame *model, const struct host_frame *frames, size_t n,
                                            char *text, size_t size);

/* A word for a quality: "unreadable", "stripped", "symbols", "debug". */
const char *host_names_quality_word(enum host_names_quality quality);

/* Frees what is known about all modules. The next path reads them again. */
void host_names_forget(void);

#endif /* ARS_HOST_NAMES_H */
