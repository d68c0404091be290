/* A shared library that the simulator links, or loads. */
#ifndef SHIFT
#define SHIFT 0
#endif
double shift(void);
double shift(void) {
    return SHIFT;
}
