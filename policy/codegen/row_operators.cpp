// Operators over the columns of rows, each as the small graph that is its definition.
#include <algorithm>
#include <numeric>

#include "policy/codegen/body_builder.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view norm_over_batch = "aten::batch_norm over the batch";

constexpr int k_exponential = 12;

const tensor_type& type_of_argument(const graph& g, const graph_step& s, const char* name) {
  return g.type_of(g.resolve(*tensor_argument_name(s, name)));
}

expected<row_domain> reduce_dims(const tensor_type& type, std::vector<int64_t> dims) {
  row_domain out;
  out.shape = type.shape;
  if (type.type != dtype::float32)
    return fail(errc::unsupported, "rows of {} stay with the library", name_of(type.type));
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
  if (s.result_types[0].type != dtype::float32) return fail(errc::unsupported, "{} to another type", s.op());
  return reduce_dims(type_of_argument(g, s, "self"), {integer_argument(s, "dim").value_or(-1)});
}

// `dim` as a list; none means all.
expected<row_domain> listed_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "self");
  if (s.result_types[0].type != dtype::float32) return fail(errc::unsupported, "{} to another type", s.op());
  const auto dims = integers_argument(s, "dim");
  return reduce_dims(type, dims && !dims->empty() ? *dims : all_dims(type));
}

expected<row_domain> every_dim(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "self");
  if (s.result_types[0].type != dtype::float32) return fail(errc::unsupported, "{} to another type", s.op());
  return reduce_dims(type, all_dims(type));
}

// The dimensions that layer_norm and rms_norm normalise over: the last ones.
expected<row_domain> normalized_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "input");
  const auto shape = integers_argument(s, "normalized_shape");
  if (!shape) return fail(errc::unsupported, "{} without a shape", s.op());
  std::vector<int64_t> dims;
  for (int64_t d = type.dim() - static_cast<int64_t>(shape->size()); d < type.dim(); ++d)
    dims.push_back(d);
  return reduce_dims(type, std::move(dims));
}

expected<row_domain> group_dims(const graph& g, const graph_step& s) {
  const tensor_type& type = type_of_argument(g, s, "input");
  const int64_t groups = integer_argument(s, "num_groups").value_or(0);
  if (type.dim() < 2 || groups < 1 || type.shape[1] % groups != 0)
    return fail(errc::unsupported, "{} of {} in {} groups", s.op(), type.text(), groups);
  std::vector<int64_t> dims;
  for (int64_t d = 1; d < type.dim(); ++d)
    dims.push_back(d);
  CUDAL1_TRY(row_domain out, reduce_dims(type, std::move(dims)));
  out.split_dim = 1;
  out.groups = groups;
  return out;
}

// Every channel of the batch is a row, or every channel of each sample.
domain_finder channel_dims(bool of_batch) {
  return [=](const graph& g, const graph_step& s) -> expected<row_domain> {
    const tensor_type& type = type_of_argument(g, s, "input");
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < type.dim(); ++d)
      if (d > 1 || (d == 0 && of_batch)) dims.push_back(d);
    if (dims.empty()) return fail(errc::unsupported, "{} of {}", s.op(), type.text());
    return reduce_dims(type, std::move(dims));
  };
}

// So many of the last dimensions, where one average is left of them.
domain_finder pooled_dims(int64_t last) {
  return [=](const graph& g, const graph_step& s) -> expected<row_domain> {
    const tensor_type& type = type_of_argument(g, s, "self");
    std::vector<int64_t> dims;
    for (int64_t d = type.dim() - last; d < type.dim(); ++d) {
      dims.push_back(d);
      if (s.result_types[0].shape[static_cast<std::size_t>(d)] != 1)
        return fail(errc::unsupported, "{} to more than one element a channel stays a library call", s.op());
    }
    return reduce_dims(type, std::move(dims));
  };
}

// The elements of `self` as a node of the full shape.
expected<int> elements(body_builder& b, const graph_step& s, const char* name = "self") {
  tensor_type full;
  full.shape = b.domain().shape;
  return b.operand(s, name, full, dtype::float32);
}

int mean_of(body_builder& b, int x) {
  const int sum = b.reduce(reduction_kind::sum, x);
  return b.pointwise("$0 * $1", {sum, b.constant(1.0 / static_cast<double>(b.columns()))});
}

// Sum of squared distances from the mean: two passes, as exact as the operator's own.
int squares_about(body_builder& b, int x, int mean) {
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

// max.dim and min.dim, where nobody reads the indices.
operator_builder values_only(reduction_kind how) {
  return [how](body_builder& b, const graph_step& s) -> expected<void> {
    const std::string& indices = s.text->results.at(1);
    if (!indices.empty() && (!b.program().readers(indices).empty() || b.program().is_output(indices)))
      return fail(errc::unsupported, "{} whose indices are read stays a library call", s.op());
    CUDAL1_TRY(const int x, elements(b, s));
    return b.bind(s, 0, b.reduce(how, x));
  };
}

operator_builder variance(bool root) {
  return [root](body_builder& b, const graph_step& s) -> expected<void> {
    double correction = number_argument(s, "correction").value_or(1);
    if (s.argument("unbiased") != nullptr) correction = boolean_argument(s, "unbiased").value_or(true) ? 1 : 0;
    const double degrees = static_cast<double>(b.columns()) - correction;
    if (degrees <= 0) return fail(errc::unsupported, "a variance without degrees of freedom stays a library call");
    CUDAL1_TRY(const int x, elements(b, s));
    const int squares = squares_about(b, x, mean_of(b, x));
    int v = b.pointwise("$0 * $1", {squares, b.constant(1 / degrees)});
    if (root) v = b.pointwise("sqrtf($0)", {v});
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

// Of at most 1, and summed with a 1: what would be denormal counts as 0.
int exponential_about(body_builder& b, int x, int top) {
  return b.pointwise("__expf($0 - $1)", {x, top}, dtype::float32, k_exponential);
}

expected<void> build_softmax(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int e = exponential_about(b, x, b.reduce(reduction_kind::max, x));
  const int scale = b.pointwise("1.0f / $0", {b.reduce(reduction_kind::sum, e)});
  return b.bind(s, 0, b.pointwise("$0 * $1", {e, scale}));
}

expected<void> build_log_softmax(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int top = b.reduce(reduction_kind::max, x);
  const int log_sum = b.pointwise("logf($0)", {b.reduce(reduction_kind::sum, exponential_about(b, x, top))});
  return b.bind(s, 0, b.pointwise("$0 - $1 - $2", {x, top, log_sum}, dtype::float32, 2));
}

// An infinite maximum counts as 0, as the operator does: rows of -inf give -inf and rows with inf give inf.
expected<void> build_logsumexp(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  const int top = b.pointwise("fabsf($0) == $1 ? 0.0f : $0",
                              {b.reduce(reduction_kind::max, x), b.constant(std::numeric_limits<double>::infinity())});
  const int sum = b.reduce(reduction_kind::sum, exponential_about(b, x, top));
  return b.bind(s, 0, b.pointwise("logf($0) + $1", {sum, top}));
}

// A parameter of the channels or of the normalised elements, by the strides it has in the full shape.
expected<std::optional<int>> parameter(body_builder& b, const graph_step& s, const char* name,
                                       const std::vector<int64_t>& dims) {
  const auto value = tensor_argument_name(s, name);
  if (!value) return std::nullopt;
  const std::string& resolved = b.program().resolve(*value);
  if (!b.program().is_parameter(resolved))
    return fail(errc::unsupported, "{} with a computed {} stays a library call", s.op(), name);
  std::vector<int64_t> strides(b.domain().shape.size(), 0);
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

// Layer, group, batch and instance norm: zero mean and unit variance over the row; eps inside of the root.
expected<void> build_standardized(body_builder& b, const graph_step& s, const std::vector<int64_t>& dims) {
  for (std::size_t r = 1; r < s.text->results.size(); ++r) {
    const std::string& statistic = s.text->results[r];
    if (!statistic.empty() && (!b.program().readers(statistic).empty() || b.program().is_output(statistic)))
      return fail(errc::unsupported, "{} whose statistics are read stays a library call", s.op());
  }
  CUDAL1_TRY(const int x, elements(b, s, "input"));
  const int mean = mean_of(b, x);
  const int squares = squares_about(b, x, mean);
  const int scale =
      b.pointwise("1.0f / sqrtf($0 * $1 + $2)", {squares, b.constant(1.0 / static_cast<double>(b.columns())),
                                                 b.constant(number_argument(s, "eps").value_or(1e-5))});
  return scale_and_shift(b, s, b.pointwise("($0 - $1) * $2", {x, mean, scale}, dtype::float32, 2), dims);
}

expected<void> build_layer_norm(body_builder& b, const graph_step& s) {
  return build_standardized(b, s, b.domain().reduced);
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
  return scale_and_shift(b, s, b.pointwise("$0 * $1", {x, scale}), b.domain().reduced);
}

expected<void> build_cumsum(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s));
  return b.bind(s, 0, b.scan(x));
}

// Losses of two tensors of one shape, summed or averaged over everything.
operator_builder loss(const char* expression, int cost) {
  return [=](body_builder& b, const graph_step& s) -> expected<void> {
    CUDAL1_TRY(const int x, elements(b, s));
    CUDAL1_TRY(const int target, elements(b, s, "target"));
    const int each = b.pointwise(expression, {x, target}, dtype::float32, cost);
    const int64_t how = integer_argument(s, "reduction").value_or(1);
    if (how == 0) return fail(errc::unsupported, "a loss that is not reduced stays a library call");
    return b.bind(s, 0, how == 1 ? mean_of(b, each) : b.reduce(reduction_kind::sum, each));
  };
}

std::map<std::string, row_operator, std::less<>> make_table() {
  using family = operator_family;
  std::map<std::string, row_operator, std::less<>> table;
  const auto sum = plain_reduction(reduction_kind::sum);
  table["aten::sum"] = {family::reduction, every_dim, sum};
  table["aten::sum.dim_IntList"] = {family::reduction, listed_dims, sum};
  table["aten::mean"] = {family::reduction, every_dim, build_mean};
  table["aten::mean.dim"] = {family::reduction, listed_dims, build_mean};
  table["aten::amax"] = {family::reduction, listed_dims, plain_reduction(reduction_kind::max)};
  table["aten::amin"] = {family::reduction, listed_dims, plain_reduction(reduction_kind::min)};
  table["aten::max"] = {family::reduction, every_dim, plain_reduction(reduction_kind::max)};
  table["aten::min"] = {family::reduction, every_dim, plain_reduction(reduction_kind::min)};
  table["aten::max.dim"] = {family::reduction, one_dim, values_only(reduction_kind::max)};
  table["aten::min.dim"] = {family::reduction, one_dim, values_only(reduction_kind::min)};
  table["aten::var.correction"] = table["aten::var.dim"] = {family::reduction, listed_dims, variance(false)};
  table["aten::std.correction"] = table["aten::std.dim"] = {family::reduction, listed_dims, variance(true)};
  table["aten::linalg_vector_norm"] = {family::reduction, listed_dims, build_vector_norm};
  table["aten::logsumexp"] = {family::reduction, listed_dims, build_logsumexp};
  table["aten::softmax.int"] = table["aten::_softmax"] = {family::normalization, one_dim, build_softmax};
  table["aten::log_softmax.int"] = table["aten::_log_softmax"] = {family::normalization, one_dim, build_log_softmax};
  table["aten::layer_norm"] =
      table["aten::native_layer_norm"] = {family::normalization, normalized_dims, build_layer_norm};
  table["aten::rms_norm"] = {family::normalization, normalized_dims, build_rms_norm};
  table["aten::group_norm"] = {family::normalization, group_dims, build_channel_norm};
  table[std::string(norm_over_batch)] = {family::normalization, channel_dims(true), build_channel_norm};
  table["aten::instance_norm"] = {family::normalization, channel_dims(false), build_channel_norm};
  for (int64_t d = 1; d <= 3; ++d)
    table[fmt::format("aten::adaptive_avg_pool{}d", d)] = {family::reduction, pooled_dims(d), build_mean};
  table["aten::cumsum"] = {family::scan, one_dim, build_cumsum};
  table["aten::mse_loss"] = {family::reduction, every_dim, loss("($0 - $1) * ($0 - $1)", 3)};
  table["aten::l1_loss"] = {family::reduction, every_dim, loss("fabsf($0 - $1)", 2)};
  return table;
}

}  // namespace

std::string_view operator_key(const graph_step& s) {
  const bool over_batch = s.op() == "aten::batch_norm" && boolean_argument(s, "training").value_or(true);
  return over_batch ? norm_over_batch : s.op();
}

const row_operator* find_row_operator(const graph_step& s) {
  static const auto table = make_table();
  const auto found = table.find(operator_key(s));
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace cudal1
