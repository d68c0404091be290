#include "shapes.hpp"

#include <algorithm>

namespace {
double helper(double x) {
    return x + ars_flat();
}
} // namespace

double elsewhere(detector::Shape &shape, std::vector<double> &values) {
    double sum = shape.edge() + shape.area();
    for (double x : values) sum += helper(x) + detector::smear(x);
    std::for_each(values.begin(), values.end(), [&](double x) { sum += x * ars_flat(); });
    return sum + shape.both();
}
