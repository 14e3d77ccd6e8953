// One record an operator: its schema, the rule that types its results, its work, and the traits that everything else
// derives from (the estimates of work, the policies' kernels and proofs, the importer). The records stand in one file a
// family, each listed by a function at the end of this header.
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
  pointwise,      // of each element by itself; operands broadcast
  view,           // memory of the operand
  copy,           // the operand's elements in their order, in another memory, layout or type
  rearrangement,  // the operand's elements in another order or shape, perhaps with constants between
  list,           // several views of one operand
  join,           // several operands behind each other
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

// What a step does to one of its operands, the others being fixed.
enum class effect {
  nothing_known,
  onto,           // each element alone, one to one, onto all numbers: adding, scaling, moving
  one_to_one,     // each element alone, one to one: exp, sigmoid
  smooth,         // each element alone, constant nowhere: square, gelu
  flat_in_parts,  // each element alone, not constant: relu, clamp
  summed,         // each element into one sum: sum, mean
  reduced,        // each element into one result, smoothly: norms, logsumexp
  chosen,         // the largest or smallest: amax, max_pool
  mixed_linear,   // each element into several results, by factors that are not 0: products, convolutions, cumsum
  mixed_smooth    // softmax, normalization
};

// Under which further condition the effect is certain.
enum class proviso {
  none,
  generic_others,    // the other operands are nowhere 0 but by chance
  several,           // at least two elements for each result
  several_in_dim,    // at least two elements in `dim`
  wide_rows,         // at least three elements in the last dimension
  wide_groups,       // at least three elements in each of num_groups groups
  given_statistics,  // not in training
  floating           // from one floating type to another
};

// The effect on `operand` (any operand where that is ""), where the number `factor` is not 0; the operand `unscaled`
// does not meet the factor.
struct operand_effect {
  effect what = effect::nothing_known;
  proviso where = proviso::none;
  std::string_view operand = {}, factor = {}, unscaled = {};
};

// Whether the result is linear in an operand, element by element or by moving elements, while the others are fixed.
enum class linearity { none, each_operand, first_operand };

// How much of its first operand a step reads; `all` of an operand as large as the result of a step on single elements
// is as much as is read of the result.
enum class reading { all, part, shape_only, values_of_first_only, diagonal, upper_triangle, lower_triangle, one_a_row };

// Which dimensions a view swaps.
enum class transposition { none, named, of_matrix, last_two };

struct bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};

// Limits that the operator forces its operand into; an argument of that name takes the place of the number.
struct clipping {
  bounds limits = {};
  std::string_view low_argument = {}, high_argument = {};
};

// The operator for each element, as generated kernels compute it. An expression is C: $0, $1, ... are the `arguments`
// (those of the schema in their order, where none are listed), and NaN passes through its comparisons the way the
// operator says: `$0 < 0 ? 0 : $0` keeps it, as relu does. The other forms have a builder in the code generator.
enum class kernel_form {
  expression,  // on float32
  arithmetic,  // an expression that is right on integers too
  comparison,  // an expression in the operands' type that gives bool
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
  identity
};
struct element_kernel {
  const char* expression = "";
  int cost = 1;  // in additions
  kernel_form form = kernel_form::expression;
  std::string_view arguments = {};  // names with blanks between
};

// The operator on rows, as generated kernels compute it, and which dimensions make a row.
enum class row_form {
  sum,
  mean,
  maximum,
  minimum,
  maximum_value,  // beside indices that nobody may read
  minimum_value,
  variance,
  deviation,
  vector_norm,
  log_sum_exp,
  softmax,
  log_softmax,
  standardize_rows,  // to mean 0 and variance 1, with parameters by element
  standardize_channels,
  root_mean_square,
  running_sum,
  loss  // of `expression` of self and target, summed or averaged
};
enum class row_extent {
  all_dims,
  dim,               // the argument of that name
  dim_list,          // none means all
  normalized_shape,  // the last dimensions
  groups,            // of channels
  channels,          // of each sample
  batch_channels,    // of the whole batch
  last_dims          // `count`, where one element is left of them
};
struct row_kernel {
  row_form form = row_form::sum;
  row_extent extent = row_extent::all_dims;
  int count = 0;
  const char* expression = "";
  int cost = 1;
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
  std::optional<clipping> clips = {};   // the result is the operand, forced into limits
  std::optional<bounds> identity = {};  // operands within are left as they are, where the argument `scale` is 1
  neutral_number neutral = {};          // the number that makes the operator the identity, where there is one
  bool selects = false;                 // elements of the result are elements of the operand; views and lists anyway
  bool partial = false;                 // defined on a part of the real numbers
  bool commutes = false;
  bool undoes_itself = false;

  // ---- memory and structure ----
  bool may_copy = false;     // a view, but where the layout asks for a copy
  bool moves_begin = false;  // a view that may begin elsewhere than its operand
  const char* idle = "";     // why it does nothing where its result has the operand's type; "" where it may
  reading reads = reading::all;
  transposition swaps = transposition::none;
  bool keeps_zeros = false;      // with no other tensor
  const char* diagonal_of = "";  // makes a matrix of its diagonal, where the argument of that name is 0
  bool keeps_single = false;     // over dimensions of size 1 that are kept, it does nothing
  bool relaid = false;           // operator_info's

  // ---- work ----
  linearity linear = linearity::none;
  bool sums = false;  // sums up, or averages
  product_operands product = {};
  int pooled_dimensions = 0;                                                   // of the windows of `kernel_size`
  bool transposed = false;                                                     // a convolution
  double (*flops)(const operator_call&, const tensor_type& result) = nullptr;  // of other than matrix products

  // ---- kernels ----
  std::optional<element_kernel> kernel = {};
  std::optional<row_kernel> rows = {};
  int cudnn_cell = -1;  // cuDNN's number of a recurrent layer's cell

  // ---- import ----
  const char* with_number = "";  // the same with a number as the second operand
  const char* outright = "";     // the same with the operand's shape and type given outright
};

struct operator_record {
  const char* schema = "";  // as ATen 2.11 prints it
  rules::rule types = {};
  operator_traits traits = {};
  // Other names of the same operator: a name, or a whole schema where the arguments are declared otherwise (in the same
  // order). A program may use them; the importer writes the record's own.
  std::vector<const char*> aliases = {};

  operator_kind kind = operator_kind::pointwise;
  std::string_view name() const;  // with overload: "aten::add.Tensor"
};

// Whether every element of the (first) result is one of the first operand's.
bool selects_elements(const operator_record& r);
// Whether what nobody reads of the result, nobody reads of an operand of its size.
bool is_elementwise(const operator_record& r);

// Every operator once, aliases in its record.
const std::vector<operator_record>& operator_records();
// {"operators": [...]}: the records with what programs in other languages ask of them.
json operators_json();

// Sets the kind of all of them.
std::vector<operator_record> of_kind(operator_kind kind, std::vector<operator_record> records);

inline constexpr bounds non_negative{0, std::numeric_limits<double>::infinity()};
// A product's effect on its operands.
inline constexpr operand_effect products{effect::mixed_linear, proviso::generic_others, {}, "alpha"};

// The families, each in its file.
std::vector<operator_record> pointwise_records();
std::vector<operator_record> binary_records();
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
