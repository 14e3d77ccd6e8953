// One record per operator: its schema, the rule for the types of its results, its work, and the traits that everything
// else is derived from (the estimates of work, the policies' kernels and proofs, the importer). The functions
// at the end of this header give the records by family.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/operators/rules.hpp"

namespace cudal1 {

enum class operator_kind {
  pointwise,      // elementwise; operands broadcast
  view,           // shares the operand's memory
  copy,           // the same elements in the same order, in other memory, layout or type
  rearrangement,  // the same elements in another order or shape, perhaps with constants between them
  list,           // several views of one operand
  join,           // several operands, concatenated
  reduction,
  scan,
  normalization,
  product,      // of matrices and vectors
  contraction,  // other products: einsum and the like
  convolution,
  attention,
  pool,
  recurrent,  // layers and cells
  resampling,
  index,  // gathers and scatters
  sort,
  creation,
  loss
};
BOOST_DESCRIBE_ENUM(operator_kind, pointwise, view, copy, rearrangement, list, join, reduction, scan, normalization,
                    product, contraction, convolution, attention, pool, recurrent, resampling, index, sort, creation,
                    loss)

// How the result depends on one operand while the others are fixed.
enum class effect {
  nothing_known,
  onto,                   // elementwise, a bijection of the real numbers: adding, scaling, moving
  one_to_one,             // elementwise, injective: exp, sigmoid
  smooth,                 // elementwise, constant on no interval: square, gelu
  constant_on_intervals,  // elementwise, constant on some intervals only: relu, clamp
  summed,                 // each element into one sum: sum, mean
  reduced,                // each element into one result, smoothly: norms, logsumexp
  chosen,                 // the largest or smallest: amax, max_pool
  mixed_linear,  // each element into several results, by factors that are not 0: products, convolutions, cumsum
  mixed_smooth   // softmax, normalization
};

// The further condition under which the effect is certain.
enum class effect_condition {
  none,
  nonzero_others,    // the other operands are almost surely nowhere 0
  several,           // at least two elements for each result
  several_in_dim,    // at least two elements in `dim`
  wide_rows,         // at least three elements in the last dimension
  wide_groups,       // at least three elements in each of num_groups groups
  given_statistics,  // not in training
  floating           // from one floating type to another
};

// The effect on `operand` ("": on any operand), provided that the argument `factor` is not 0; the factor does not apply
// to the operand `unscaled`.
struct operand_effect {
  effect what = effect::nothing_known;
  effect_condition where = effect_condition::none;
  std::string_view operand = {}, factor = {}, unscaled = {};
};

// Whether the result is linear in an operand, elementwise or by moving elements, while the others are fixed.
enum class linearity { none, each_operand, first_operand };

// How much of its first operand a step reads. `all`: of an elementwise step's operand with the result's size, as much
// as is read of the result.
enum class reading {
  all,
  part,
  shape_only,
  values_of_first_only,
  diagonal,
  upper_triangle,
  lower_triangle,
  one_per_row
};

// Which dimensions a view swaps.
enum class transposition { none, named, of_matrix, last_two };

struct bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

// Limits to which the operator clamps its operand; an argument of the given name replaces the number.
struct clipping {
  bounds limits = {};
  std::string_view low_argument = {}, high_argument = {};
};

// The operator for each element, as generated kernels compute it. An expression is C: $0, $1, ... are the `arguments`
// (those of the schema in their order, where none are listed). Its comparisons must treat NaN as the operator does: `$0
// < 0 ? 0 : $0` keeps it, as relu does. The other forms have a builder in the code generator.
enum class kernel_form {
  expression,  // on float32
  arithmetic,  // an expression that is valid for integers too
  comparison,  // an expression in the operands' type that returns bool
  bits,        // an expression that is valid for integers of any width and for bool
  complement,
  left_shift,
  right_shift,
  sum,
  difference,
  reversed_difference,
  clamp,
  gelu,
  mish,
  power,
  select,
  masked_fill,
  channel_affine,  // batch norm with given statistics
  conversion,      // to the result's type
  looked_up,       // rows of a table
  joined,          // a few tensors of equal shape along a dimension
  divergence,      // the expression, where the argument log_target is false
  identity
};
struct element_kernel {
  const char* expression = "";
  int cost = 1;  // in additions
  kernel_form form = kernel_form::expression;
  std::string_view arguments = {};  // names separated by blanks
};

// The operator on rows, as generated kernels compute it, and the dimensions that form a row.
enum class row_form {
  sum,
  mean,
  maximum,
  minimum,
  maximum_value,  // with indices, which must not be read
  minimum_value,
  variance,
  deviation,
  vector_norm,
  log_sum_exp,
  softmax,
  log_softmax,
  standardize_rows,  // to mean 0 and variance 1, with per-element parameters
  standardize_channels,
  root_mean_square,
  running_sum,
  loss,  // the record's `kernel` for each element, summed or averaged, unless `reduction` is 0 (none)
  pairwise_distance,
  cosine_similarity,
  triplet_margin,  // the last two: with `reduction` 0 (none)
  cosine_embedding
};
enum class row_extent {
  all_dims,
  dim,               // the argument of that name
  dim_list,          // an empty one means all
  normalized_shape,  // the last dimensions
  groups,            // of channels
  channels,          // of each sample
  batch_channels,    // of the whole batch
  last_dims,         // the last `count`, reduced to one element
  last_dim
};
struct row_kernel {
  row_form form = row_form::sum;
  row_extent extent = row_extent::all_dims;
  int count = 0;
};

struct product_operands {
  const char *left = "", *right = "";
  bool right_is_transposed = false;  // linear's weight
};

struct neutral_number {
  const char* argument = "";
  double value = 0;
};

struct operator_traits {
  // ---- values ----
  operand_effect changes = {};
  std::optional<bounds> range = {};     // of every result, whatever the operand
  std::optional<clipping> clips = {};   // the result is the operand, clamped
  std::optional<bounds> identity = {};  // the operator leaves values in these bounds unchanged, if its `scale` is 1
  neutral_number neutral = {};          // the number that makes the operator the identity, if there is one
  bool selects = false;  // elements of the result are elements of the operand; implied for views and lists
  bool partial = false;  // defined on a part of the real numbers only
  bool poles = false;    // of other operators: infinite, or no number, for some
  bool commutes = false;
  bool is_self_inverse = false;

  // ---- memory and structure ----
  bool may_copy = false;             // a view, or a copy where the layout requires one
  bool moves_start_address = false;  // a view that may start at another address than its operand
  const char* idle = "";             // why it is a no-op if the result has the operand's type; "" if it is not
  bool spreads = false;              // repeats `self` along dimensions, as an elementwise operator does by itself
  reading reads = reading::all;
  transposition swaps = transposition::none;
  bool keeps_zeros = false;          // if it has no other tensor operand
  const char* diagonal_of = "";      // builds a matrix from its diagonal, if the argument of this name is 0
  bool is_noop_on_size_one = false;  // a no-op over dimensions of size 1 that are kept
  bool needs_relayout = false;       // see operator_info
  bool compiles_at_first = false;    // its library may compile kernels at the first call in a process: seconds

  // ---- work ----
  linearity linear = linearity::none;
  bool sums = false;  // a sum or a mean
  product_operands product = {};
  int pooled_dimensions = 0;  // of the windows of `kernel_size`
  bool transposed = false;    // a transposed convolution
  double (*flops)(const operator_call&,
                  const tensor_type& result) = nullptr;  // for operators other than matrix products

  // ---- kernels ----
  std::optional<element_kernel> kernel = {};
  std::optional<row_kernel> rows = {};
  bool averages_rows = false;  // a loss of each row, which `reduction` averages or sums
  int cudnn_cell = -1;         // cuDNN's number for a recurrent layer's kind of cell

  // ---- import ----
  const char* with_number = "";  // the operator with a number as its second operand
  const char* outright = "";     // the operator with explicit shape and type instead of the operand
};

struct operator_record {
  const char* schema = "";  // as ATen 2.11 prints it; of operators of ours, in namespace cudal1, as PyTorch does
  rules::rule types = {};
  operator_traits traits = {};
  // Other names of the same operator: a name, or a whole schema where the arguments are declared differently (in the
  // same order). A program may use them; the importer writes the record's own name.
  std::vector<const char*> aliases = {};

  operator_kind kind = operator_kind::pointwise;
  std::string_view name() const;  // with overload: "aten::add.Tensor"
};

// Whether every element of the (first) result is an element of the first operand.
bool selects_elements(const operator_record& r);
// Whether elements of the result that are not read need not be read of an operand of the same size.
bool is_elementwise(const operator_record& r);

// Every operator once, aliases in its record.
const std::vector<operator_record>& operator_records();
// {"operators": [...]}: the parts of the records that programs in other languages need.
json operators_json();

// Sets the kind of all records.
std::vector<operator_record> of_kind(operator_kind kind, std::vector<operator_record> records);

inline constexpr bounds non_negative{0, std::numeric_limits<double>::infinity()};
// A product's effect on its operands.
inline constexpr operand_effect products{effect::mixed_linear, effect_condition::nonzero_others, {}, "alpha"};

// In the files of their families.
std::vector<operator_record> elementary_function_records();  // of one tensor
std::vector<operator_record> pointwise_records();            // the other ones of one tensor
std::vector<operator_record> arithmetic_records();           // of two operands
std::vector<operator_record> comparison_records();
std::vector<operator_record> bit_records();
std::vector<operator_record> binary_records();  // the other ones of two operands
std::vector<operator_record> ternary_records();
std::vector<operator_record> reduction_records();
std::vector<operator_record> scan_records();
std::vector<operator_record> view_records();
std::vector<operator_record> list_records();
std::vector<operator_record> copy_records();
std::vector<operator_record> product_records();
std::vector<operator_record> contraction_records();
std::vector<operator_record> einsum_records();
std::vector<operator_record> recurrent_records();
std::vector<operator_record> convolution_records();
std::vector<operator_record> pool_records();
std::vector<operator_record> resampling_records();
std::vector<operator_record> normalization_records();
std::vector<operator_record> attention_records();
std::vector<operator_record> index_records();
std::vector<operator_record> sort_records();
std::vector<operator_record> join_records();
std::vector<operator_record> rearrangement_records();
std::vector<operator_record> creation_records();
std::vector<operator_record> loss_records();

}  // namespace cudal1
