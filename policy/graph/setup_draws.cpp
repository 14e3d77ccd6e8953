#include "policy/graph/setup_draws.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

struct moments {
  double mean = 0, variance = 1;
};

moments moments_of(const draw_spec& d) {
  switch (d.kind) {
    case distribution::normal:
      return {d.mean, d.std * d.std};
    case distribution::uniform:
      return {(d.low + d.high) / 2, (d.high - d.low) * (d.high - d.low) / 12};
    case distribution::constant:
      return {d.value, 0};
    default:
      return {};
  }
}

moments sum_of(const moments& a, const moments& b) {
  return {a.mean + b.mean, a.variance + b.variance};
}

// The moments of the sum of so many products.
moments products_of(const moments& a, const moments& b, double count) {
  const double variance = a.variance * b.variance + a.variance * b.mean * b.mean + b.variance * a.mean * a.mean;
  return {count * a.mean * b.mean, count * variance};
}

moments root_of(const moments& square) {
  return square.mean > 0 ? moments{std::sqrt(square.mean), square.variance / (4 * square.mean)} : square;
}

// The moments of a quotient, as if the divisor were its mean.
moments quotient_of(const moments& a, const moments& b) {
  const double by = std::max(std::fabs(b.mean), std::sqrt(b.variance));
  return by > 0 ? moments{a.mean / by, a.variance / (by * by)} : a;
}

moments moments_of(const graph& g, const std::string& value);

// The moments of joined tensors.
moments joined_moments(const graph& g, const json::array& tensors) {
  double count = 0, sum = 0, squares = 0;
  for (const auto& each : tensors) {
    const std::string& name = each.as_string();
    const moments m = moments_of(g, name);
    const auto n = static_cast<double>(g.type_of(name).numel());
    count += n;
    sum += n * m.mean;
    squares += n * (m.variance + m.mean * m.mean);
  }
  const double mean = sum / count;
  return {mean, std::max(0.0, squares / count - mean * mean)};
}

moments moments_of(const graph& g, const aten_step& made) {
  std::vector<std::string> operands;
  for (const auto& [key, written] : made.args) {
    if (key == "tensors") return joined_moments(g, written.as_array());
    if (key == "fill_value") return {written.as_number(), 0};
    if (written.is_string() && key != "dtype") operands.emplace_back(written.as_string());
  }
  if (operands.empty()) return {};
  const moments first = moments_of(g, operands[0]);
  if (made.op == "aten::sqrt") return root_of(first);
  if (operands.size() == 1) return first;  // another type or shape
  const moments second = moments_of(g, operands[1]);
  if (made.op == "aten::add.Tensor") return sum_of(first, second);
  if (made.op == "aten::sub.Tensor") return sum_of(first, {-second.mean, second.variance});
  if (made.op == "aten::div.Tensor") return quotient_of(first, second);
  const bool sums = made.op == "aten::mm" || made.op == "aten::mv";
  return products_of(first, second, sums ? static_cast<double>(g.type_of(operands[0]).shape.back()) : 1);
}

moments moments_of(const graph& g, const std::string& value) {
  const auto& weights = g.origin().reference.text.weights;
  if (const auto found = std::ranges::find(weights, value, &tensor_declaration::name); found != weights.end())
    return moments_of(g.origin().weights[static_cast<std::size_t>(found - weights.begin())].draw);
  const auto made = std::ranges::find(g.setup(), value, [](const aten_step& s) { return s.results[0]; });
  return made == g.setup().end() ? moments() : moments_of(g, *made);
}

}  // namespace

draw_spec draw_of_setup_value(const graph& g, const std::string& value) {
  const moments m = moments_of(g, value);
  draw_spec out;
  if (m.variance == 0) {
    out.kind = distribution::constant;
    out.value = m.mean;
    return out;
  }
  out.mean = m.mean;
  out.std = std::sqrt(m.variance);
  return out;
}

}  // namespace cudal1
