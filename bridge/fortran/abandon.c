/* abandon.c: ars_loop_abandon for Fortran. In a file of its own, which only programs that call it are linked with: ars.h then
 * tells libars before main that the program abandons loops. */
#include "ars.h"

void ars__fortran_loop_abandon(ars_loop *loop);

void ars__fortran_loop_abandon(ars_loop *loop) {
    ars_loop_abandon(loop);
}
