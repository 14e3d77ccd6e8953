#include "policy/graph/linear_proofs.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

std::size_t place_of(int64_t dim, std::size_t dims) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(dims) : dim);
}

// The dimensions along which the step subtracts a mean or maximum of `dims` ones; none where it does not.
std::vector<std::size_t> centred_dims(const graph_step& s, std::size_t dims) {
  const auto& rows = s.record().traits.rows;
  std::vector<std::size_t> out;
  if (!rows) return out;
  const auto from = [&](std::size_t first) {
    for (std::size_t d = first; d < dims; ++d)
      out.push_back(d);
  };
  // Statistics that are kept from call to call would see the shift.
  const bool keeps = tensor_argument_name(s, "running_mean") || tensor_argument_name(s, "running_var");
  switch (rows->form) {
    case row_form::softmax:
    case row_form::log_softmax:
      if (const auto dim = integer_argument(s, "dim"); dim && dims > 0) out = {place_of(*dim, dims)};
      break;
    case row_form::standardize_rows:
      if (const auto shape = integers_argument(s, "normalized_shape"); shape && shape->size() <= dims)
        from(dims - shape->size());
      break;
    case row_form::standardize_channels:
      if (keeps) break;
      if (rows->extent == row_extent::batch_channels && boolean_argument(s, "training").value_or(false)) {
        out = {0};
        from(2);
      }
      if (rows->extent == row_extent::channels && boolean_argument(s, "use_input_stats").value_or(false)) from(2);
      if (rows->extent == row_extent::groups) from(1);
      break;
    default:
      break;
  }
  return out;
}

// Whether a tensor that is broadcast to `dims` dimensions is the same along this one.
bool is_same_along(const tensor_type& t, std::size_t dim, std::size_t dims) {
  const std::size_t missing = dims - t.shape.size();
  return dim < missing || t.shape[dim - missing] == 1 || t.strides[dim - missing] == 0;
}

bool is_linear(const graph& g, const graph_step& s) {
  const std::string weight = operand_of(g, s, "weight"), bias = operand_of(g, s, "bias");
  return !s.dropped && s.group < 0 && s.op() == "aten::linear" && s.text->precision.empty() &&
         s.result_types[0].type == dtype::float32 && g.is_constant(weight) && g.type_of(weight).dim() == 2 &&
         (bias.empty() || g.is_constant(bias));
}

// ---- scaled layers --------------------------------------------------------------------------------------------------

// Whether a layer of that type may be scaled: of float32, and of half types where they are allowed.
bool may_be_scaled(dtype type, const scaling_limits& limits) {
  return type == dtype::float32 || (limits.half_types && is_half(type));
}

// A layer with constant weights.
bool is_layer(const graph& g, const graph_step& s, const scaling_limits& limits) {
  if (is_linear(g, s)) return true;
  const auto& r = s.record();
  if (s.dropped || s.group >= 0 || r.kind != operator_kind::convolution || s.op() == "aten::convolution" ||
      r.traits.changes.what != effect::mixed_linear || !s.text->precision.empty() ||
      !may_be_scaled(s.result_types[0].type, limits))
    return false;
  const std::string weight = operand_of(g, s, "weight"), bias = operand_of(g, s, "bias");
  return g.is_constant(weight) && (bias.empty() || g.is_constant(bias)) &&
         g.type_of(weight).dim() == s.result_types[0].dim() &&
         (!r.traits.transposed || integer_argument(s, "groups").value_or(1) == 1);
}

// Follows a step's operands back to one layer, as scale * layer + offset.
class scaling_chain {
 public:
  struct form {
    constant_pointer scale, offset;
  };

  scaling_chain(const graph& g, const tensor_type& type, const scaling_limits& limits)
      : graph_(&g), type_(&type), limits_(limits) {}

  // What the step computes from the layer; an error where that is anything else.
  expected<form> of_step(const graph_step& s) {
    if (const auto known = forms_.find(s.number); known != forms_.end()) return known->second;
    if (s.result_types.empty() || s.result_types[0] != *type_) return no(s, "its result has another type");
    form made{constant_of(1), constant_of(0)};
    if (is_layer(*graph_, s, limits_)) {
      if (layer_ != nullptr) return no(s, "it is a second layer");
      layer_ = &s;
    } else {
      if (s.dropped || (s.group >= 0 && !limits_.in_kernels) || s.is_replaced()) return no(s, "it is in a kernel");
      CUDAL1_TRY(made, is_batch_norm(s) ? of_batch_norm(s) : of_arithmetic(s));
    }
    forms_.emplace(s.number, made);
    return made;
  }

  // The layer; null before one was found.
  const graph_step* layer() const { return layer_; }
  // The layer and the steps that scale and shift, in order.
  std::vector<int> steps() const {
    std::vector<int> out;
    for (const auto& [number, form] : forms_)
      out.push_back(number);
    return out;
  }
  // The types in which weights scale and shift, and the weights of batch norms, which have one number for each channel.
  const std::vector<std::pair<std::string, tensor_type>>& weights() const { return weights_; }
  const std::set<std::string>& channel_weights() const { return channel_weights_; }

 private:
  static tl::unexpected<error> no(const graph_step& s, const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) does not scale or shift a layer: {}", s.number, s.op(), why);
  }

  expected<form> of_arithmetic(const graph_step& s) {
    const std::string name = s.op().substr(0, s.op().find('.'));
    const bool is_sum = name == "aten::add" || name == "aten::sub";
    if (!is_sum && name != "aten::mul" && name != "aten::div" && name != "aten::neg")
      return no(s, "it is no such arithmetic");
    if (s.argument("rounding_mode") != nullptr) return no(s, "it rounds");
    CUDAL1_TRY(const form x, of_operand(s, "self"));
    const auto times = [](const form& f, const constant_pointer& by) {
      return form{product_of(f.scale, by), product_of(f.offset, by)};
    };
    if (name == "aten::neg") return times(x, constant_of(-1));
    CUDAL1_TRY(const form y, of_operand(s, "other"));
    if (is_sum) {
      const double alpha = number_argument(s, "alpha").value_or(1);
      const form more = times(y, constant_of(name == "aten::add" ? alpha : -alpha));
      return form{sum_of(x.scale, more.scale), sum_of(x.offset, more.offset)};
    }
    if (name == "aten::mul" && is_number(x.scale, 0)) return times(y, x.offset);
    if (!is_number(y.scale, 0)) return no(s, "both operands depend on the inputs");
    if (name == "aten::mul") return times(x, y.offset);
    if (is_number(y.offset, 0)) return no(s, "it divides by zero");
    return form{quotient_of(x.scale, y.offset), quotient_of(x.offset, y.offset)};
  }

  // (x - mean) / sqrt(variance + eps) * weight + bias, with the statistics of training.
  expected<form> of_batch_norm(const graph_step& s) {
    if (boolean_argument(s, "training").value_or(false)) return no(s, "it computes its statistics from its input");
    if (!only_first_is_read(*graph_, s)) return no(s, "more than its first result is needed");
    CUDAL1_TRY(const auto mean, channel_weight(s, "running_mean", 0));
    CUDAL1_TRY(const auto variance, channel_weight(s, "running_var", 1));
    CUDAL1_TRY(const auto weight, channel_weight(s, "weight", 1));
    CUDAL1_TRY(const auto bias, channel_weight(s, "bias", 0));
    CUDAL1_TRY(const form x, of_operand(s, "input"));
    const auto eps = constant_of(number_argument(s, "eps").value_or(1e-5));
    const auto scale = quotient_of(weight, root_of(sum_of(variance, eps)));
    return form{product_of(x.scale, scale), sum_of(product_of(difference_of(x.offset, mean), scale), bias)};
  }

  expected<constant_pointer> channel_weight(const graph_step& s, const char* argument, double otherwise) {
    const std::string value = operand_of(*graph_, s, argument);
    if (value.empty()) return constant_of(otherwise);
    if (!graph_->is_constant(value)) return no(s, value + " is no weight");
    channel_weights_.insert(value);
    return constant_of(value);
  }

  expected<form> of_operand(const graph_step& s, const char* argument) {
    if (const auto number = number_argument(s, argument)) {
      if (!std::isfinite(*number)) return no(s, "it reads a number that is not finite");
      return form{constant_of(0), constant_of(*number)};
    }
    const std::string value = operand_of(*graph_, s, argument);
    if (value.empty()) return no(s, "an operand is missing");
    if (graph_->is_constant(value)) return of_weight(value, value);
    const graph_step* made = graph_->producer(value);
    if (made == nullptr) return no(s, value + " is an input");
    if (made->op() == "aten::reshape" && !made->dropped) {
      const std::string weight = operand_of(*graph_, *made, "self");
      if (graph_->is_constant(weight) && graph_->type_of(weight).is_contiguous()) return of_weight(weight, value);
    }
    return of_step(*made);
  }

  // `seen_as`: the weight, or the same elements in another shape.
  form of_weight(const std::string& weight, const std::string& seen_as) {
    weights_.emplace_back(weight, graph_->type_of(seen_as));
    return {constant_of(0), constant_of(weight)};
  }

  const graph* graph_;
  const tensor_type* type_;
  const graph_step* layer_ = nullptr;
  std::map<int, form> forms_;
  std::vector<std::pair<std::string, tensor_type>> weights_;
  std::set<std::string> channel_weights_;
  scaling_limits limits_;
};

// One number, or one a feature: features are the last dimension of a linear layer's result, and the second of a
// convolution's.
bool is_one_a_feature(const tensor_type& t, const tensor_type& result, std::size_t feature_dim,
                      const scaling_limits& limits) {
  if (!may_be_scaled(t.type, limits) || t.dim() > result.dim()) return false;
  const std::size_t missing = result.shape.size() - t.shape.size();
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    if (t.shape[d] != 1 && (d + missing != feature_dim || t.shape[d] != result.shape[feature_dim])) return false;
  return true;
}

}  // namespace

expected<drop_proof> prove_shift(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is no shift that its readers undo: {}", s.number, s.op(), why);
  };
  const bool adds = s.op() == "aten::add.Tensor" || s.op() == "aten::add.Scalar";
  if (!adds && s.op() != "aten::sub.Tensor" && s.op() != "aten::sub.Scalar") return no("it does not add or subtract");
  const std::string& result = s.text->results[0];
  const tensor_type& type = s.result_types[0];
  if (type.type != dtype::float32 || g.is_output(result)) return no("its result is an output, or not in float32");
  std::string x = operand_of(g, s, "self"), shift = operand_of(g, s, "other");
  if (adds && !shift.empty() && g.type_of(x) != type && number_argument(s, "alpha").value_or(1) == 1)
    std::swap(x, shift);
  if (g.type_of(x) != type) return no("neither operand has the type and layout of its result");
  if (!shift.empty() && !is_floating(g.type_of(shift).type)) return no("it does not add floating numbers");
  for (const char* number : {"other", "alpha"})
    if (!std::isfinite(number_argument(s, number).value_or(0))) return no("it does not add a finite number");
  if (is_never_finite(g, shift)) return no("what it adds has no finite element");
  const std::size_t dims = type.shape.size();
  for (const int reader : g.readers(result)) {
    const graph_step& by = g.step_at(reader);
    const char* name = by.argument("self") != nullptr ? "self" : "input";
    if (!only_first_is_read(g, by))
      return no(fmt::format("step {} ({}) reads it, and more than its first result is needed", reader, by.op()));
    const auto centred = by.is_replaced() ? std::vector<std::size_t>() : centred_dims(by, dims);
    if (centred.empty() || operand_of(g, by, name) != result || g.operands(by).front() != result ||
        std::ranges::count(g.operands(by), result) != 1)
      return no(fmt::format("step {} ({}) reads it, and does not subtract a mean or maximum", reader, by.op()));
    for (const std::size_t d : centred)
      if (!shift.empty() && !is_same_along(g.type_of(shift), d, dims))
        return no(
            fmt::format("{} differs along dimension {}, over which step {} ({}) goes", shift, d, reader, by.op()));
  }
  return drop_proof{
      x, fmt::format("step {} ({}) shifts rows of {} by one number each, and step {} subtracts its own mean "
                     "or maximum from each; assumes that {} is finite",
                     s.number, s.op(), x, print_steps(g.readers(result)), shift.empty() ? "the number" : shift)};
}

expected<composed_linear_proof> prove_composed_linear(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is no linear layer of a linear layer: {}", s.number, s.op(), why);
  };
  if (!is_linear(g, s)) return no("it is not aten::linear in float32 with a constant weight, outside of kernels");
  const std::string between = operand_of(g, s, "input");
  const graph_step* first = g.producer(between);
  if (first == nullptr || !is_linear(g, *first)) return no("its operand is not such a layer's result");
  if (made_for(g, s.number, between) == nullptr) return no("its operand is read elsewhere");
  composed_linear_proof out{first->number,
                            operand_of(g, *first, "input"),
                            operand_of(g, *first, "weight"),
                            operand_of(g, *first, "bias"),
                            operand_of(g, s, "weight"),
                            operand_of(g, s, "bias"),
                            ""};
  if (is_never_finite(g, out.values)) return no("the first layer's input has no finite element");
  const auto& inner = g.type_of(out.first_weight).shape;
  const int64_t in = inner[1], middle = inner[0], features = g.type_of(out.weight).shape[0];
  if (in * features >= middle * (in + features))
    return no(fmt::format("one layer from {} to {} features takes as many multiplications as both", in, features));
  out.certificate = fmt::format(
      "steps {} and {} (aten::linear) are one layer with the product of their weights, since nothing else reads {}: {} "
      "in place of {} multiplications a row; assumes that {} is finite",
      out.first, s.number, between, in * features, middle * (in + features), out.values);
  return out;
}

expected<scaled_layer_proof> prove_scaled_layer(const graph& g, const graph_step& s, const scaling_limits& limits) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) cannot be folded into a layer: {}", s.number, s.op(), why);
  };
  if (s.dropped || is_layer(g, s, limits)) return no("it is dropped, or a layer itself");
  if (s.result_types.empty()) return no("it has no result");
  scaling_chain chain(g, s.result_types[0], limits);
  CUDAL1_TRY(const auto form, chain.of_step(s));
  if (chain.layer() == nullptr || is_number(form.scale, 0)) return no("it depends on none");
  const graph_step& layer = *chain.layer();
  if (is_never_finite(g, operand_of(g, layer, "input"))) return no("the layer's input has no finite element");
  auto steps = chain.steps();
  for (const int inner : steps) {
    const auto& result = g.step_at(inner).text->results[0];
    const auto stays = [&](int reader) { return std::ranges::binary_search(steps, reader); };
    if (inner != s.number && (g.is_output(result) || !std::ranges::all_of(g.readers(result), stays)))
      return no(fmt::format("the result of step {} is read elsewhere", inner));
  }
  std::erase(steps, layer.number);
  scaled_layer_proof out{layer.number,
                         std::move(steps),
                         operand_of(g, layer, "weight"),
                         operand_of(g, layer, "bias"),
                         0,
                         form.scale,
                         form.offset,
                         ""};
  const bool convolves = !is_linear(g, layer);
  out.feature_dim = convolves && layer.record().traits.transposed ? 1 : 0;
  const std::size_t features = convolves ? 1 : s.result_types[0].shape.size() - 1;
  for (const auto& [weight, type] : chain.weights())
    if (!is_one_a_feature(type, s.result_types[0], features, limits))
      return no(fmt::format("{} is not one number, nor one for each feature", weight));
  if (!chain.channel_weights().empty() && features != 1)
    return no("a batch norm's channels are not the layer's features");
  for (const auto& weight : chain.channel_weights())
    if (!may_be_scaled(g.type_of(weight).type, limits))
      return no(fmt::format("{} is of {}", weight, name_of(g.type_of(weight).type)));
  if (convolves && !limits.bias_is_free && out.bias.empty() && !is_number(out.offset, 0))
    return no("the convolution has no bias, and adding one would be a pass of its own");
  out.certificate = fmt::format(
      "steps {} scale and shift the features of step {} ({}) by numbers that no input changes, and nothing else reads "
      "what is between: its weights{} do that; assumes that all of them are finite",
      print_steps(out.scaling), layer.number, layer.op(),
      is_number(out.offset, 0) && out.bias.empty() ? "" : " and bias");
  return out;
}

}  // namespace cudal1
