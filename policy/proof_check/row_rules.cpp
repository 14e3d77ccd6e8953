#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policy/proof_check/element_operators.hpp"

namespace cudal1 {

namespace {

using step = element_step;
using dimensions = std::vector<std::size_t>;

dimensions range(std::size_t first, std::size_t end) {
  dimensions out(end - std::min(first, end));
  std::iota(out.begin(), out.end(), first);
  return out;
}
double count_of(const dimensions& dims, const std::vector<int64_t>& shape) {
  double out = 1;
  for (const std::size_t d : dims)
    out *= static_cast<double>(shape[d]);
  return out;
}

// ---- reductions ----

// The dimensions over which the step reduces: `dim` is a number, a list, or missing for all.
dimensions reduced_dims(const step& s) {
  const std::size_t dims = s.type("self").shape.size();
  if (const auto one = integer_argument(s.step(), "dim")) return {dimension_of(*one, dims)};
  dimensions out;
  for (const int64_t d : s.integers("dim"))
    out.push_back(dimension_of(d, dims));
  return out.empty() ? range(0, dims) : out;
}
// The first element of those that are reduced to the one at `p`.
place start_of(const place& p, const dimensions& reduced, const std::vector<int64_t>& shape, bool keeps) {
  place out;
  out.dims = shape.size();
  std::size_t next = 0;
  for (std::size_t d = 0; d < out.dims; ++d) {
    const bool gone = std::ranges::count(reduced, d) > 0;
    out[d] = gone ? 0 : p[next];
    if (!gone || keeps) ++next;
  }
  return out;
}
template <typename F>
void for_each_reduced(const step& s, const place& p, const F& visit) {
  const auto& shape = s.type("self").shape;
  const auto dims = reduced_dims(s);
  for_each_along(start_of(p, dims, shape, s.boolean("keepdim")), dims, shape,
                 [&](const place& at) { visit(s.element("self", at)); });
}

double sum(const step& s, const place& p) {
  double out = 0;
  for_each_reduced(s, p, [&](double x) { out += x; });
  return out;
}
double mean(const step& s, const place& p) {
  return sum(s, p) / count_of(reduced_dims(s), s.type("self").shape);
}
double maximum(const step& s, const place& p) {
  double out = -std::numeric_limits<double>::infinity();
  for_each_reduced(s, p, [&](double x) { out = std::isnan(x) || x > out ? x : out; });
  return out;
}
double minimum(const step& s, const place& p) {
  double out = std::numeric_limits<double>::infinity();
  for_each_reduced(s, p, [&](double x) { out = std::isnan(x) || x < out ? x : out; });
  return out;
}
double log_sum_exp(const step& s, const place& p) {
  const double most = maximum(s, p);
  double out = 0;
  for_each_reduced(s, p, [&](double x) { out += std::exp(x - most); });
  return most + std::log(out);
}

double variance(const step& s, const place& p) {
  const double count = count_of(reduced_dims(s), s.type("self").shape), middle = sum(s, p) / count;
  double squares = 0;
  for_each_reduced(s, p, [&](double x) { squares += (x - middle) * (x - middle); });
  return squares / (count - s.number("correction", 1));
}
double vector_norm(const step& s, const place& p) {
  const double order = s.number("ord", 2);
  double most = 0, total = 0;
  for_each_reduced(s, p, [&](double x) {
    most = std::max(most, std::fabs(x));
    total += std::pow(std::fabs(x), order);
  });
  if (std::isinf(order) && order > 0) return most;
  return order > 0 ? std::pow(total, 1 / order) : s.cannot("of this order");
}

double running_sum(const step& s, const place& p) {
  const std::size_t d = s.dim("dim", 0, p.dims);
  place from = p;
  double out = 0;
  for (from[d] = 0; from[d] <= p[d]; ++from[d])
    out += s.element("self", from);
  return out;
}

// ---- softmax ----

double log_softmax(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  if (shape.empty()) return 0;
  const dimensions dims = {s.dim("dim", -1, shape.size())};
  double most = -std::numeric_limits<double>::infinity(), total = 0;
  for_each_along(p, dims, shape, [&](const place& at) { most = std::max(most, s.element("self", at)); });
  for_each_along(p, dims, shape, [&](const place& at) { total += std::exp(s.element("self", at) - most); });
  return s.element("self", p) - most - std::log(total);
}
double softmax(const step& s, const place& p) {
  return std::exp(log_softmax(s, p));
}

// ---- norms ----

// (x - mean) / sqrt(variance + eps), with the statistics of the elements that differ from `p` in these dimensions; of
// the `count` that belong to them.
template <typename F>
double standardized(const step& s, const place& p, const dimensions& dims, const F& belongs, double count) {
  const auto& shape = s.type("input").shape;
  double total = 0, squares = 0;
  for_each_along(p, dims, shape, [&](const place& at) { total += belongs(at) ? s.element("input", at) : 0; });
  const double mean = total / count;
  for_each_along(p, dims, shape, [&](const place& at) {
    if (!belongs(at)) return;
    const double off = s.element("input", at) - mean;
    squares += off * off;
  });
  return (s.element("input", p) - mean) / std::sqrt(squares / count + s.number("eps", 1e-5));
}
double standardized(const step& s, const place& p, const dimensions& dims) {
  return standardized(
      s, p, dims, [](const place&) { return true; }, count_of(dims, s.type("input").shape));
}
// x * weight + bias, of one number a channel.
double scaled_channel(const step& s, const place& p, double x) {
  const place channel = place_at(p[1]);
  if (s.has("weight")) x *= s.element("weight", channel);
  if (s.has("bias")) x += s.element("bias", channel);
  return x;
}
place last_dims(const place& p, std::size_t count) {
  place out;
  out.dims = count;
  for (std::size_t d = 0; d < count; ++d)
    out[d] = p[p.dims - count + d];
  return out;
}

// The mean of a box of `self`; `divisor` in place of its size unless that is 0.
double mean_of_box(const step& s, const place& p, const place& first, const std::vector<int64_t>& size,
                   double divisor = 0) {
  const std::size_t dims = size.size(), start = p.dims - dims;
  double sum = 0, count = 1;
  for (const int64_t n : size)
    count *= static_cast<double>(n);
  place inside;
  inside.dims = dims;
  for_each_along(inside, range(0, dims), size, [&](const place& at) {
    place from = p;
    for (std::size_t d = 0; d < dims; ++d)
      from[start + d] = first[d] + at[d];
    sum += s.element("self", from);
  });
  return sum / (divisor == 0 ? count : divisor);
}

// A pool's argument for a dimension.
int64_t of_dimension(const step& s, const char* name, std::size_t d, int64_t otherwise) {
  const auto all = s.integers(name);
  return all.empty() ? otherwise : all.size() == 1 ? all.front() : all[d];
}
// What is beyond the operand is never the largest.
double largest_of_windows(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  const std::size_t dims = s.integers("kernel_size").size(), start = p.dims - dims;
  place window;
  std::vector<int64_t> size;
  window.dims = dims;
  for (std::size_t d = 0; d < dims; ++d)
    size.push_back(of_dimension(s, "kernel_size", d, 1));
  double out = -std::numeric_limits<double>::infinity();
  for_each_along(window, range(0, dims), size, [&](const place& at) {
    place from = p;
    for (std::size_t d = 0; d < dims; ++d) {
      from[start + d] = p[start + d] * of_dimension(s, "stride", d, size[d]) - of_dimension(s, "padding", d, 0) +
                        at[d] * of_dimension(s, "dilation", d, 1);
      if (from[start + d] < 0 || from[start + d] >= shape[start + d]) return;
    }
    const double x = s.element("self", from);
    out = std::isnan(x) || x > out ? x : out;
  });
  return out;
}

// Of windows that reach beyond the operand, the zeros of its padding are counted or not.
double average_pool(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  const std::size_t dims = s.integers("kernel_size").size(), start = p.dims - dims;
  const auto of = [&](const char* name, std::size_t d, int64_t otherwise) {
    return of_dimension(s, name, d, otherwise);
  };
  place first;
  std::vector<int64_t> size;
  double padded = 1;
  for (std::size_t d = 0; d < dims; ++d) {
    const int64_t window = of("kernel_size", d, 1), padding = of("padding", d, 0), extent = shape[start + d];
    const int64_t from = p[start + d] * of("stride", d, window) - padding;
    const int64_t to = std::min(from + window, extent + padding);
    padded *= static_cast<double>(to - from);
    first[d] = std::max<int64_t>(from, 0);
    size.push_back(std::min(to, extent) - first[d]);
  }
  const auto given = static_cast<double>(s.integer("divisor_override", 0));
  return mean_of_box(s, p, first, size, given != 0 ? given : s.boolean("count_include_pad") ? padded : 0);
}
double adaptive_average_pool(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  const std::size_t dims = s.integers("output_size").size(), start = p.dims - dims;
  place first;
  std::vector<int64_t> size;
  for (std::size_t d = 0; d < dims; ++d) {
    const int64_t results = s.result().shape[start + d], extent = shape[start + d], at = p[start + d];
    first[d] = at * extent / results;
    size.push_back(((at + 1) * extent + results - 1) / results - first[d]);
  }
  return mean_of_box(s, p, first, size);
}

double layer_norm(const step& s, const place& p) {
  const std::size_t normed = s.integers("normalized_shape").size();
  double x = standardized(s, p, range(p.dims - normed, p.dims));
  if (s.has("weight")) x *= s.element("weight", last_dims(p, normed));
  if (s.has("bias")) x += s.element("bias", last_dims(p, normed));
  return x;
}
double rms_norm(const step& s, const place& p) {
  const auto& shape = s.type("input").shape;
  const std::size_t normed = s.integers("normalized_shape").size();
  const auto dims = range(p.dims - normed, p.dims);
  double squares = 0;
  for_each_along(p, dims, shape, [&](const place& at) { squares += std::pow(s.element("input", at), 2); });
  double x =
      s.element("input", p) / std::sqrt(squares / count_of(dims, shape) + s.number("eps", 1.1920928955078125e-07));
  if (s.has("weight")) x *= s.element("weight", last_dims(p, normed));
  return x;
}
double group_norm(const step& s, const place& p) {
  const auto& shape = s.type("input").shape;
  const int64_t channels = shape[1] / s.integer("num_groups", 1), group = p[1] / channels;
  const auto dims = range(1, p.dims);
  return scaled_channel(s, p,
                        standardized(
                            s, p, dims, [&](const place& at) { return at[1] / channels == group; },
                            count_of(dims, shape) / static_cast<double>(s.integer("num_groups", 1))));
}
double with_running_statistics(const step& s, const place& p) {
  const place channel = place_at(p[1]);
  return (s.element("input", p) - s.element("running_mean", channel)) /
         std::sqrt(s.element("running_var", channel) + s.number("eps", 1e-5));
}
double batch_norm(const step& s, const place& p) {
  auto dims = range(2, p.dims);
  dims.insert(dims.begin(), 0);
  return scaled_channel(s, p, s.boolean("training") ? standardized(s, p, dims) : with_running_statistics(s, p));
}
double instance_norm(const step& s, const place& p) {
  return scaled_channel(
      s, p, s.boolean("use_input_stats") ? standardized(s, p, range(2, p.dims)) : with_running_statistics(s, p));
}

}  // namespace

element_rules row_rules() {
  return {{"aten::sum", sum},
          {"aten::sum.dim_IntList", sum},
          {"aten::mean", mean},
          {"aten::mean.dim", mean},
          {"aten::var.correction", variance},
          {"aten::avg_pool1d", average_pool},
          {"aten::avg_pool2d", average_pool},
          {"aten::avg_pool3d", average_pool},
          {"aten::max_pool1d", largest_of_windows},
          {"aten::max_pool2d", largest_of_windows},
          {"aten::max_pool3d", largest_of_windows},
          {"aten::adaptive_avg_pool1d", adaptive_average_pool},
          {"aten::adaptive_avg_pool2d", adaptive_average_pool},
          {"aten::adaptive_avg_pool3d", adaptive_average_pool},
          {"aten::_adaptive_avg_pool2d", adaptive_average_pool},
          {"aten::_adaptive_avg_pool3d", adaptive_average_pool},
          {"aten::amax", maximum},
          {"aten::amin", minimum},
          {"aten::max", maximum},
          {"aten::min", minimum},
          {"aten::max.dim", maximum},
          {"aten::min.dim", minimum},
          {"aten::logsumexp", log_sum_exp},
          {"aten::cumsum", running_sum},
          {"aten::linalg_vector_norm", vector_norm},
          {"aten::softmax.int", softmax},
          {"aten::_softmax", softmax},
          {"aten::log_softmax.int", log_softmax},
          {"aten::_log_softmax", log_softmax},
          {"aten::layer_norm", layer_norm},
          {"aten::native_layer_norm", layer_norm},
          {"aten::rms_norm", rms_norm},
          {"aten::group_norm", group_norm},
          {"aten::batch_norm", batch_norm},
          {"aten::native_batch_norm", batch_norm},
          {"aten::_native_batch_norm_legit_no_training", batch_norm},
          {"aten::instance_norm", instance_norm}};
}

}  // namespace cudal1
