/* pyprob_tensors.hpp: private parts of ars/pyprob_cpp.hpp: tensors, and the calls of libars that they become. */
#ifndef ARS_PYPROB_TENSORS_HPP
#define ARS_PYPROB_TENSORS_HPP

/* What pyprob_cpp's own header brought along stays there for programs that rely on it. */
#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <xtensor/xarray.hpp>
#include <xtensor/xio.hpp>

#include <ars.h>

/* As the value of an observation: the program has none. */
#define NONE_VALUE 17081023.17081023f

namespace pyprob_cpp {

/* ---- private: one process, one trace ---------------------------------------------------------------------------------- */

namespace libars_detail {

using tensor = xt::xarray<double>;
using shape_type = std::vector<std::size_t>;

struct process {
    std::default_random_engine engine;
    bool control = true, replace = false; /* the defaults */
    bool in_trace = false;
    bool replacing = false;                 /* sample() was called with replace */
    unsigned unnamed_tags = 0;              /* of this trace */
    std::map<std::string, tensor> replaced; /* draws of this trace of which the last one is recorded */
};

inline process &here() {
    static process it;
    return it;
}

/* For overloads that take text which is no std::string. */
template <class Text>
using if_text = std::enable_if_t<std::is_same<Text, const char *>::value || std::is_same<Text, char *>::value>;

/* ---- shapes ---- */

/* pyprob has no tensors without dimensions: on the wire they become vectors of one element. */
inline shape_type shape_of(const tensor &t) {
    return t.dimension() ? shape_type(t.shape().begin(), t.shape().end()) : shape_type{1};
}

inline std::size_t size_of(const shape_type &shape) {
    std::size_t n = 1;
    for (std::size_t extent : shape) n *= extent;
    return n;
}

inline std::string text_of(const shape_type &shape) {
    std::string text = "(";
    for (std::size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + ")";
}

/* The shape of a and b together, by NumPy's rules. `what` begins the message if there is none. */
inline shape_type broadcast(const shape_type &a, const shape_type &b, const char *what) {
    shape_type out(std::max(a.size(), b.size()), 1);
    const auto put = [&](const shape_type &in) {
        for (std::size_t i = 0; i < in.size(); i++) {
            std::size_t &extent = out[out.size() - in.size() + i];
            if (in[i] != 1 && extent != 1 && in[i] != extent)
                throw std::invalid_argument(std::string("pyprob_cpp: ") + what + ": shapes " + text_of(a) + " and " +
                                            text_of(b) + " do not broadcast");
            if (in[i] != 1) extent = in[i];
        }
    };
    put(a);
    put(b);
    return out;
}

/* The elements of a tensor in the order of a larger shape that it broadcasts to. */
class spread {
  public:
    spread(const tensor &t, const shape_type &to) : data(t.data()), one(t.size() == 1) {
        if (one || t.size() == size_of(to))
            return; /* the order is the same: dimensions of extent 1 aside, so is the shape */
        const shape_type from = shape_of(t);
        made.resize(size_of(to));
        for (std::size_t i = 0; i < made.size(); i++) {
            std::size_t rest = i, at = 0, stride = 1;
            for (std::size_t k = 0; k < from.size(); k++) { /* from the last dimension on */
                const std::size_t extent = to[to.size() - 1 - k], own = from[from.size() - 1 - k];
                at += own == 1 ? 0 : rest % extent * stride;
                stride *= own;
                rest /= extent;
            }
            made[i] = t.data()[at];
        }
        data = made.data();
    }
    spread(const spread &) = delete;
    spread &operator=(const spread &) = delete;
    double operator[](std::size_t i) const { return data[one ? 0 : i]; }

  private:
    const double *data;
    bool one;
    std::vector<double> made;
};

/* ---- calls of libars ---- */

/* `otherwise` NULL: named by its call path. */
inline const char *label(const std::string &address, const std::string &name, const char *otherwise = nullptr) {
    return !name.empty() ? name.c_str() : !address.empty() ? address.c_str() : otherwise;
}

/* A result. Numbers, and vectors that have one element in every trace, are one value per trace. */
inline void record(const char *name, const tensor &value) {
    if (value.dimension() < 2) {
        ars_results(name, value.data(), value.size());
        return;
    }
    const shape_type shape = shape_of(value);
    ars_results_shaped(name, value.data(), shape.data(), shape.size());
}

/* A draw from the prior that the controller does not see. */
inline void draw_nuisance(const char *name, const ars_dist *d, tensor &out) {
    for (std::size_t i = 0; i < out.size(); i++) out.data()[i] = ars_draw(d[i]);
    if (!name) return;
    if (here().replacing)
        here().replaced[name] = out;
    else
        record(name, out);
}

inline tensor draw(const char *name, bool control, const ars_dist *d, const shape_type &shape) {
    tensor out = tensor::from_shape(shape);
    const bool latent = control && (!here().replacing || ars_in_loop());
    if (!out.size())
        ;
    else if (!latent)
        draw_nuisance(name, d, out);
    else if (out.size() == 1)
        out.data()[0] = ars_sample(name, d[0]);
    else
        ars_sample_vector(name, d, out.size(), out.data());
    return out;
}

inline bool has_value(const tensor &value) {
    return value.size() && value.data()[0] != static_cast<double>(NONE_VALUE);
}

/* `values`: the program's own; NULL if it has none. */
inline void score(const char *name, const ars_dist *d, std::size_t n, const double *values) {
    if (!n) return;
    if (n == 1 && values)
        ars_observe_value(name, d[0], values[0]);
    else if (n == 1)
        ars_observe(name, d[0]);
    else if (values)
        ars_observe_values(name, d, n, values, nullptr);
    else
        ars_observe_vector(name, d, n, nullptr);
}

/* Room for a few distributions without malloc. */
class dists {
  public:
    explicit dists(std::size_t n) : many(n > 1 ? n : 0) {}
    ars_dist &operator[](std::size_t i) { return many.empty() ? single : many[i]; }
    const ars_dist *data() const { return many.empty() ? &single : many.data(); }

  private:
    ars_dist single = {};
    std::vector<ars_dist> many;
};

} // namespace libars_detail

} // namespace pyprob_cpp

#endif /* ARS_PYPROB_TENSORS_HPP */
