// What the two source files of the test program share.
#pragma once
#include <pyprob_cpp.h>

// Two rows of one number.
inline xt::xarray<double> column(double a, double b) {
    xt::xarray<double> both = {a, b};
    both.reshape({2, 1});
    return both;
}

xt::xarray<double> every();
xt::xarray<double> scores();
xt::xarray<double> custom();
std::vector<double> local_draws();
