/* pyprob_cpp.h: for sources that include pyprob_cpp's header by its own name. See ars/pyprob_cpp.hpp. */
#ifndef pyprob_cpp_H
#define pyprob_cpp_H
#include <ars/pyprob_cpp.hpp>
#endif
