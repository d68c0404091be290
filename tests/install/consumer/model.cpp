// As if written for pyprob_cpp.
#include <pyprob_cpp.h>

xt::xarray<double> forward() {
    auto prior = pyprob_cpp::distributions::Normal(1, 2);
    auto mu = pyprob_cpp::sample(prior, "mu");
    auto likelihood = pyprob_cpp::distributions::Normal(mu, xt::xarray<double>{1, 2});
    pyprob_cpp::observe(likelihood, "y");
    return mu;
}

int main(int argc, char *argv[]) {
    auto serverAddress = (argc > 1) ? argv[1] : "tcp://*:5555";
    pyprob_cpp::Model model = pyprob_cpp::Model(forward, "a model");
    model.startServer(serverAddress);
    return 0;
}
