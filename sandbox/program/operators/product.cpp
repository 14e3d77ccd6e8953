// Matrix products, and contractions that are made of them. ATen's results are contiguous.
#include <algorithm>

#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace rules {

namespace {

expected<void> check_pair(const tensor_type& a, const tensor_type& b, std::string_view name_a,
                          std::string_view name_b) {
  CUDAL1_CHECK(check_kind(a, numbers, name_a));
  return check_same_type(a, b, name_a, name_b);
}

expected<void> check_inner(int64_t a, int64_t b, const tensor_type& ta, const tensor_type& tb) {
  if (a == b) return {};
  return refuse("{} and {} cannot be multiplied: inner sizes {} and {} differ", ta.text(), tb.text(), a, b);
}

// The shape of the product of two matrices or batches of matrices of the given rank.
expected<std::vector<int64_t>> product_shape(const tensor_type& a, const tensor_type& b, int64_t rank,
                                             std::string_view name_a, std::string_view name_b) {
  CUDAL1_CHECK(check_pair(a, b, name_a, name_b));
  CUDAL1_CHECK(check_rank(a, rank, rank, name_a));
  CUDAL1_CHECK(check_rank(b, rank, rank, name_b));
  const auto r = static_cast<std::size_t>(rank);
  CUDAL1_CHECK(check_inner(a.shape[r - 1], b.shape[r - 2], a, b));
  if (rank == 3 && a.shape[0] != b.shape[0])
    return refuse("{} and {} have {} and {} matrices", name_a, name_b, a.shape[0], b.shape[0]);
  auto shape = a.shape;
  shape.back() = b.shape.back();
  return shape;
}

// self is added to the product, so its shape must broadcast to the product's.
outcome added(const arguments& a, const tensor_type& product, std::vector<int64_t> shape) {
  const auto& self = a.tensor("self");
  for (const auto* factor : {"beta", "alpha"})
    CUDAL1_CHECK(check_scalar_fits(a.scalar(factor), product.type, factor));
  CUDAL1_CHECK(check_same_type(self, product, "self", "the product"));
  CUDAL1_TRY(const auto both, broadcast(self.shape, shape));
  if (both != shape)
    return refuse("self is {}, but does not broadcast to the product's {}", self.text(), shape_text(shape));
  return one(contiguous(product.type, std::move(shape)));
}

// matmul's shape: a vector is a row on the left and a column on the right; batches broadcast.
expected<std::vector<int64_t>> matmul_shape(const tensor_type& a, const tensor_type& b) {
  CUDAL1_CHECK(check_rank(a, 1, 64, "the left operand"));
  CUDAL1_CHECK(check_rank(b, 1, 64, "the right operand"));
  const int64_t inner_b = b.dim() == 1 ? b.shape[0] : b.shape[b.shape.size() - 2];
  CUDAL1_CHECK(check_inner(a.shape.back(), inner_b, a, b));
  const auto batch = [](const tensor_type& t) {
    return t.dim() > 2 ? std::vector<int64_t>(t.shape.begin(), t.shape.end() - 2) : std::vector<int64_t>{};
  };
  CUDAL1_TRY(auto shape, broadcast(batch(a), batch(b)));
  if (a.dim() > 1) shape.push_back(a.shape[a.shape.size() - 2]);
  if (b.dim() > 1) shape.push_back(b.shape.back());
  return shape;
}

rule mm() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto shape, product_shape(a.tensor("self"), a.tensor("mat2"), 2, "self", "mat2"));
    return one(contiguous(a.tensor("self").type, std::move(shape)));
  };
}

rule bmm() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto shape, product_shape(a.tensor("self"), a.tensor("mat2"), 3, "self", "mat2"));
    return one(contiguous(a.tensor("self").type, std::move(shape)));
  };
}

// Of half types, the sums may be handed back as they are, in float32: there `out_dtype` may say so.
rule of_type(const rule& product) {
  return [product](const arguments& a) -> outcome {
    CUDAL1_TRY(auto results, product(a));
    const auto from = a.tensor("self").type, to = *a.type("out_dtype");
    if (!is_floating(from)) return refuse("self is {}; only floating types have an out_dtype", name_of(from));
    if (to != from && !(to == dtype::float32 && is_half(from)))
      return refuse("out_dtype is {}, but products of {} are {}{}", name_of(to), name_of(from), name_of(from),
                    is_half(from) ? " or float32" : "");
    results.front().type.type = to;
    return results;
  };
}

rule addmm() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto shape, product_shape(a.tensor("mat1"), a.tensor("mat2"), 2, "mat1", "mat2"));
    return added(a, a.tensor("mat1"), std::move(shape));
  };
}

// The activation of addmm's result: a ReLU, or a GELU, on a GPU by its tanh approximation.
rule addmm_activation() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_kind(a.tensor("mat1"), floats, "mat1"));
    return addmm()(a);
  };
}

rule baddbmm() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto shape, product_shape(a.tensor("batch1"), a.tensor("batch2"), 3, "batch1", "batch2"));
    return added(a, a.tensor("batch1"), std::move(shape));
  };
}

rule matmul() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("self"), &right = a.tensor("other");
    CUDAL1_CHECK(check_pair(left, right, "self", "other"));
    CUDAL1_TRY(auto shape, matmul_shape(left, right));
    return one(contiguous(left.type, std::move(shape)));
  };
}

rule linear() {
  return [](const arguments& a) -> outcome {
    const auto &input = a.tensor("input"), &weight = a.tensor("weight");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_same_type(input, weight, "input", "weight"));
    CUDAL1_CHECK(check_rank(input, 1, 64, "input"));
    CUDAL1_CHECK(check_rank(weight, 2, 2, "weight"));
    CUDAL1_CHECK(check_inner(input.shape.back(), weight.shape[1], input, weight));
    if (const auto* bias = a.optional_tensor("bias")) {
      CUDAL1_CHECK(check_same_type(input, *bias, "input", "bias"));
      if (bias->shape != std::vector<int64_t>{weight.shape[0]})
        return refuse("bias is {}, but should have shape [{}]", bias->text(), weight.shape[0]);
    }
    auto shape = input.shape;
    shape.back() = weight.shape[0];
    return one(contiguous(input.type, std::move(shape)));
  };
}

rule mv() {
  return [](const arguments& a) -> outcome {
    const auto &matrix = a.tensor("self"), &vector = a.tensor("vec");
    CUDAL1_CHECK(check_pair(matrix, vector, "self", "vec"));
    CUDAL1_CHECK(check_rank(matrix, 2, 2, "self"));
    CUDAL1_CHECK(check_rank(vector, 1, 1, "vec"));
    CUDAL1_CHECK(check_inner(matrix.shape[1], vector.shape[0], matrix, vector));
    return one(contiguous(matrix.type, {matrix.shape[0]}));
  };
}

rule dot() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("self"), &right = a.tensor("tensor");
    CUDAL1_CHECK(check_pair(left, right, "self", "tensor"));
    CUDAL1_CHECK(check_rank(left, 1, 1, "self"));
    CUDAL1_CHECK(check_rank(right, 1, 1, "tensor"));
    CUDAL1_CHECK(check_inner(left.shape[0], right.shape[0], left, right));
    return one(contiguous(left.type, {}));
  };
}

rule outer() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("self"), &right = a.tensor("vec2");
    CUDAL1_CHECK(check_pair(left, right, "self", "vec2"));
    CUDAL1_CHECK(check_rank(left, 1, 1, "self"));
    CUDAL1_CHECK(check_rank(right, 1, 1, "vec2"));
    return one(contiguous(left.type, {left.shape[0], right.shape[0]}));
  };
}

rule addmv() {
  return [](const arguments& a) -> outcome {
    const auto &matrix = a.tensor("mat"), &vector = a.tensor("vec");
    CUDAL1_CHECK(check_pair(matrix, vector, "mat", "vec"));
    CUDAL1_CHECK(check_rank(matrix, 2, 2, "mat"));
    CUDAL1_CHECK(check_rank(vector, 1, 1, "vec"));
    CUDAL1_CHECK(check_inner(matrix.shape[1], vector.shape[0], matrix, vector));
    return added(a, matrix, {matrix.shape[0]});
  };
}

rule addbmm() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto shape, product_shape(a.tensor("batch1"), a.tensor("batch2"), 3, "batch1", "batch2"));
    shape.erase(shape.begin());
    return added(a, a.tensor("batch1"), std::move(shape));
  };
}

rule inner() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("self"), &right = a.tensor("other");
    CUDAL1_CHECK(check_pair(left, right, "self", "other"));
    CUDAL1_CHECK(check_rank(left, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(right, 1, 64, "other"));
    CUDAL1_CHECK(check_inner(left.shape.back(), right.shape.back(), left, right));
    std::vector<int64_t> shape(left.shape.begin(), left.shape.end() - 1);
    shape.insert(shape.end(), right.shape.begin(), right.shape.end() - 1);
    return one(contiguous(left.type, std::move(shape)));
  };
}

rule tensordot() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("self"), &right = a.tensor("other");
    CUDAL1_CHECK(check_pair(left, right, "self", "other"));
    CUDAL1_CHECK(check_kind(left, floats, "self"));
    CUDAL1_CHECK(check_rank(left, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(right, 1, 64, "other"));
    CUDAL1_TRY(auto from_left, wrap_dimensions(a.integers("dims_self"), left.dim(), "dims_self"));
    CUDAL1_TRY(auto from_right, wrap_dimensions(a.integers("dims_other"), right.dim(), "dims_other"));
    if (from_left.size() != from_right.size())
      return refuse("dims_self has {} numbers, but dims_other has {}", from_left.size(), from_right.size());
    for (std::size_t i = 0; i < from_left.size(); ++i)
      CUDAL1_CHECK(check_inner(left.shape[static_cast<std::size_t>(from_left[i])],
                               right.shape[static_cast<std::size_t>(from_right[i])], left, right));
    std::vector<int64_t> shape;
    const auto keep = [&](const tensor_type& t, const std::vector<int64_t>& summed) {
      for (int64_t d = 0; d < t.dim(); ++d)
        if (std::find(summed.begin(), summed.end(), d) == summed.end())
          shape.push_back(t.shape[static_cast<std::size_t>(d)]);
    };
    keep(left, from_left);
    keep(right, from_right);
    return one(contiguous(left.type, std::move(shape)));
  };
}

rule bilinear() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("input1"), &right = a.tensor("input2"), &weight = a.tensor("weight");
    CUDAL1_CHECK(check_kind(left, floats, "input1"));
    CUDAL1_CHECK(check_same_type(left, right, "input1", "input2"));
    CUDAL1_CHECK(check_same_type(left, weight, "input1", "weight"));
    CUDAL1_CHECK(check_rank(left, 1, 64, "input1"));
    CUDAL1_CHECK(check_rank(right, left.dim(), left.dim(), "input2"));
    CUDAL1_CHECK(check_rank(weight, 3, 3, "weight"));
    if (!std::equal(left.shape.begin(), left.shape.end() - 1, right.shape.begin()))
      return refuse("input1 is {} and input2 is {}: they should differ in the last dimension only", left.text(),
                    right.text());
    CUDAL1_CHECK(check_inner(left.shape.back(), weight.shape[1], left, weight));
    CUDAL1_CHECK(check_inner(right.shape.back(), weight.shape[2], right, weight));
    if (const auto* bias = a.optional_tensor("bias")) {
      CUDAL1_CHECK(check_same_type(left, *bias, "input1", "bias"));
      if (bias->shape != std::vector<int64_t>{weight.shape[0]})
        return refuse("bias is {}, but should have shape [{}]", bias->text(), weight.shape[0]);
    }
    auto shape = left.shape;
    shape.back() = weight.shape[0];
    return one(contiguous(left.type, std::move(shape)));
  };
}

// Of each pair of rows; batches broadcast.
rule distances() {
  return [](const arguments& a) -> outcome {
    const auto &left = a.tensor("x1"), &right = a.tensor("x2");
    CUDAL1_CHECK(check_kind(left, floats, "x1"));
    CUDAL1_CHECK(check_same_type(left, right, "x1", "x2"));
    CUDAL1_CHECK(check_rank(left, 2, 64, "x1"));
    CUDAL1_CHECK(check_rank(right, 2, 64, "x2"));
    CUDAL1_CHECK(check_inner(left.shape.back(), right.shape.back(), left, right));
    if (a.real("p") < 0) return refuse("p is {}, but should not be negative", a.real("p"));
    if (const auto mode = a.optional_integer("compute_mode"); mode && (*mode < 0 || *mode > 2))
      return refuse("compute_mode is {}, but should lie in 0 to 2", *mode);
    CUDAL1_TRY(auto shape,
               broadcast({left.shape.begin(), left.shape.end() - 2}, {right.shape.begin(), right.shape.end() - 2}));
    shape.push_back(left.shape[left.shape.size() - 2]);
    shape.push_back(right.shape[right.shape.size() - 2]);
    return one(contiguous(left.type, std::move(shape)));
  };
}

// Of each pair of rows of one matrix.
rule own_distances() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    CUDAL1_CHECK(check_rank(t, 2, 2, "self"));
    CUDAL1_CHECK(check_contiguous(t, "self"));
    if (a.real("p") < 0) return refuse("p is {}, but should not be negative", a.real("p"));
    const int64_t rows = t.shape[0];
    if (rows < 2) return not_covered("self is {}: one row has no distances", t.text());
    return one(contiguous(t.type, {rows * (rows - 1) / 2}));
  };
}

}  // namespace

}  // namespace rules

namespace {

using namespace work_parts;

double size_of_dim(const operator_call& call, std::string_view name, std::size_t from_end) {
  const auto* t = tensor_of(call, name);
  return t == nullptr ? 0.0 : static_cast<double>(t->shape[t->shape.size() - from_end]);
}

double inner_flops(const operator_call& call, const tensor_type& result) {
  return 2 * static_cast<double>(result.numel()) * size_of_dim(call, "self", 1);
}

double mm_flops(const operator_call& call, const tensor_type& result) {
  return 2 * static_cast<double>(result.numel()) * size_of_dim(call, "mat2", 2);
}

double bilinear_flops(const operator_call& call, const tensor_type& result) {
  return 2 * static_cast<double>(result.numel()) * size_of_dim(call, "weight", 1) * size_of_dim(call, "weight", 2);
}

double addbmm_flops(const operator_call& call, const tensor_type& result) {
  return 2 * static_cast<double>(result.numel()) * size_of_dim(call, "batch1", 1) * size_of_dim(call, "batch1", 3);
}

double tensordot_flops(const operator_call& call, const tensor_type& result) {
  const auto* left = tensor_of(call, "self");
  const auto* dims = argument<std::vector<int64_t>>(call, "dims_self");
  if (left == nullptr || dims == nullptr || dims->empty()) return 0;
  double flops = 2 * static_cast<double>(result.numel());
  for (const auto d : *dims)
    flops *= static_cast<double>(left->shape[static_cast<std::size_t>(d < 0 ? d + left->dim() : d)]);
  return flops;
}

double distance_flops(const operator_call& call, const tensor_type& result) {
  return 3 * static_cast<double>(result.numel()) *
         (tensor_of(call, "x1") == nullptr ? size_of_dim(call, "self", 1) : size_of_dim(call, "x1", 1));
}

}  // namespace

std::vector<operator_record> product_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::product, {
      {"aten::mm(Tensor self, Tensor mat2) -> Tensor", mm(), {.changes = products, .product = {"self", "mat2"}}},
      {"aten::bmm(Tensor self, Tensor mat2) -> Tensor", bmm(), {.changes = products, .product = {"self", "mat2"}}},
      {"aten::mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", of_type(mm()), {.flops = mm_flops}},
      {"aten::bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", of_type(bmm()), {.flops = mm_flops}},
      {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm(), {.changes = products, .product = {"mat1", "mat2"}}},
      {"aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) -> Tensor", addmm_activation(), {.product = {"mat1", "mat2"}}},
      {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", baddbmm(), {.changes = products, .product = {"batch1", "batch2"}}},
      {"aten::matmul(Tensor self, Tensor other) -> Tensor", matmul(), {.changes = products, .product = {"self", "other"}}},
      {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear(), {.changes = products, .product = {"input", "weight", true}}},
      {"aten::mv(Tensor self, Tensor vec) -> Tensor", mv()},
      {"aten::dot(Tensor self, Tensor tensor) -> Tensor", dot()},
      {"aten::outer(Tensor self, Tensor vec2) -> Tensor", outer()},
      {"aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv()},
  });
  // clang-format on
}

std::vector<operator_record> contraction_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::contraction, {
      {"aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addbmm(), {.flops = addbmm_flops}},
      {"aten::inner(Tensor self, Tensor other) -> Tensor", inner(), {.flops = inner_flops}},
      {"aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot(), {.flops = tensordot_flops}},
      {"aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", distances(), {.flops = distance_flops}},
      {"aten::_pdist_forward(Tensor self, float p=2.) -> Tensor", own_distances(), {.flops = distance_flops}},
      {"aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear(), {.flops = bilinear_flops}},
  });
  // clang-format on
}

}  // namespace cudal1
