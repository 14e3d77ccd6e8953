// What the rules of the operators share. A rule derives the types of an operator's results from those of its arguments
// exactly as ATen 2.11 on the CPU does, including strides, or rejects the call. The rules are in the files of their
// families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sandbox/program/operators/operators.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1::rules {

using outcome = expected<std::vector<operator_result>>;

// The arguments of a bound call, by the schema's names. Reading an argument that the schema does not have, or as
// another kind, throws std::logic_error: an error in a record, which the rule's wrapper turns into an error value.
class arguments {
 public:
  explicit arguments(const operator_call& call) : call_(&call) {}
  std::size_t index_of(std::string_view name) const;
  std::string_view name(std::size_t index) const;
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
  // One integer for each of `count` dimensions: from a list of that length, or of length 1.
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
// Legal in ATen, but not supported by the rules here.
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

// A scalar that ATen converts to the type `to`: a real number for an integer tensor, or a value that does not fit, is
// an error.
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
// `layout`, `device` and `pin_memory` of operators that create tensors: the program's device and defaults only.
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

// Row-major.
expected<void> check_contiguous(const tensor_type& t, std::string_view name);
// ATen treats one spatial dimension as two.
tensor_type as_two_dimensions(tensor_type t);
// Strides must not suggest channels-last; tensors of three dimensions are checked as_two_dimensions.
expected<void> check_channels_first(tensor_type t, std::string_view name);
// Must be of a floating type and row-major, with `low` to `high` dimensions.
expected<void> check_image(const tensor_type& t, int64_t low, int64_t high, std::string_view name);
// `t` with its last dimensions replaced by `sizes`, which must be positive.
outcome with_spatial_sizes(const tensor_type& t, const std::vector<int64_t>& sizes, std::string_view name);

expected<void> check_sizes(const std::vector<int64_t>& shape);  // positive

// The rules of aten::slice and aten::select, also used by slice_scatter and select_scatter.
rule slice();
rule select();

// The TensorIterator's result of type `result` over operands that it first converts to `common`.
expected<tensor_type> iterate(const std::vector<tensor_type>& operands, dtype common, dtype result);
outcome iterated(const std::vector<tensor_type>& operands, dtype common, dtype result);
inline tensor_type scalar_operand(dtype type) {
  return {type, {}, {}};
}

}  // namespace cudal1::rules
