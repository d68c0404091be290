// Models written for pyprob_cpp: models ADDRESS MODEL. They know nothing of libars, and stand in two source files.
#include <pyprob_cpp.h>

#include "models.h"

using pyprob_cpp::distributions::Categorical;
using pyprob_cpp::distributions::Normal;
using pyprob_cpp::distributions::Poisson;
using pyprob_cpp::distributions::Uniform;

// A Gaussian with unknown mean.
static xt::xarray<double> gum() {
    auto prior = Normal(1, std::sqrt(5));
    auto mu = pyprob_cpp::sample(prior);
    auto likelihood = Normal(mu, std::sqrt(2));
    pyprob_cpp::observe(likelihood, "obs0");
    pyprob_cpp::observe(likelihood, std::string("obs") + "1");
    pyprob_cpp::observe(likelihood, NONE_VALUE, "obs2");
    return mu;
}

// The same, with data of its own: a number, and a tensor without a name.
static xt::xarray<double> literal() {
    auto prior = Normal(1, std::sqrt(5));
    xt::xarray<double> mu = pyprob_cpp::sample(prior, "mu");
    auto likelihood = Normal(mu, std::sqrt(2));
    pyprob_cpp::observe(likelihood, 8, "y");
    pyprob_cpp::observe(likelihood, xt::xarray<double>{9});
    return mu;
}

static double marsaglia(bool replace) {
    auto uniform = Uniform(-1, 1);
    double x, y, s;
    do {
        x = pyprob_cpp::sample(uniform, true, replace, "x")(0);
        y = pyprob_cpp::sample(uniform, true, replace, "y")(0);
        s = x * x + y * y;
    } while (s >= 1);
    return 1 + std::sqrt(5) * (x * std::sqrt(-2 * std::log(s) / s));
}

static xt::xarray<double> from_a_loop(bool replace) {
    auto mu = marsaglia(replace);
    auto likelihood = Normal(mu, std::sqrt(2));
    pyprob_cpp::observe(likelihood, "obs");
    return mu;
}
static xt::xarray<double> kept() {
    return from_a_loop(false);
}
static xt::xarray<double> replaced() {
    return from_a_loop(true);
}

// The same with the loop marked, which is the one thing here that pyprob_cpp does not know.
static xt::xarray<double> marked() {
    auto uniform = Uniform(-1, 1);
    double x, s;
    for (;;) {
        rs_start("disc");
        x = pyprob_cpp::sample(uniform, true, true, "x")(0);
        s = x * x + std::pow(pyprob_cpp::sample(uniform, true, true, "y")(0), 2);
        if (s >= 1) continue;
        rs_end();
        break;
    }
    auto likelihood = Normal(1 + std::sqrt(5) * (x * std::sqrt(-2 * std::log(s) / s)), std::sqrt(2));
    pyprob_cpp::observe(likelihood, "obs");
    return x;
}

static xt::xarray<double> wrong() {
    Normal misshapen(xt::xarray<double>{1, 2}, xt::xarray<double>{1, 2, 3});
    return pyprob_cpp::sample(misshapen);
}

// The older form: the data come as an argument.
static xt::xarray<double> older(xt::xarray<double> observation) {
    auto prior = Normal(1, std::sqrt(5));
    auto mu = pyprob_cpp::sample(prior);
    auto likelihood = Normal(mu, std::sqrt(2));
    for (auto &o : observation) pyprob_cpp::observe(likelihood, o);
    pyprob_cpp::tag(static_cast<double>(observation.dimension()), "dimension");
    return mu;
}

static xt::xarray<double> two_kinds(xt::xarray<double> observation) {
    auto count = Poisson(4);
    auto n = pyprob_cpp::sample(count)(0);
    auto likelihood = Poisson(n + 1);
    pyprob_cpp::observe(likelihood, observation);
    auto state = Categorical(xt::xarray<double>{n + 1, 2});
    pyprob_cpp::observe(state, 0);
    return n;
}

// Every way to call the functions, with results of many shapes.
static xt::xarray<double> shapes() {
    using namespace pyprob_cpp;
    std::string name = "b";
    const char *text = "c";
    Uniform u;
    distributions::Distribution &base = u;
    Normal vector(xt::xarray<double>{-1, 0, 1}, 0.5), matrix(column(0, 10), xt::xarray<double>{1, 2, 3});
    Categorical rows(xt::xarray<double>{{1, 0, 0}, {0, 0, 3}});

    xt::xarray<double> m = sample(matrix, "m");
    tag(m, "m tagged");
    tag(m(1, 2), "corner");
    tag(xt::sum(m, {1}), "sums");
    tag(2 * m + 1.0);
    tag(7);
    tag(xt::xarray<double>{});
    tag(sample(vector, false, "v"), "v tagged");
    tag(sample(rows, "rows"), "rows tagged");
    auto a = sample(base, true, false, "a"), b = sample(base, true, name), c = sample(u, true, text);
    auto d = sample(u, true, "d"), e = sample(u, "e"), f = sample(u, 1, 0), g = sample(u);
    setDefaultControl(false);
    sample(u, "f");
    setDefaultControl();
    setDefaultReplace(true);
    for (int i = 0; i < 3; i++) tag(sample(vector, "r"), "r tagged");
    setDefaultReplace();
    observe(u, 0);
    observe(matrix, "matrix");
    observe(vector, m, "broadcast");
    xt::xarray<double> all = xt::xarray<double>::from_shape({7});
    all = {a(0), b(0), c(0), d(0), e(0), f(0), g(0)};
    return all;
}

// Draws before a server, and without one.
static int outside() {
    Normal tensor(xt::xarray<double>{{1, 2}, {3, 4}}, 0.001);
    pyprob_cpp::generator.seed(5);
    auto first = pyprob_cpp::sample(tensor);
    pyprob_cpp::observe(tensor, 3);
    pyprob_cpp::tag(first);
    pyprob_cpp::generator.seed(5);
    auto again = pyprob_cpp::sample(tensor, true, true, "name");
    std::cout << (first == again) << " " << first.dimension() << " " << xt::round(first) << std::endl;
    for (double draw : local_draws()) printf("%.15g ", draw);
    printf("\n%s %s %s\n", VERSION, GIT_BRANCH, GIT_COMMIT_HASH);
    return 0;
}

int main(int argc, char *argv[]) {
    auto serverAddress = argc > 1 ? argv[1] : "tcp://*:5555";
    std::string chosen = argc > 2 ? argv[2] : "gum";
    const std::map<std::string, xt::xarray<double> (*)()> models = {
        {"gum", gum},           {"literal", literal}, {"kept", kept},   {"marked", marked}, {"wrong", wrong},
        {"replaced", replaced}, {"shapes", shapes},   {"every", every}, {"scores", scores}, {"custom", custom},
    };
    if (chosen == "outside") return outside();
    if (chosen == "older")
        pyprob_cpp::Model(older, column(8, 9), "older").startServer(serverAddress);
    else if (chosen == "two_kinds")
        pyprob_cpp::Model(two_kinds, xt::xarray<double>{}, "two kinds").startServer(serverAddress);
    else {
        pyprob_cpp::Model model = pyprob_cpp::Model(models.at(chosen), "one of many");
        model.startServer();
    }
    return 0;
}
