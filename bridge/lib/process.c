/* process.c: the one object that a process is. */
#include "process.h"

_Alignas(ARS__PAGE) struct ars__process ars__me;
