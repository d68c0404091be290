// paths.cpp: draws in all kinds of functions of C++.
#include "shapes.hpp"

#include <algorithm>
#include <functional>
#include <memory>

namespace detector {
namespace {
double helper(double x) {
    return x * ars_flat() + ars_sample(nullptr, x);
}

class Circle : public Shape {
  public:
    double edge() const override { return helper(1) + helper(2); }
};
} // namespace

template <int N> double repeat(double x) {
    return repeat<N - 1>(x) + ars_flat();
}
template <> double repeat<0>(double x) {
    return x;
}

static double overloaded(int x) {
    return x + ars_flat();
}
static double overloaded(double x) {
    return x * ars_flat();
}

double model(int n) {
    Square square(2);
    Circle circle;
    std::unique_ptr<Shape> shape(n > 1 ? static_cast<Shape *>(new Circle) : new Square(3));
    std::vector<double> values(static_cast<std::size_t>(n) + 1, 1.5);
    double sum = square.area() + circle.edge() + shape->edge() + shape->area() + square.both();
    sum += smear(1.0F) + smear(1.0) + smear(sum);
    sum += overloaded(1) + overloaded(1.5) + overloaded(2);
    sum += repeat<2>(1);
    sum += elsewhere(square, values);
    sum += elsewhere(*shape, values);

    auto plain = [](double x) { return x * ars_flat(); };
    auto capture = [&](double x) {
        double y = x + ars_flat();
        return y + helper(sum) + ars_flat();
    };
    sum += plain(1) + capture(2) + plain(3);
    std::function<double(double)> held = [&](double x) { return x + sum + ars_flat(); };
    sum += held(1);
    Sum total = std::for_each(values.begin(), values.end(), Sum());
    total += 2;
    struct Local {
        static double get() { return ars_flat() + 3; }
    };
    sum += Local::get();
    std::sort(values.begin(), values.end(), [](double a, double b) { return a + ars_flat() < b; });
    return sum + total / 2;
}
} // namespace detector

int main(int argc, char **) {
    double sum = 0;
    for (int i = 0; i < 2; i++) sum += detector::model(argc + i);
    return sum > 1e300;
}
