#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "policy/proof_check/element_operators.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"

namespace cudal1 {

namespace {

using step = element_step;

double exact(double a, double b) {
  return a * b;
}
// The high part of a float in TF32's 11 bits, and the rest in as many.
double tf32(double x) {
  const int bits = std::ilogb(x) - 10;
  return x == 0 || !std::isfinite(x) ? x : std::ldexp(std::nearbyint(std::ldexp(x, -bits)), bits);
}
double in_three_products(double a, double b) {
  const double a_high = tf32(a), b_high = tf32(b);
  return a_high * b_high + a_high * tf32(b - b_high) + tf32(a - a_high) * b_high;
}

place pair(int64_t i, int64_t j) {
  place out;
  out.dims = 2;
  out[0] = i;
  out[1] = j;
  return out;
}
place with_last(place p, int64_t i) {
  p[p.dims - 1] = i;
  return p;
}

// ---- matrices ----

// Row times column of stacks of matrices, whose leading dimensions are broadcast; vectors are rows and columns.
template <double (*Times)(double, double)>
double matrix_product(const step& s, const place& p, const char* left, const char* right) {
  const auto &a = s.type(left).shape, &b = s.type(right).shape;
  const std::size_t stacked = p.dims + (a.size() == 1) + (b.size() == 1) - 2;
  const auto in_stack = [&](const std::vector<int64_t>& shape) {
    place leading = p;
    leading.dims = stacked;
    if (shape.size() < 2) return place_at(0);
    place out = broadcast_place(leading, {shape.begin(), shape.end() - 2});
    out.dims = shape.size();
    return out;
  };
  place at_left = in_stack(a), at_right = in_stack(b);
  if (a.size() > 1) at_left[a.size() - 2] = p[stacked];
  if (b.size() > 1) at_right[b.size() - 1] = p[p.dims - 1];
  double out = 0;
  for (int64_t k = 0; k < a.back(); ++k) {
    at_left[a.size() - 1] = k;
    at_right[b.size() > 1 ? b.size() - 2 : 0] = k;
    out += Times(s.element(left, at_left), s.element(right, at_right));
  }
  return out;
}
template <double (*Times)(double, double)>
double layer(const step& s, const place& p) {
  const auto& weight = s.type("weight").shape;
  const bool matrix = weight.size() == 2;
  double out = s.has("bias") ? s.element("bias", matrix ? place_at(p[p.dims - 1]) : place{}) : 0;
  place from = p;
  if (!matrix) ++from.dims;
  for (int64_t k = 0; k < weight.back(); ++k)
    out += Times(s.element("input", with_last(from, k)),
                 s.element("weight", matrix ? pair(p[p.dims - 1], k) : place_at(k)));
  return out;
}

double mm(const step& s, const place& p) {
  return matrix_product<exact>(s, p, "self", "mat2");
}
double matmul(const step& s, const place& p) {
  return matrix_product<exact>(s, p, "self", "other");
}
double mv(const step& s, const place& p) {
  return matrix_product<exact>(s, p, "self", "vec");
}
double dot(const step& s, const place& p) {
  return matrix_product<exact>(s, p, "self", "tensor");
}
double outer(const step& s, const place& p) {
  return s.element("self", place_at(p[0])) * s.element("vec2", place_at(p[1]));
}
template <double (*Times)(double, double)>
double added_product(const step& s, const place& p, const char* left, const char* right) {
  return s.number("beta", 1) * s.broadcast("self", p) + s.number("alpha", 1) * matrix_product<Times>(s, p, left, right);
}
double addmm(const step& s, const place& p) {
  return added_product<exact>(s, p, "mat1", "mat2");
}
double baddbmm(const step& s, const place& p) {
  return added_product<exact>(s, p, "batch1", "batch2");
}

// ---- convolutions ----

struct window {
  std::vector<int64_t> stride, padding, dilation;
};
window window_of(const step& s, std::size_t spatial) {
  const auto list = [&](const char* name, int64_t otherwise) {
    auto out = s.integers(name);
    if (out.empty()) out.assign(spatial, otherwise);
    return out;
  };
  return {list("stride", 1), list("padding", 0), list("dilation", 1)};
}

// The bias and the products of all elements of the weight that differ from `first`, which is the first one, in
// channels (its dimension `channels`) and space. `channel` is that of the input for an element of the weight, -1 for
// one of another group; `from`, where the input is read in a spatial dimension: nowhere if the weight meets no element.
template <typename Channel, typename From>
double windowed(const step& s, const place& p, place first, std::size_t channels, const Channel& channel,
                const From& from) {
  const auto &input = s.type("input").shape, &weight = s.type("weight").shape;
  if (input.size() != weight.size()) return s.cannot("of an input without a batch");
  const window w = window_of(s, weight.size() - 2);
  std::vector<std::size_t> dims = {channels};
  for (std::size_t d = 2; d < weight.size(); ++d)
    dims.push_back(d);
  first.dims = weight.size();
  double out = s.has("bias") ? s.element("bias", place_at(p[1])) : 0;
  place read = p;
  for_each_along(first, dims, weight, [&](const place& at) {
    read[1] = channel(at);
    if (read[1] < 0) return;
    for (std::size_t d = 2; d < weight.size(); ++d) {
      const std::optional<int64_t> found = from(w, d - 2, p[d], at[d]);
      if (!found || *found < 0 || *found >= input[d]) return;
      read[d] = *found;
    }
    out += s.element("input", read) * s.element("weight", at);
  });
  return out;
}

double convolution(const step& s, const place& p) {
  const auto& weight = s.type("weight").shape;
  const int64_t group = p[1] / (weight[0] / s.integer("groups", 1));
  return windowed(
      s, p, place_at(p[1]), 1, [&](const place& at) { return group * weight[1] + at[1]; },
      [](const window& w, std::size_t d, int64_t to, int64_t at) -> std::optional<int64_t> {
        return to * w.stride[d] - w.padding[d] + at * w.dilation[d];
      });
}
// Each element of the input is added, times the weight, to the results of its window.
double transposed_convolution(const step& s, const place& p) {
  const auto& weight = s.type("weight").shape;
  const int64_t inputs = weight[0] / s.integer("groups", 1), group = p[1] / weight[1];
  place first;
  first[1] = p[1] % weight[1];
  return windowed(
      s, p, first, 0, [&](const place& at) { return at[0] / inputs == group ? at[0] : -1; },
      [](const window& w, std::size_t d, int64_t to, int64_t at) -> std::optional<int64_t> {
        const int64_t offset = to + w.padding[d] - at * w.dilation[d];
        if (offset % w.stride[d] != 0) return std::nullopt;
        return offset / w.stride[d];
      });
}

// ---- internal operators ----

// factor * (values[row, :] . weights + offset)
double row_dot(const step& s, const place& p) {
  const auto& shape = s.type("values").shape;
  place from = place_of(number_of(p, s.result().shape) * shape.back(), shape);
  double out = s.has("offset") ? s.element("offset", place_of(0, s.type("offset").shape)) : 0;
  for (int64_t k = 0; k < shape.back(); ++k)
    out += s.element("values", with_last(from, k)) * s.element("weights", place_at(k));
  return out * s.number("factor", 1);
}
// A product in the arguments of the operator that it replaces.
template <double (*Times)(double, double)>
double replaced_product(const step& s, const place& p) {
  if (s.has("weight")) return layer<Times>(s, p);
  if (s.has("mat1")) return added_product<Times>(s, p, "mat1", "mat2");
  if (s.has("batch1")) return added_product<Times>(s, p, "batch1", "batch2");
  return matrix_product<Times>(s, p, "self", s.has("mat2") ? "mat2" : "other");
}

// The activation of a layer.
double activated_layer(const step& s, const place& p) {
  const double x = layer<exact>(s, p);
  return s.boolean("gelu") ? gelu_by_tanh(x) : (x < 0 ? 0 : x);
}

double activated_convolution(const step& s, const place& p) {
  const double x = convolution(s, p) + (s.has("addend") ? s.element("addend", p) : 0);
  return x < 0 ? 0 : x;
}

// A function of a chain without operands, by PyTorch's documentation.
double chained(const chain_link& link, double x) {
  const auto between = [](double v, double low, double high) { return v < low ? low : v > high ? high : v; };
  const auto softplus = [](double v) { return v > 20 ? v : std::log1p(std::exp(v)); };
  switch (link.what) {
    case chain_function::shift:
      return x + link.first;
    case chain_function::scale:
      return x * link.first;
    case chain_function::relu:
      return x < 0 ? 0 : x;
    case chain_function::leaky_relu:
      return x < 0 ? x * link.first : x;
    case chain_function::clamp:
      return between(x, link.first, link.second);
    case chain_function::elu:
      return x > 0 ? x : link.first * std::expm1(x);
    case chain_function::sigmoid:
      return 1 / (1 + std::exp(-x));
    case chain_function::tanh:
      return std::tanh(x);
    case chain_function::silu:
      return x / (1 + std::exp(-x));
    case chain_function::gelu:
      return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2;
    case chain_function::gelu_tanh:
      return gelu_by_tanh(x);
    case chain_function::softplus:
      return softplus(x);
    case chain_function::mish:
      return x * std::tanh(softplus(x));
    case chain_function::hardsigmoid:
      return between(x + 3, 0, 6) / 6;
    case chain_function::hardswish:
      return x * between(x + 3, 0, 6) / 6;
    case chain_function::add:
    case chain_function::multiply:
      break;
  }
  return std::nan("");
}

// An operand of a chain, which has one number for each channel or as many as the result. Steps of a program have them
// in a list, those that a move rewrote one by one.
class chain_operands {
 public:
  explicit chain_operands(const step& s) : step_(&s) {
    const auto* list = s.step().argument("operands");
    listed_ = list == nullptr ? nullptr : std::get_if<std::vector<tensor_argument>>(list);
  }
  std::size_t count() const {
    if (listed_ != nullptr) return listed_->size();
    return static_cast<std::size_t>(std::ranges::count_if(names, [&](const char* name) { return step_->has(name); }));
  }
  double element(std::size_t i, const place& p) const {
    if (listed_ != nullptr)
      return step_->element_of_list("operands", i, (*listed_)[i].type.dim() == 1 ? place_at(p[1]) : p);
    return step_->type(names[i]).dim() == 1 ? step_->element(names[i], place_at(p[1])) : step_->broadcast(names[i], p);
  }

 private:
  static constexpr std::array<const char*, longest_chain> names = {
      "operand0", "operand1", "operand2",  "operand3",  "operand4",  "operand5",  "operand6",  "operand7",
      "operand8", "operand9", "operand10", "operand11", "operand12", "operand13", "operand14", "operand15"};
  const step* step_;
  const std::vector<tensor_argument>* listed_ = nullptr;
};

double convolution_graph(const step& s, const place& p) {
  const chain_operands operands(s);
  const auto chain = read_chain(string_argument(s.step(), "graph").value_or(""), operands.count());
  if (!chain.problem.empty()) return s.cannot("of the chain: " + chain.problem);
  double x = s.boolean("transposed") ? transposed_convolution(s, p) : convolution(s, p);
  for (const chain_link& link : chain.links) {
    if (link.what == chain_function::add)
      x += operands.element(link.operand, p);
    else if (link.what == chain_function::multiply)
      x *= operands.element(link.operand, p);
    else
      x = chained(link, x);
  }
  return x;
}

}  // namespace

element_rules product_rules() {
  element_rules out = {
      {"aten::mm", mm},
      {"aten::bmm", mm},
      {"aten::matmul", matmul},
      {"aten::linear", layer<exact>},
      {"aten::mv", mv},
      {"aten::dot", dot},
      {"aten::outer", outer},
      {"aten::addmm", addmm},
      {"aten::baddbmm", baddbmm},
      {"cudal1::row_dot", row_dot},
      {"cudal1::tf32x3_product", replaced_product<in_three_products>},
      {"cudal1::tf32_product", replaced_product<exact>},  // but for rounding, as precision half accepts
      {"cudal1::activated_layer", activated_layer},
      {"cudal1::activated_convolution", activated_convolution},
      {"cudal1::convolution_graph", convolution_graph}};
  for (const char* op : {"aten::conv1d", "aten::conv2d", "aten::conv3d"})
    out.emplace_back(op, convolution);
  for (const char* op : {"aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"})
    out.emplace_back(op, transposed_convolution);
  return out;
}

}  // namespace cudal1
