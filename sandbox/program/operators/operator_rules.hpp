// What the rules of the operators share, and the rules that the table (operators.cpp) names. A rule says the types of
// an operator's results from those of its arguments exactly as ATen 2.11 on the CPU does, strides included, or refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sandbox/program/operators/operator_layout.hpp"
#include "sandbox/program/operators/operators.hpp"

namespace cudal1::rules {

using outcome = expected<std::vector<operator_result>>;

// A bound call, by the schema's names. Asking for an argument that the schema does not have, or as another kind, throws
// std::logic_error: a mistake in the table, which the table's wrapper turns into an error value.
class arguments {
 public:
  explicit arguments(const operator_call& call) : call_(&call) {}
  std::size_t index_of(std::string_view name) const;
  bool has(std::string_view name) const;
  bool is_null(std::string_view name) const;
  bool is_tensor(std::size_t index) const;
  bool is_list(std::string_view name) const;  // of integers
  const tensor_type& tensor(std::string_view name) const;
  const tensor_type& tensor(std::size_t index) const;
  const tensor_type* optional_tensor(std::string_view name) const;
  std::vector<tensor_type> tensors(std::string_view name) const;
  std::vector<const tensor_type*> optional_tensors(std::string_view name) const;  // null for null
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::optional<int64_t> optional_integer(std::string_view name) const;
  double real(std::string_view name) const;
  scalar_value scalar(std::string_view name) const;
  scalar_value scalar(std::size_t index) const;
  std::optional<dtype> type(std::string_view name) const;
  std::string text(std::string_view name) const;  // "" for null
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  // One integer for each of `count` dimensions: a list of that length, or of one that stands for all.
  expected<std::vector<int64_t>> per_dimension(std::string_view name, std::size_t count) const;

 private:
  const argument_value& at(std::string_view name) const;
  const operator_call* call_;
};

using rule = std::function<outcome(const arguments&)>;

template <class... Args>
[[nodiscard]] tl::unexpected<error> refuse(fmt::format_string<Args...> format, Args&&... args) {
  return fail(errc::invalid_program, format, std::forward<Args>(args)...);
}
// Legal in ATen, but outside what our rules cover.
template <class... Args>
[[nodiscard]] tl::unexpected<error> not_covered(fmt::format_string<Args...> format, Args&&... args) {
  return fail(errc::unsupported, format, std::forward<Args>(args)...);
}

inline outcome one(tensor_type type) {
  return std::vector<operator_result>{{std::move(type), {}}};
}
inline outcome view_of_first(tensor_type type) {
  return std::vector<operator_result>{{std::move(type), 0}};
}

// A scalar that ATen converts to the type `to`: a real number for an integer tensor and what does not fit are refused.
expected<void> check_scalar_fits(const scalar_value& value, dtype to, std::string_view name);

// The element types that an operator takes.
enum kinds : unsigned { bools = 1, integers = 2, floats = 4, numbers = integers | floats, any = bools | numbers };
expected<void> check_kind(const tensor_type& t, unsigned accepted, std::string_view name);
expected<void> check_same_type(const tensor_type& a, const tensor_type& b, std::string_view name_a,
                               std::string_view name_b);
expected<void> check_rank(const tensor_type& t, int64_t low, int64_t high, std::string_view name);

// A dimension counted from the end where negative; a scalar has one dimension here, as in ATen.
expected<int64_t> wrap_dimension(int64_t dim, int64_t rank, std::string_view name = "dim");
// Distinct dimensions, in the order given.
expected<std::vector<int64_t>> wrap_dimensions(const std::vector<int64_t>& dims, int64_t rank,
                                               std::string_view name = "dim");
// `layout`, `device` and `pin_memory` of the operators that make tensors: plain memory of the device, or null.
expected<void> check_placement(const arguments& a);
expected<std::vector<int64_t>> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
std::string shape_text(const std::vector<int64_t>& shape);

// ATen's type promotion: tensors with dimensions before tensors without before scalars, within a category.
class promotion {
 public:
  promotion& add(const tensor_type& t);
  promotion& add(const scalar_value& s);
  dtype result() const;

 private:
  std::optional<dtype> dimensioned_, scalar_tensor_, number_;
};
dtype promote(dtype a, dtype b);
inline dtype float_of(dtype t) {
  return is_floating(t) ? t : dtype::float32;
}

// ---- pointwise ---------------------------------------------------------------------------------
rule unary(unsigned accepted);
rule unary_to(unsigned accepted, dtype result);
rule unary_float();  // integers and bools become float32
rule square();
rule is_infinite(bool negated);
rule preserving(unsigned accepted);        // result like at::empty_like
rule preserving_float();                   // the same, integers and bools become float32
rule fixed_contiguous(unsigned accepted);  // same type, contiguous
// tensor with tensor or scalar, with type promotion. `swapped`: the second operand comes first in the iterator.
struct binary_options {
  unsigned accepted = any;  // of the common type
  bool to_float = false;
  std::optional<dtype> result = {};
  bool swapped = false;
  bool scaled = false;  // has alpha
  bool bools = true;    // an operand may be bool where the common type is not
};
rule binary(binary_options options = {});
rule divide_rounded();
rule power();
rule scalar_power();
rule clamp_scalars(std::string_view low, std::string_view high);
rule clamp_tensors(std::string_view low, std::string_view high);
rule where(bool self_is_scalar, bool other_is_scalar);
rule lerp(bool weight_is_tensor);
rule addc(unsigned accepted);
rule masked_fill(bool value_is_tensor);
rule prelu();
rule glu();
rule pointwise_loss();

// ---- reductions --------------------------------------------------------------------------------
enum class reduced_type { same, sum, floating, int64, truth };
// Over everything where the schema has no `dim`, or an empty or null one.
rule reduction(unsigned accepted, reduced_type type);
rule reduction_pair(unsigned accepted);  // values and indices over one dimension
rule index_reduction();                  // argmax, argmin
rule variance();
rule variance_and_mean();
rule extremes();            // aminmax
rule cumulative_extreme();  // values and indices
rule norm_reduction();
rule frobenius();
rule logsumexp();
rule cumulative(unsigned accepted, bool sums);
rule trace();

// ---- views and copies --------------------------------------------------------------------------
rule view();
rule reshape();
rule reshape_as(bool may_copy);
rule unsafe_view();
rule unfold();
rule permute();
rule transpose(std::string_view first, std::string_view second);
rule transpose_last(bool at_most_two);  // t, mT
rule reverse_dimensions();
rule expand();
rule expand_as();
rule squeeze();
rule unsqueeze();
rule slice();
rule select();
rule narrow();
rule flatten();
rule unflatten();
rule movedim();
rule movedims();
rule diagonal();
rule alias();
rule contiguous_copy();
rule clone();
rule to_type();
rule to_copy();
rule dropout();
rule lift();

// ---- lists of views of one tensor -----------------------------------------------------------------
rule split();
rule split_with_sizes();
rule chunk();
rule tensor_split();
rule unbind();

// ---- products ----------------------------------------------------------------------------------
rule mm();
rule bmm();
rule addmm();
rule baddbmm();
rule matmul();
rule linear();
rule mv();
rule dot();
rule outer();
rule addmv();
rule addbmm();
rule inner();
rule tensordot();
rule bilinear();
rule einsum();

// ---- recurrent layers ---------------------------------------------------------------------------
rule recurrent(int64_t gates);  // of each hidden element: 4 is the LSTM, which has cells as well
rule recurrent_cell(int64_t gates);

// ---- convolutions and pools ----------------------------------------------------------------------
rule convolution(int64_t dimensions);
rule convolution_named_padding(int64_t dimensions);
rule convolution_transposed(int64_t dimensions);
rule convolution_general();
rule average_pool(int64_t dimensions);
rule max_pool(int64_t dimensions, bool with_indices);
rule adaptive_average_pool(int64_t dimensions);
rule adaptive_max_pool(int64_t dimensions);
rule upsample(int64_t dimensions);
rule pixel_shuffle(bool into_channels);
rule channel_shuffle();
rule image_to_columns();
rule columns_to_image();

// ---- normalisation and attention -------------------------------------------------------------------
rule softmax();
rule layer_norm(bool native);
rule rms_norm();
rule group_norm();
rule native_group_norm();
rule batch_norm(bool native);
rule instance_norm();
rule attention();

// ---- indexing and sorting --------------------------------------------------------------------------
rule embedding();
rule gather();
rule index_select();
rule index();
rule take_along_dim();
rule scatter(bool has_source);
rule index_add();
rule slice_scatter();
rule select_scatter();
rule one_hot();
rule topk();
rule sort();
rule argsort();

// ---- joining, padding, repeating, making -------------------------------------------------------------
rule cat();
rule stack();
rule hstack();
rule vstack();
rule flip();
rule roll();
rule pad();
rule constant_pad();
rule triangle();
rule diag();
rule diag_embed();
rule repeat();
rule tile();
rule repeat_interleave();
rule filled(bool has_value);
rule filled_like();
rule filled_new();
rule filled_with();
rule linspace();
rule eye();
rule arange();
rule scalar_tensor();

// ---- losses ------------------------------------------------------------------------------------
rule kl_div();
rule cross_entropy();
rule nll_loss(bool more_dimensions);
rule cosine_similarity();
rule triplet_margin();
rule hinge_embedding();
rule soft_margin();
rule margin_ranking();
rule cosine_embedding();
rule multi_margin();
rule poisson_nll();
rule pairwise_distance();
rule binary_cross_entropy(bool logits);

}  // namespace cudal1::rules
