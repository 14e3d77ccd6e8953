#include "policy/graph/composed_convolutions.hpp"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "policy/graph/convolution_geometry.hpp"
#include "policy/graph/found_steps.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

enum class mean_kind { windows, space, channels };

// A mean of what a convolution makes.
struct composable {
  mean_kind kind = mean_kind::space;
  const graph_step* mean = nullptr;
  std::vector<const graph_step*> between;  // they scale and shift channels, in order
  const graph_step* convolution = nullptr;
  convolution_geometry geometry;
  std::vector<int64_t> window, step;  // of an average pool, one number a dimension in space
  bool is_sum = false;                // of channels
};

tl::unexpected<error> no(const graph_step& s, const std::string& why) {
  return fail(errc::invalid_argument, "step {} ({}): {}", s.number, s.op(), why);
}

// ---- the mean -----------------------------------------------------------------------------------------------------

// The dimensions of a reduction, counted from the first.
std::vector<int64_t> reduced_dims(const graph_step& s, int64_t dims) {
  auto out = integers_argument(s, "dim").value_or(std::vector<int64_t>{});
  for (auto& d : out)
    if (d < 0) d += dims;
  std::ranges::sort(out);
  return out;
}

bool is_all_of_space(const std::vector<int64_t>& dims, int64_t all) {
  for (int64_t d = 2; d < all; ++d)
    if (std::ranges::count(dims, d) != 1) return false;
  return static_cast<int64_t>(dims.size()) == all - 2;
}

expected<void> read_pool(const graph_step& s, composable& out, std::size_t dims) {
  out.kind = mean_kind::windows;
  if (!geometry_is(by_dimension(s, "padding", dims, 0), 0)) return no(s, "its windows reach beyond its operand");
  if (boolean_argument(s, "ceil_mode").value_or(false)) return no(s, "its windows reach beyond its operand");
  if (integer_argument(s, "divisor_override")) return no(s, "it divides by another number than its windows' size");
  out.window = by_dimension(s, "kernel_size", dims, 1);
  out.step = by_dimension(s, "stride", dims, 0);
  if (geometry_is(out.step, 0)) out.step = out.window;
  return {};
}

expected<void> read_mean(const graph_step& s, composable& out, int64_t dims) {
  const std::string& op = s.op();
  if (op.starts_with("aten::avg_pool")) return read_pool(s, out, static_cast<std::size_t>(dims - 2));
  if (op.find("adaptive_avg_pool") != std::string::npos) {
    out.kind = mean_kind::space;
    if (!geometry_is(by_dimension(s, "output_size", static_cast<std::size_t>(dims - 2), 0), 1))
      return no(s, "it has several results a channel");
    return {};
  }
  out.is_sum = op == "aten::sum.dim_IntList";
  if (op != "aten::mean.dim" && !out.is_sum) return no(s, "it is no mean");
  if (s.argument("dtype") != nullptr && !std::holds_alternative<std::monostate>(*s.argument("dtype")))
    return no(s, "it has another type");
  const auto reduced = reduced_dims(s, dims);
  if (reduced == std::vector<int64_t>{1}) {
    out.kind = mean_kind::channels;
    return {};
  }
  if (is_all_of_space(reduced, dims) && !out.is_sum) {
    out.kind = mean_kind::space;
    return {};
  }
  return no(s, "it is a mean neither over space nor over channels");
}

// ---- what is between ------------------------------------------------------------------------------------------------

// Whether an operand of elementwise arithmetic is the same everywhere in space: a number, or a weight with no extent
// there.
bool is_of_channels(const graph& g, const graph_step& s, std::string_view argument, int64_t dims) {
  if (number_argument(s, argument)) return true;
  const auto name = tensor_argument_name(s, argument);
  if (!name || !g.is_constant(*name)) return false;
  const auto& shape = g.type_of(*name).shape;
  const auto size = static_cast<int64_t>(shape.size());
  for (int64_t d = 2; d < dims; ++d)
    if (const int64_t at = d - (dims - size); at >= 0 && shape[static_cast<std::size_t>(at)] != 1) return false;
  return size <= dims;
}

const char* scaled_argument(const graph_step& s) {
  return is_batch_norm(s) ? "input" : "self";
}

// The operand that a step scales or shifts; an error where it does anything else.
expected<std::string> scaled_operand(const graph& g, const graph_step& s, int64_t dims) {
  if (is_batch_norm(s)) {
    if (boolean_argument(s, "training").value_or(false)) return no(s, "it computes its statistics from its input");
    if (!only_first_is_read(g, s)) return no(s, "more than its first result is needed");
    return *tensor_argument_name(s, scaled_argument(s));
  }
  const std::string op = s.op().substr(0, s.op().find('.'));
  const auto self = tensor_argument_name(s, "self");
  if (op == "aten::neg" && self) return *self;
  if (op != "aten::add" && op != "aten::sub" && op != "aten::mul" && op != "aten::div")
    return no(s, "it does more than scale and shift channels");
  const json* const rounds = argument_of(*s.text, "rounding_mode");
  if (!self || (rounds != nullptr && !rounds->is_null()) || !is_of_channels(g, s, "other", dims))
    return no(s, "it does more than scale and shift channels");
  return *self;
}

expected<void> find_convolution(const graph& g, composable& out) {
  const tensor_type* type = nullptr;
  std::string value = *tensor_argument_name(*out.mean, "self");
  while (true) {
    const graph_step* s = g.definition_of(value);
    if (s == nullptr) return no(*out.mean, value + " is no result of a convolution");
    if (g.is_output(value) || g.readers(value).size() != 1) return no(*s, value + " is needed otherwise too");
    if (type != nullptr && g.type_of(value) != *type) return no(*s, "its result has another type");
    type = &g.type_of(value);
    if (s->record().kind == operator_kind::convolution) {
      out.convolution = s;
      return {};
    }
    CUDAL1_TRY(value, scaled_operand(g, *s, type->dim()));
    out.between.insert(out.between.begin(), s);
  }
}

expected<composable> composable_of(const graph& g, int number) {
  if (!g.has_step(number)) return fail(errc::invalid_argument, "there is no step {}", number);
  composable out;
  out.mean = &g.step_at(number);
  const auto operand = tensor_argument_name(*out.mean, "self");
  if (!operand || out.mean->result_types.size() != 1) return no(*out.mean, "it is no mean");
  CUDAL1_CHECK(read_mean(*out.mean, out, g.type_of(*operand).dim()));
  CUDAL1_CHECK(find_convolution(g, out));
  const graph_step& c = *out.convolution;
  CUDAL1_TRY(out.geometry, geometry_of(g, c));
  const bool is_float32 = c.result_types[0].type == dtype::float32 && c.text->precision.empty();
  if (!is_float32) return no(c, "its result is rounded to another type than float32");
  if (out.geometry.groups != 1) return no(c, "it has groups");
  if (!g.is_constant(out.geometry.weight)) return no(c, out.geometry.weight + " is no weight");
  if (!out.geometry.bias.empty() && !g.is_constant(out.geometry.bias)) return no(c, "its bias is no weight");
  if (out.kind == mean_kind::channels && !out.between.empty())
    return no(*out.between.front(), "it scales or shifts channels before their mean");
  if (out.kind == mean_kind::windows && out.geometry.transposed) return no(c, "it is transposed");
  if (out.kind == mean_kind::windows && !geometry_is(out.geometry.dilation, 1)) return no(c, "it is dilated");
  if (out.kind == mean_kind::space && !out.geometry.transposed && !geometry_is(out.geometry.stride, 1))
    return no(c, "its windows leave out elements");
  return out;
}

// ---- the new steps ------------------------------------------------------------------------------------------------

class mean_writer {
 public:
  mean_writer(const graph& g, program_changes& out, const composable& what) : g_(&g), out_(&out), what_(&what) {}

  void write() {
    switch (what_->kind) {
      case mean_kind::windows:
        return write_windows();
      case mean_kind::space:
        return write_space();
      case mean_kind::channels:
        return write_channels();
    }
  }

 private:
  const std::string& result() const { return what_->mean->text->results[0]; }
  const convolution_geometry& geometry() const { return what_->geometry; }
  const tensor_type& weight_type() const { return g_->type_of(geometry().weight); }
  std::size_t dims() const { return geometry().stride.size(); }
  json set_up(const char* op, step_arguments args) {
    return json(out_->at_set_up(op, std::move(args), geometry().weight + "_composed"));
  }
  // A name for what comes before the result.
  std::string part_name() { return out_->new_name(result() + "_part"); }

  // Scales and shifts the value as the steps between do; the last result, if there are any, has that name.
  std::string scaled(std::string value, const std::string& last) {
    for (std::size_t i = 0; i < what_->between.size(); ++i) {
      aten_step s = *what_->between[i]->text;
      const bool is_last = i + 1 == what_->between.size();
      set_argument(s, scaled_argument(*what_->between[i]), json(value));
      value = is_last ? last : part_name();
      s.results[0] = value;
      out_->add(std::move(s));
    }
    return value;
  }

  // The mean over windows of a convolution is a convolution with larger windows.
  void write_windows() {
    const auto& shape = weight_type().shape;
    std::vector<int64_t> alone = {shape[0] * shape[1], 1}, ones = {1, 1}, reach, composed = {shape[0], shape[1]}, steps;
    double share = 1;
    for (std::size_t d = 0; d < dims(); ++d) {
      const int64_t stride = geometry().stride[d], window = what_->window[d];
      alone.push_back(shape[d + 2]);
      ones.push_back(window);
      reach.push_back((window - 1) * stride);
      composed.push_back(shape[d + 2] + reach.back());
      steps.push_back(stride * what_->step[d]);
      share /= static_cast<double>(window);
    }
    // In float64: a GPU's library rounds operands of float32 to TF32.
    const json exact("float64"), apart = list_of(std::vector<int64_t>(dims(), 1));
    json w = set_up("aten::to.dtype", {{"self", json(geometry().weight)}, {"dtype", exact}});
    w = set_up("aten::reshape", {{"self", w}, {"shape", list_of(alone)}});
    const json window = set_up("aten::full", {{"size", list_of(ones)}, {"fill_value", json(share)}, {"dtype", exact}});
    w = set_up(convolution_name(dims()), {{"input", w},
                                          {"weight", window},
                                          {"stride", apart},
                                          {"padding", list_of(reach)},
                                          {"dilation", list_of(geometry().stride)}});
    w = set_up("aten::reshape", {{"self", w}, {"shape", list_of(composed)}});
    w = set_up("aten::to.dtype", {{"self", w}, {"dtype", json("float32")}});
    const std::string first = what_->between.empty() ? result() : part_name();
    add_convolution(first, w, bias(), steps);
    scaled(first, result());
  }

  // One channel with the mean of all weights.
  void write_channels() {
    const char* const op = what_->is_sum ? "aten::sum.dim_IntList" : "aten::mean.dim";
    const int64_t channels = geometry().transposed ? 1 : 0;
    const auto over = [&](const std::string& value, int64_t dim) {
      return set_up(op, {{"self", json(value)}, {"dim", list_of({dim})}, {"keepdim", json(true)}});
    };
    const json w = over(geometry().weight, channels);
    const json b = geometry().bias.empty() ? json() : over(geometry().bias, 0);
    const auto& type = what_->mean->result_types[0];
    const bool keeps = type.dim() == weight_type().dim();
    const std::string first = keeps ? result() : part_name();
    add_convolution(first, w, b, geometry().stride);
    if (!keeps) out_->add("aten::squeeze.dim", {{"self", json(first)}, {"dim", json(1)}}, result());
  }

  // Each weight meets the elements of a box of the input; of boxes there are few.
  void write_space() {
    const auto& input = g_->type_of(geometry().input);
    std::string sums = geometry().input;
    json w = json(geometry().weight);
    if (geometry().transposed) w = set_up("aten::transpose.int", {{"self", w}, {"dim0", json(0)}, {"dim1", json(1)}});
    std::vector<int64_t> whole;  // dimensions in which every weight meets every element
    std::vector<std::vector<met_range>> ranges;
    double outputs = 1;
    for (std::size_t d = 0; d < dims(); ++d) {
      ranges.push_back(met_ranges(geometry(), d, input.shape[d + 2], output_size(d), weight_type().shape[d + 2]));
      outputs *= static_cast<double>(output_size(d));
      if (ranges.back().size() == 1 && ranges.back()[0].is_whole(input.shape[d + 2]))
        whole.push_back(static_cast<int64_t>(d + 2));
    }
    if (!whole.empty()) sums = sum_of(sums, whole);
    int64_t terms = input.shape[1];
    for (std::size_t d = 0; d < dims(); ++d) {
      const auto dim = static_cast<int64_t>(d + 2);
      if (std::ranges::count(whole, dim) == 0) sums = sums_in(sums, dim, input.shape[d + 2], ranges[d]);
      w = summed_weights(w, dim, ranges[d]);
      terms *= static_cast<int64_t>(ranges[d].size());
    }
    write_product(sums, w, terms, outputs);
  }

  int64_t output_size(std::size_t d) const { return what_->convolution->result_types[0].shape[d + 2]; }

  void write_product(const std::string& sums, json w, int64_t terms, double outputs) {
    const auto& type = what_->convolution->result_types[0];
    const std::string rows =
        out_->add("aten::reshape", {{"self", json(sums)}, {"shape", list_of({type.shape[0], terms})}}, part_name());
    w = set_up("aten::reshape", {{"self", w}, {"shape", list_of({type.shape[1], terms})}});
    w = set_up("aten::div.Scalar", {{"self", w}, {"other", json(outputs)}});
    std::string value =
        out_->add("aten::linear", {{"input", json(rows)}, {"weight", w}, {"bias", bias()}}, part_name());
    std::vector<int64_t> shape = {type.shape[0], type.shape[1]};
    shape.resize(static_cast<std::size_t>(type.dim()), 1);
    if (!what_->between.empty()) {
      value = out_->add("aten::reshape", {{"self", json(value)}, {"shape", list_of(shape)}}, part_name());
      value = scaled(value, part_name());
    }
    out_->add("aten::reshape", {{"self", json(value)}, {"shape", list_of(what_->mean->result_types[0].shape)}},
              result());
  }

  std::string sum_of(const std::string& value, const std::vector<int64_t>& over) {
    return out_->add("aten::sum.dim_IntList", {{"self", json(value)}, {"dim", list_of(over)}, {"keepdim", json(true)}},
                     part_name());
  }

  // The sums over ranges of a dimension, side by side in it. Most ranges leave out little: that is taken from the sum
  // of all.
  std::string sums_in(const std::string& value, int64_t dim, int64_t size, const std::vector<met_range>& ranges) {
    const auto of = [&](int64_t start, int64_t length) {
      const std::string part = out_->add(
          "aten::narrow", {{"self", json(value)}, {"dim", json(dim)}, {"start", json(start)}, {"length", json(length)}},
          part_name());
      return sum_of(part, {dim});
    };
    std::string all;
    json::array parts;
    for (const auto& r : ranges) {
      if (2 * r.length() < size) {
        parts.emplace_back(of(r.first, r.length()));
        continue;
      }
      if (all.empty()) all = sum_of(value, {dim});
      std::string sum = all;
      for (const auto& [start, length] : {std::pair{int64_t{0}, r.first}, std::pair{r.last + 1, size - r.last - 1}})
        if (length > 0)
          sum = out_->add("aten::sub.Tensor", {{"self", json(sum)}, {"other", json(of(start, length))}}, part_name());
      parts.emplace_back(sum);
    }
    if (parts.size() == 1) return std::string(parts.front().as_string());
    return out_->add("aten::cat", {{"tensors", json(std::move(parts))}, {"dim", json(dim)}}, part_name());
  }

  // The weights that meet the same range, summed.
  json summed_weights(const json& w, int64_t dim, const std::vector<met_range>& ranges) {
    json::array parts;
    for (const auto& r : ranges) {
      json part =
          set_up("aten::narrow",
                 {{"self", w}, {"dim", json(dim)}, {"start", json(r.first_weight)}, {"length", json(r.weights)}});
      if (r.weights > 1)
        part = set_up("aten::sum.dim_IntList", {{"self", part}, {"dim", list_of({dim})}, {"keepdim", json(true)}});
      parts.push_back(std::move(part));
    }
    if (parts.size() == 1) return parts.front();
    return set_up("aten::cat", {{"tensors", json(std::move(parts))}, {"dim", json(dim)}});
  }

  json bias() const { return geometry().bias.empty() ? json() : json(geometry().bias); }

  void add_convolution(const std::string& name, const json& weight, const json& bias,
                       const std::vector<int64_t>& stride) {
    aten_step s = *what_->convolution->text;
    set_argument(s, "weight", weight);
    if (!bias.is_null()) set_argument(s, "bias", bias);
    set_argument(s, "stride", list_of(stride));
    s.results = {name};
    out_->add(std::move(s));
  }

  const graph* g_;
  program_changes* out_;
  const composable* what_;
};

std::string certificate_of(const composable& c) {
  const int mean = c.mean->number, convolution = c.convolution->number;
  const std::string between =
      c.between.empty() ? "" : "; what is between is the same everywhere in space, so it may follow";
  switch (c.kind) {
    case mean_kind::windows:
      return fmt::format(
          "step {} averages windows of the convolution of step {}, which is one with larger windows and "
          "summed weights{}",
          mean, convolution, between);
    case mean_kind::space:
      return fmt::format(
          "step {} averages all results of the convolution of step {} in a channel: each weight times the "
          "sum of the elements that it meets{}",
          mean, convolution, between);
    default:
      return fmt::format("step {} adds up the channels of the convolution of step {}: one channel with summed weights",
                         mean, convolution);
  }
}

}  // namespace

std::vector<int> composable_means(const graph& g) {
  const auto may_be_mean = [](const graph_step& s) {
    const operator_kind kind = s.record().kind;
    return kind == operator_kind::pool || kind == operator_kind::reduction;
  };
  return found_among<composable>(g, may_be_mean, composable_of);
}

expected<proved_task> with_composed_convolutions(const graph& g, std::span<const int> steps) {
  CUDAL1_TRY(const auto means, all_found<composable>(g, steps, composable_of));
  std::vector<int> left_out;
  std::vector<std::string> certificates;
  for (const int number : steps) {
    const composable& found = means.at(number);
    left_out.push_back(found.convolution->number);
    for (const auto* s : found.between)
      left_out.push_back(s->number);
    certificates.push_back(certificate_of(found));
  }
  program_changes changes(g.origin().reference);
  for (const auto& s : g.steps()) {
    if (std::ranges::count(left_out, s.number) > 0) continue;
    if (const auto found = means.find(s.number); found != means.end())
      mean_writer(g, changes, found->second).write();
    else
      changes.add(*s.text);
  }
  CUDAL1_TRY(auto with, with_program(g.origin(), changes.take()));
  return proved_task{std::move(with), fmt::format("{}", fmt::join(certificates, "; "))};
}

}  // namespace cudal1
