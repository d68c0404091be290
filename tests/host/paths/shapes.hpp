// shapes.hpp: functions of a header, which every source that includes it may inline.
#pragma once
#include <vector>

#if defined(__has_attribute) && __has_attribute(nomerge)
#define NO_MERGE __attribute__((nomerge)) /* as in ars.h */
#else
#define NO_MERGE
#endif

extern "C" NO_MERGE double ars_flat(void);
extern "C" NO_MERGE double ars_sample(const char *name, double mean);

namespace detector {
template <class T> T smear(T x) {
    return x + static_cast<T>(ars_flat());
}

class Shape {
  public:
    virtual ~Shape() {}
    virtual double area() const { return ars_flat() + 1; }
    virtual double edge() const = 0;
    double both() const { return area() + edge() + area(); }
};

class Square : public Shape {
  public:
    explicit Square(double a) : side(a + ars_flat()) {}
    double area() const override { return side * ars_flat() + Shape::area(); }
    double edge() const override { return side + ars_flat(); }

  private:
    double side;
};

struct Sum {
    double total = 0;
    void operator()(double x) { total += x * ars_flat(); }
    Sum &operator+=(double x) {
        total += x + ars_flat();
        return *this;
    }
    double operator/(double x) const { return total / (x + ars_flat()); }
};
} // namespace detector

double elsewhere(detector::Shape &shape, std::vector<double> &values);
