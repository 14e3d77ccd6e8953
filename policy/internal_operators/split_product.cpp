#include "policy/internal_operators/split_product.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "policy/body/body_edits.hpp"
#include "policy/body/memory_order.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "policy/graph/step_arguments.hpp"
#include "policy/internal_operators/step_writer.hpp"

namespace cudal1 {

namespace {

constexpr const char *k_name = "cudal1::tf32x3_product", *k_single = "cudal1::tf32_product";

// Rounded to TF32, half away from zero as cvt.rna does; values that are not finite or would overflow are unchanged.
constexpr const char* k_rounded = "fabsf($0) < 3.4e38f ? __int_as_float((__float_as_int($0) + 0x1000) & ~0x1fff) : $0";

// Tensor cores truncate when they accumulate: 131,072 products near one, in one sum, are off by 5.5e-5 (H200), in
// pieces of 1024 by 6.2e-6. Sums over a k above k_longest_sum are made of pieces, which float32 adds up; shorter ones
// are not, since that takes memory and time and most inputs have products of both signs.
constexpr int64_t k_longest_sum = 8192, k_piece = 512;
constexpr int64_t k_largest_pieces = int64_t{1} << 30;  // bytes of all pieces of a product

int64_t product_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Into how many pieces a product of matrices goes; 1 if it is short, has other than two dimensions, or its k cannot be
// divided evenly.
int64_t pieces_of(const tensor_type& a, const tensor_type& b, const tensor_type& result) {
  if (a.dim() != 2 || b.dim() != 2) return 1;
  const int64_t k = a.shape.back(), least = (k + k_piece - 1) / k_piece;
  if (k <= k_longest_sum) return 1;
  for (int64_t p = least; p > 1 && p <= 4 * least; ++p)
    if (k % p == 0 && 3 * p * product_of(result.shape) * size_of(dtype::float32) <= k_largest_pieces) return p;
  return 1;
}

// Writes products and the operands' parts into a program.
class product_splitter final : public step_lowering {
 public:
  product_splitter(const graph& g, program_kernels& kernels)
      : graph_(&g), kernels_(&kernels), out_(&kernels.into()), writer_(g, kernels.into()) {}
  expected<void> add(const graph_step& s, const aten_step& call) override;

 private:
  struct parts {
    std::string high, low;
  };
  expected<parts> split(const std::string& value, const std::string& name);
  void multiply(const product_signature& line, const std::string& x, const std::string& y, const std::string& into);
  // Multiplies as so many products of pieces, added up.
  void multiply_in_pieces(const product_signature& line, int64_t pieces, const std::string& x, const std::string& y,
                          const std::string& into);
  // `value` with the pieces of `dim` as the first of three dimensions.
  std::string in_pieces(const std::string& value, int64_t dim, int64_t pieces);

  const graph* graph_;
  program_kernels* kernels_;
  program* out_;
  std::map<std::string, parts> known_;
  std::map<std::string, std::string> in_pieces_;
  step_writer writer_;
  int written_ = 0;
};

expected<product_splitter::parts> product_splitter::split(const std::string& value, const std::string& name) {
  if (const auto found = known_.find(value); found != known_.end()) return found->second;
  const tensor_type& type = graph_->type_of(value);
  const std::vector<int64_t> order = memory_order(type);
  const tensor_type walked = permuted(type, order);
  const bool straight = std::is_sorted(order.begin(), order.end());
  kernel_body body;
  body.axes = parallel_axes(walked.shape);
  body_access from{name, walked, walked.strides, starts_aligned(*graph_, value)};
  const int x = add_load(body, std::move(from), values_per::element);
  const int high = add_pointwise(body, k_rounded, {x});
  const int rest = add_pointwise(body, "$0 - $1", {x, high});
  const int low = add_pointwise(body, k_rounded, {rest});
  const std::string names[2] = {writer_.fresh(name + "_high"), writer_.fresh(name + "_low")};
  const tensor_type dense = contiguous(dtype::float32, walked.shape);
  std::vector<step> views;
  for (int i = 0; i < 2; ++i) {
    const std::string memory = straight ? names[i] : writer_.fresh(names[i] + "_memory");
    body.results.push_back({i == 0 ? high : low, {memory, dense, dense.strides}});
    if (straight) continue;
    views.emplace_back(ordered_back(memory, order, names[i]));
  }
  collapse_axes(body);
  std::vector<step>& where = graph_->is_constant(value) ? out_->setup : out_->steps;
  CUDAL1_TRY(const auto steps,
             kernels_->add({&body, {}, fmt::format("split{}", written_++), "the high and low TF32 parts of a tensor"}));
  where.insert(where.end(), steps.begin(), steps.end());
  where.insert(where.end(), views.begin(), views.end());
  return known_[value] = {names[0], names[1]};
}

void product_splitter::multiply(const product_signature& line, const std::string& x, const std::string& y,
                                const std::string& into) {
  const product_signature* plain = find_product_signature(line.plain);
  writer_.add(line.plain.data(), {{std::string(plain->a), json(x)}, {std::string(plain->b), json(y)}}, into, "tf32");
}

std::string product_splitter::in_pieces(const std::string& value, int64_t dim, int64_t pieces) {
  std::string& known = in_pieces_[value];
  if (!known.empty()) return known;
  const std::string divided = writer_.fresh(value + "_divided");
  known = writer_.fresh(value + "_pieces");
  writer_.add(
      "aten::unflatten.int",
      {{"self", json(value)}, {"dim", json(dim)}, {"sizes", json(json::array{json(pieces), json(int64_t{-1})})}},
      divided);
  if (dim == 1)
    writer_.add(
        "aten::permute",
        {{"self", json(divided)}, {"dims", json(json::array{json(int64_t{1}), json(int64_t{0}), json(int64_t{2})})}},
        known);
  else
    known = divided;
  return known;
}

void product_splitter::multiply_in_pieces(const product_signature& line, int64_t pieces, const std::string& x,
                                          const std::string& y, const std::string& into) {
  const std::string a = in_pieces(x, 1, pieces), products = writer_.fresh(into + "_pieces");
  std::string b;
  if (line.op == "aten::linear") {  // [n, k]
    b = writer_.fresh(y + "_right");
    writer_.add("aten::transpose.int",
                {{"self", json(in_pieces(y, 1, pieces))}, {"dim0", json(int64_t{1})}, {"dim1", json(int64_t{2})}}, b);
  } else {
    b = in_pieces(y, 0, pieces);
  }
  writer_.add("aten::bmm", {{"self", json(a)}, {"mat2", json(b)}}, products, "tf32");
  writer_.add("aten::sum.dim_IntList", {{"self", json(products)}, {"dim", json(json::array{json(int64_t{0})})}}, into);
}

expected<void> product_splitter::add(const graph_step& s, const aten_step& call) {
  CUDAL1_TRY(const float32_operands operands, float32_operands_of(*graph_, s));
  const product_signature* line = find_product_signature(s.task_op());
  const std::string a_name = argument_of(call, line->a)->as_string(), b_name = argument_of(call, line->b)->as_string();
  CUDAL1_TRY(const parts a, split(operands.a, a_name));
  CUDAL1_TRY(const parts b, split(operands.b, b_name));
  const std::string& result = call.results[0];
  const std::string sums[3] = {writer_.fresh(result + "_high"), writer_.fresh(result + "_low"),
                               writer_.fresh(result + "_low2")};
  const tensor_type& type = s.result_types[0];
  const json* bias = argument_of(call, "bias");
  const bool adds = line->op != line->plain && line->op != "aten::linear";  // addmm, baddbmm
  const bool is_plain = !adds && (bias == nullptr || !bias->is_string());
  const int64_t pieces = is_plain ? pieces_of(graph_->type_of(operands.a), graph_->type_of(operands.b), type) : 1;
  if (pieces > 1) {
    multiply_in_pieces(*line, pieces, a.high, b.high, sums[0]);
    multiply_in_pieces(*line, pieces, a.high, b.low, sums[1]);
    multiply_in_pieces(*line, pieces, a.low, b.high, sums[2]);
  } else {
    // What is added to the product (a bias) goes with the large one.
    aten_step main = call;
    main.precision = "tf32";
    main.results = {sums[0]};
    for (auto& [name, value] : main.args) {
      if (name == line->a) value = json(a.high);
      if (name == line->b) value = json(b.high);
    }
    out_->steps.emplace_back(std::move(main));
    multiply(*line, a.high, b.low, sums[1]);
    multiply(*line, a.low, b.high, sums[2]);
  }

  kernel_body body;
  body.axes = parallel_axes(type.shape);
  std::vector<int> nodes;
  for (const auto& sum : sums)
    nodes.push_back(add_load(body, {sum, type, type.strides}, values_per::element));
  const double alpha = number_argument(s, "alpha").value_or(1);
  const std::string expression =
      alpha == 1 ? "$0 + ($1 + $2)" : "$0 + " + c_literal(alpha, dtype::float32) + " * ($1 + $2)";
  body.results.push_back({add_pointwise(body, expression, nodes), {result, type, type.strides}});
  collapse_axes(body);
  CUDAL1_TRY(const auto steps,
             kernels_->add({&body, {}, fmt::format("sum{}", written_++), "the sum of the three products"}));
  out_->steps.insert(out_->steps.end(), steps.begin(), steps.end());
  return {};
}

class tf32_writer final : public step_lowering {
 public:
  explicit tf32_writer(program_kernels& kernels) : out_(&kernels.into()) {}
  expected<void> add(const graph_step&, const aten_step& call) override {
    out_->steps.emplace_back(call);
    std::get<aten_step>(out_->steps.back()).precision = "tf32";
    return {};
  }

 private:
  program* out_;
};

}  // namespace

expected<float32_operands> float32_operands_of(const graph& g, const graph_step& s) {
  const product_signature* line = find_product_signature(s.task_op());
  if (line == nullptr)
    return fail(errc::invalid_argument, "step {} ({}) is not a matrix product", s.number, s.task_op());
  float32_operands out;
  out.a = g.resolve(tensor_argument_name(s, line->a).value_or(""));
  out.b = g.resolve(tensor_argument_name(s, line->b).value_or(""));
  for (const auto& value : {out.a, out.b}) {
    const tensor_type& type = g.type_of(value);
    if (type.type != dtype::float32)
      return fail(errc::invalid_argument, "step {} ({}) multiplies {}, not float32", s.number, s.task_op(),
                  type.text());
    if (type.numel() == 0 || type.storage_bytes() != type.bytes())
      return fail(errc::invalid_argument, "{} is {}, which is not dense in memory", value, type.text());
  }
  return out;
}

operator_use split_product(const graph_step& s) {
  return {k_name, s.use->arguments};
}

internal_operator split_product_operator() {
  return {k_name,
          [](const graph& g, program_kernels& kernels) { return std::make_unique<product_splitter>(g, kernels); }};
}

operator_use tf32_product(const graph_step& s) {
  return {k_single, s.use->arguments};
}

internal_operator tf32_product_operator() {
  return {k_single, [](const graph&, program_kernels& kernels) { return std::make_unique<tf32_writer>(kernels); }};
}

}  // namespace cudal1
