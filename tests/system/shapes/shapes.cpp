// shapes.cpp: results with shapes. shapes [nothing|null|axes|nan|large]: the last four are mistakes.
#include <ars.hpp>
#include <cmath>
#include <cstring>

static const char *mistake = "nothing";

static bool is(const char *name) {
    return !std::strcmp(mistake, name);
}

static void model() {
    const double x = ars::sample("x", ars::normal(0, 1));
    const std::size_t k = static_cast<std::size_t>(ars::sample("k", ars::poisson(1)));
    ars::results("matrix", {{x, 1, 2}, {3, 4, 5 + x}});
    std::vector<double> cube(24);
    for (std::size_t i = 0; i < cube.size(); i++) cube[i] = x + static_cast<double>(i);
    ars::results("cube", cube, {2, 3, 4});
    ars::results("column", cube.data(), std::vector<std::size_t>{3, 1});
    std::vector<double> points(2 * k);
    for (std::size_t i = 0; i < points.size(); i++) points[i] = x + static_cast<double>(i);
    ars::results("points", points, {k, 2});                                          // ragged
    ars::results("either", cube.data(), std::vector<std::size_t>(k > 1 ? 2 : 1, 2)); // one axis or two
    ars::results("none", std::vector<double>(), {0, 3});
    ars_results_shaped("number", &x, nullptr, 0);
    for (int i = 0; i < 2; i++) ars::results("twice", cube.data() + i, {2, 2});
    ars::observe("y", ars::normal(x, 1));
    const std::size_t lengths[40] = {1, 1};
    if (is("null")) ars_results_shaped("bad", &x, nullptr, 2);
    if (is("axes")) ars_results_shaped("bad", &x, lengths, 40);
    const double nan[2] = {1, std::nan("")};
    if (is("nan")) ars::results("bad", nan, std::vector<std::size_t>{1, 2});
    const std::size_t large[2] = {std::size_t(1) << 40, std::size_t(1) << 40};
    if (is("large")) ars_results_shaped("bad", &x, large, 2);
}

int main(int argc, char **argv) {
    if (argc > 1) mistake = argv[1];
    return ars::main(argc, argv, model);
}
