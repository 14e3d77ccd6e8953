// Row operators (reductions, norms, scans, losses), each built as a small graph of nodes.
#include <algorithm>
#include <numeric>

#include "policy/body/operator_values.hpp"
#include "policy/body/operators/loss_operators.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/rules.hpp"

namespace cudal1 {

namespace {

constexpr int k_exponential = 12;

const tensor_type& type_of_argument(const graph& g, const graph_step& s, const char* name) {
  return g.type_of(g.resolve(*tensor_argument_name(s, name)));
}

// The shape to which the tensors among the arguments are broadcast, in the type of the first one: "self", for most
// operators the only one.
tensor_type type_of_elements(const graph& g, const graph_step& s) {
  std::optional<tensor_type> out;
  for (const auto& [name, value] : s.use->arguments) {
    const auto* tensor = std::get_if<tensor_argument>(&value);
    if (tensor == nullptr) continue;
    const tensor_type& type = g.type_of(g.resolve(tensor->name));
    if (!out) out = type;
    out->shape = *rules::broadcast(out->shape, type.shape);  // as the operator's rule does
  }
  return *out;
}

expected<row_domain> reduce_dims(const tensor_type& type, std::vector<int64_t> dims) {
  row_domain out;
  out.shape = type.shape;
  if (computed_in(type.type) != dtype::float32)
    return fail(errc::unsupported, "row kernels do not support {}", name_of(type.type));
  if (type.dim() == 0) return fail(errc::unsupported, "a single element has no rows");
  for (auto& d : dims)
    d = d < 0 ? d + type.dim() : d;
  std::sort(dims.begin(), dims.end());
  out.reduced = std::move(dims);
  return out;
}

std::vector<int64_t> all_dims(const tensor_type& type) {
  std::vector<int64_t> dims(type.shape.size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return dims;
}

// `dim` as one integer.
expected<row_domain> one_dim(const graph& g, const graph_step& s) {
  if (computed_in(s.result_types[0].type) != dtype::float32)
    return fail(errc::unsupported, "{} with a conversion to another type", s.op());
  return reduce_dims(type_of_elements(g, s), {integer_argument(s, "dim").value_or(-1)});
}

expected<row_domain> last_dim(const graph& g, const graph_step& s) {
  return reduce_dims(type_of_argument(g, s, s.use->arguments.front().first.c_str()), {-1});
}

// `dim` as a list; an empty one means all.
expected<row_domain> listed_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "self");
  if (computed_in(s.result_types[0].type) != dtype::float32)
    return fail(errc::unsupported, "{} with a conversion to another type", s.op());
  const auto dims = integers_argument(s, "dim");
  return reduce_dims(type, dims && !dims->empty() ? *dims : all_dims(type));
}

expected<row_domain> every_dim(const graph& g, const graph_step& s) {
  const tensor_type type = type_of_elements(g, s);
  if (computed_in(s.result_types[0].type) != dtype::float32)
    return fail(errc::unsupported, "{} with a conversion to another type", s.op());
  return reduce_dims(type, all_dims(type));
}

// The dimensions that layer_norm and rms_norm normalise over: the last ones.
expected<row_domain> normalized_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "input");
  const auto shape = integers_argument(s, "normalized_shape");
  if (!shape) return fail(errc::unsupported, "{} has no normalized_shape", s.op());
  std::vector<int64_t> dims;
  for (int64_t d = type.dim() - static_cast<int64_t>(shape->size()); d < type.dim(); ++d)
    dims.push_back(d);
  return reduce_dims(type, std::move(dims));
}

expected<row_domain> group_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "input");
  const int64_t groups = integer_argument(s, "num_groups").value_or(0);
  if (type.dim() < 2 || groups < 1 || type.shape[1] % groups != 0)
    return fail(errc::unsupported, "{} cannot divide the channels of {} into {} groups", s.op(), type.text(), groups);
  std::vector<int64_t> dims;
  for (int64_t d = 1; d < type.dim(); ++d)
    dims.push_back(d);
  CUDAL1_TRY(row_domain out, reduce_dims(type, std::move(dims)));
  out.split_dim = 1;
  out.groups = groups;
  return out;
}

// Every channel of the batch is a row, or every channel of each sample.
domain_finder channel_dims(row_extent rows) {
  const bool of_batch = rows == row_extent::batch_channels;
  return [=](const graph& g, const graph_step& s) -> expected<row_domain> {
    const tensor_type& type = type_of_argument(g, s, "input");
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < type.dim(); ++d)
      if (d > 1 || (d == 0 && of_batch)) dims.push_back(d);
    if (dims.empty()) return fail(errc::unsupported, "{} of {}", s.op(), type.text());
    return reduce_dims(type, std::move(dims));
  };
}

// Pooling of the `last` dimensions down to one average.
domain_finder pooled_dims(int64_t last) {
  return [=](const graph& g, const graph_step& s) -> expected<row_domain> {
    const tensor_type& type = type_of_argument(g, s, "self");
    std::vector<int64_t> dims;
    for (int64_t d = type.dim() - last; d < type.dim(); ++d) {
      dims.push_back(d);
      if (s.result_types[0].shape[static_cast<std::size_t>(d)] != 1)
        return fail(errc::unsupported, "{} to more than one element per channel stays a library call", s.op());
    }
    return reduce_dims(type, std::move(dims));
  };
}

// The elements of the argument, rounded to its half type: what is left of equal elements without their mean is divided
// by a root close to zero, and the mean of numbers with few bits is exact.
expected<int> rounded_elements(body_builder& b, const graph_step& s, const char* name = "self") {
  CUDAL1_TRY(const int x, elements(b, s, name));
  const dtype type = type_of_argument(b.program(), s, name).type;
  if (!is_half(type) || b.node(x).kind == node_kind::load) return x;
  return rounded_to(b, x, type);
}

// Sum of squared distances from the mean: two passes, as exact as the operator's own.
int squared_deviations(body_builder& b, int x, int mean) {
  const int d = b.pointwise("$0 - $1", {x, mean});
  return b.reduce(reduction_kind::sum, b.pointwise("$0 * $0", {d}));
}

operator_builder plain_reduction(reduction_kind how) {
  return [how](body_builder& b, const graph_step& s) -> expected<void> {
    CUDAL1_TRY(const int x, elements(b, s));
    return b.bind(s, 0, b.reduce(how, x));
  };
}

expected<void> build_mean(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  return b.bind(s, 0, mean_of(b, x));
}

// max.dim and min.dim, where nothing reads the indices.
operator_builder values_only(reduction_kind how) {
  return [how](body_builder& b, const graph_step& s) -> expected<void> {
    CUDAL1_CHECK(check_only_first_is_read(b, s, "indices"));
    CUDAL1_TRY(const int x, elements(b, s));
    return b.bind(s, 0, b.reduce(how, x));
  };
}

operator_builder variance(row_form form) {
  return [form](body_builder& b, const graph_step& s) -> expected<void> {
    double correction = number_argument(s, "correction").value_or(1);
    if (s.argument("unbiased") != nullptr) correction = boolean_argument(s, "unbiased").value_or(true) ? 1 : 0;
    const double degrees = static_cast<double>(b.columns()) - correction;
    if (degrees <= 0) return fail(errc::unsupported, "a variance without degrees of freedom stays a library call");
    CUDAL1_TRY(const int x, rounded_elements(b, s));
    const int squares = squared_deviations(b, x, mean_of(b, x));
    int v = b.pointwise("$0 * $1", {squares, b.constant(1 / degrees)});
    if (form == row_form::deviation) v = b.pointwise("sqrtf($0)", {v});
    return b.bind(s, 0, v);
  };
}

expected<void> build_vector_norm(body_builder& b, const graph_step& s) {
  const double ord = number_argument(s, "ord").value_or(2);
  CUDAL1_TRY(const int x, elements(b, s));
  if (ord == 1) return b.bind(s, 0, b.reduce(reduction_kind::sum, b.pointwise("fabsf($0)", {x})));
  if (ord != 2) return fail(errc::unsupported, "this norm stays a library call");
  return b.bind(s, 0, b.pointwise("sqrtf($0)", {b.reduce(reduction_kind::sum, b.pointwise("$0 * $0", {x}))}));
}

// __expf flushes denormals to 0, which is harmless: the values are at most 1 and are summed with a 1.
int exponential(body_builder& b, int x, int top) {
  return b.pointwise(exponential_of_difference, {x, top}, dtype::float32, k_exponential);
}

expected<void> build_softmax(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int e = exponential(b, x, b.reduce(reduction_kind::max, x));
  const int scale = b.pointwise("1.0f / $0", {b.reduce(reduction_kind::sum, e)});
  return b.bind(s, 0, b.pointwise("$0 * $1", {e, scale}));
}

expected<void> build_log_softmax(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int top = b.reduce(reduction_kind::max, x);
  const int log_sum = b.pointwise("logf($0)", {b.reduce(reduction_kind::sum, exponential(b, x, top))});
  return b.bind(s, 0, b.pointwise("$0 - $1 - $2", {x, top, log_sum}, dtype::float32, 2));
}

// An infinite maximum counts as 0, as in ATen: rows of -inf give -inf and rows with inf give inf.
expected<void> build_logsumexp(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int top = b.pointwise(zero_where_infinite,
                              {b.reduce(reduction_kind::max, x), b.constant(std::numeric_limits<double>::infinity())});
  const int sum = b.reduce(reduction_kind::sum, exponential(b, x, top));
  return b.bind(s, 0, b.pointwise("logf($0) + $1", {sum, top}));
}

// Loads a parameter of the channels or of the normalised elements, broadcast to the full shape.
expected<std::optional<int>> parameter(body_builder& b, const graph_step& s, const char* name,
                                       const std::vector<int64_t>& dims) {
  const auto value = tensor_argument_name(s, name);
  if (!value) return std::nullopt;
  const std::string& resolved = b.program().resolve(*value);
  if (!b.program().is_parameter(resolved))
    return fail(errc::unsupported, "{} with a computed {} stays a library call", s.op(), name);
  std::vector<int64_t> strides(b.shape().size(), 0);
  const tensor_type& type = b.program().type_of(resolved);
  for (std::size_t i = 0; i < dims.size(); ++i)
    strides[static_cast<std::size_t>(dims[i])] = type.strides[i];
  return b.strided_load(resolved, strides);
}

expected<void> scale_and_shift(body_builder& b, const graph_step& s, int y, const std::vector<int64_t>& dims) {
  CUDAL1_TRY(const auto weight, parameter(b, s, "weight", dims));
  CUDAL1_TRY(const auto bias, s.argument("bias") != nullptr ? parameter(b, s, "bias", dims)
                                                            : expected<std::optional<int>>(std::nullopt));
  if (weight && bias) {
    y = b.pointwise("$0 * $1 + $2", {y, *weight, *bias}, dtype::float32, 2);
  } else if (weight) {
    y = b.pointwise("$0 * $1", {y, *weight});
  } else if (bias) {
    y = b.pointwise("$0 + $1", {y, *bias});
  }
  return b.bind(s, 0, y);
}

// Layer, group, batch and instance norm: zero mean and unit variance over the row; eps inside the square root.
expected<void> build_standardized(body_builder& b, const graph_step& s, const std::vector<int64_t>& dims) {
  CUDAL1_CHECK(check_only_first_is_read(b, s, "statistics"));
  CUDAL1_TRY(const int x, rounded_elements(b, s, "input"));
  const int mean = mean_of(b, x);
  const int squares = squared_deviations(b, x, mean);
  const int scale =
      b.pointwise("1.0f / sqrtf($0 * $1 + $2)", {squares, b.constant(1.0 / static_cast<double>(b.columns())),
                                                 b.constant(number_argument(s, "eps").value_or(1e-5))});
  return scale_and_shift(b, s, b.pointwise("($0 - $1) * $2", {x, mean, scale}, dtype::float32, 2), dims);
}

expected<void> build_layer_norm(body_builder& b, const graph_step& s) {
  return build_standardized(b, s, b.rows().reduced);
}

expected<void> build_channel_norm(body_builder& b, const graph_step& s) {
  return build_standardized(b, s, {1});
}

expected<void> build_rms_norm(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s, "input"));
  const double eps = number_argument(s, "eps").value_or(static_cast<double>(std::numeric_limits<float>::epsilon()));
  const int squares = b.reduce(reduction_kind::sum, b.pointwise("$0 * $0", {x}));
  const int scale = b.pointwise("1.0f / sqrtf($0 * $1 + $2)",
                                {squares, b.constant(1.0 / static_cast<double>(b.columns())), b.constant(eps)});
  return scale_and_shift(b, s, b.pointwise("$0 * $1", {x, scale}), b.rows().reduced);
}

expected<void> build_cumsum(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  return b.bind(s, 0, b.scan(x));
}

operator_builder builder_of(row_form form) {
  switch (form) {
    case row_form::sum:
      return plain_reduction(reduction_kind::sum);
    case row_form::mean:
      return build_mean;
    case row_form::maximum:
      return plain_reduction(reduction_kind::max);
    case row_form::minimum:
      return plain_reduction(reduction_kind::min);
    case row_form::maximum_value:
      return values_only(reduction_kind::max);
    case row_form::minimum_value:
      return values_only(reduction_kind::min);
    case row_form::variance:
      return variance(row_form::variance);
    case row_form::deviation:
      return variance(row_form::deviation);
    case row_form::vector_norm:
      return build_vector_norm;
    case row_form::log_sum_exp:
      return build_logsumexp;
    case row_form::softmax:
      return build_softmax;
    case row_form::log_softmax:
      return build_log_softmax;
    case row_form::standardize_rows:
      return build_layer_norm;
    case row_form::standardize_channels:
      return build_channel_norm;
    case row_form::root_mean_square:
      return build_rms_norm;
    case row_form::running_sum:
      return build_cumsum;
    case row_form::loss:
    case row_form::pairwise_distance:
    case row_form::cosine_similarity:
    case row_form::triplet_margin:
    case row_form::cosine_embedding:
      return builder_of_loss(form);
  }
  return {};
}

domain_finder domain_of(const row_kernel& kernel) {
  switch (kernel.extent) {
    case row_extent::all_dims:
      return every_dim;
    case row_extent::dim:
      return one_dim;
    case row_extent::dim_list:
      return listed_dims;
    case row_extent::normalized_shape:
      return normalized_dims;
    case row_extent::groups:
      return group_dims;
    case row_extent::channels:
      return channel_dims(row_extent::channels);
    case row_extent::batch_channels:
      return channel_dims(row_extent::batch_channels);
    case row_extent::last_dims:
      return pooled_dims(kernel.count);
    case row_extent::last_dim:
      return last_dim;
  }
  return {};
}

operator_family family_of(operator_kind kind) {
  switch (kind) {
    case operator_kind::scan:
      return operator_family::scan;
    case operator_kind::normalization:
      return operator_family::normalization;
    default:
      return operator_family::reduction;
  }
}

}  // namespace

bool is_by_row(const graph_step& s) {
  const auto& rows = s.record().traits.rows;
  if (!rows) return false;
  if (rows->form == row_form::loss) return integer_argument(s, "reduction").value_or(1) != 0;
  return rows->extent != row_extent::batch_channels || boolean_argument(s, "training").value_or(true);
}

const row_operator* find_row_operator(const graph_step& s) {
  static const auto table = [] {
    std::map<const operator_record*, row_operator> made;
    for (const auto& r : operator_records())
      if (const auto& rows = r.traits.rows) made[&r] = {family_of(r.kind), domain_of(*rows), builder_of(rows->form)};
    return made;
  }();
  const auto found = table.find(s.use->record);
  if (found == table.end()) return nullptr;
  return is_by_row(s) ? &found->second : nullptr;
}

}  // namespace cudal1
