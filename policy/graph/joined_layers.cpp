#include "policy/graph/joined_layers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"
#include "policy/graph/step_arguments.hpp"
#include "policy/graph/strided_readers.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_largest_weight = int64_t{1} << 30;  // bytes: the weights are held twice

struct layer {
  int step = 0;
  std::string input, weight, bias;  // bias: "" for none
  bool row_a_feature = false;       // of the weight, as aten::linear has it; else a column
  int64_t features = 0;
};

// The operators of layers, with the names of their arguments.
struct layer_operator {
  std::string_view name, input, weight, bias;
};
constexpr layer_operator k_operators[] = {{"aten::linear", "input", "weight", "bias"},
                                          {"aten::mm", "self", "mat2", ""},
                                          {"aten::matmul", "self", "other", ""},
                                          {"aten::addmm", "mat1", "mat2", "self"}};

std::string name_in(const aten_step& s, std::string_view argument) {
  const json* written = argument_of(s, argument);
  return written != nullptr && written->is_string() ? std::string(written->as_string()) : "";
}

// ---- which steps are layers -----------------------------------------------------------------------------------------

class layer_finder {
 public:
  explicit layer_finder(const checked_program& p) : p_(&p) {
    for (const auto& each : p.text.weights)
      constants_.insert(each.name);
    for (const auto& s : p.text.setup)
      for (const auto& value : std::get<aten_step>(s).results)
        constants_.insert(value);
    for (std::size_t i = 0; i < p.text.steps.size(); ++i)
      for (const auto& value : step_of(p, static_cast<int>(i)).results)
        makers_[value] = static_cast<int>(i);
  }

  expected<layer> of(int step) const {
    const aten_step& s = step_of(*p_, step);
    const auto no = [&](std::string_view why) {
      return fail(errc::invalid_argument, "step {} ({}) is no layer that may be joined: {}", step, s.op, why);
    };
    const auto& call = p_->calls[static_cast<std::size_t>(step)];
    const auto* const op = std::ranges::find(k_operators, call.op->record->name(), &layer_operator::name);
    if (op == std::end(k_operators)) return no("it is no product with weights");
    layer out{step, name_in(s, op->input), "", name_in(s, op->bias), op->bias == "bias", 0};
    if (!find_weight(name_in(s, op->weight), out)) return no("its second operand is no matrix of weights");
    const tensor_type &weight = p_->types.at(out.weight), &result = p_->types.at(s.results[0]);
    out.features = result.shape.back();
    if (result.type != dtype::float32 && !is_half(result.type)) return no("it is not of a floating type of kernels");
    if (constants_.contains(out.input)) return no("it reads weights only");
    if (weight.shape[out.row_a_feature ? 0 : 1] != out.features) return no("its weight is no matrix of its features");
    if (!out.bias.empty() &&
        (!constants_.contains(out.bias) || p_->types.at(out.bias).shape != std::vector<int64_t>{out.features}))
      return no("what it adds is not a weight with one number for each feature");
    for (const char* scale : {"alpha", "beta"})
      if (const json* by = argument_of(s, scale); by != nullptr && (!by->is_number() || by->as_number() != 1))
        return no("it scales what it adds");
    return out;
  }

 private:
  // A matrix of weights, or the transposed of one, which is read in its place.
  bool find_weight(const std::string& value, layer& to) const {
    if (value.empty() || p_->types.at(value).dim() != 2) return false;
    to.weight = value;
    if (constants_.contains(value)) return true;
    const auto made = makers_.find(value);
    if (made == makers_.end() || to.row_a_feature) return false;
    const std::string from = name_in(step_of(*p_, made->second), "self");
    if (!constants_.contains(from) || !p_->view_of.contains(value)) return false;
    const tensor_type& type = p_->types.at(from);
    if (!is_transposed(type, p_->types.at(value))) return false;
    to.weight = from;
    to.row_a_feature = true;
    return true;
  }

  // Decided by the view's strides: all other views of a matrix as a matrix keep the order, or leave elements out.
  static bool is_transposed(const tensor_type& from, const tensor_type& view) {
    return from.dim() == 2 && view.shape[0] == from.shape[1] && view.shape[1] == from.shape[0] &&
           view.strides[0] == from.strides[1] && view.strides[1] == from.strides[0];
  }

  const checked_program* p_;
  std::set<std::string> constants_;
  std::map<std::string, int> makers_;
};

// ---- which of them are joined ---------------------------------------------------------------------------------------

using layer_set = std::vector<layer>;

// The type of a layer's result as a slice of a joined one.
tensor_type slice_type(const tensor_type& result, int64_t joined_features) {
  tensor_type whole = result;
  whole.shape.back() = joined_features;
  return {result.type, result.shape, contiguous_strides(whole.shape)};
}

int64_t features_of(const layer_set& layers) {
  int64_t out = 0;
  for (const auto& each : layers)
    out += each.features;
  return out;
}

class layer_sets {
 public:
  explicit layer_sets(const checked_program& p) : p_(&p), finder_(p) {}

  // The layers among these steps, by what they have in common, in the order of the first ones.
  std::vector<layer_set> among(std::span<const int> steps) const {
    std::map<std::tuple<std::string, bool, std::string>, layer_set> sets;
    for (const int step : steps)
      if (auto found = finder_.of(step))
        sets[{found->input, found->row_a_feature, step_of(*p_, step).precision}].push_back(std::move(*found));
    std::vector<layer_set> out;
    for (auto& [what, layers] : sets)
      out.push_back(std::move(layers));
    std::ranges::sort(out, {}, [](const layer_set& layers) { return layers.front().step; });
    return out;
  }

  expected<void> check(const layer_set& layers) const {
    const int first = layers.front().step;
    if (layers.size() < 2)
      return fail(errc::invalid_argument, "step {} ({}) is the only layer of {} among these", first,
                  step_of(*p_, first).op, layers.front().input);
    const tensor_type& weight = p_->types.at(layers.front().weight);
    const int64_t k = weight.shape[layers.front().row_a_feature ? 1 : 0], features = features_of(layers);
    if (k * features * size_of(weight.type) > k_largest_weight)
      return fail(errc::invalid_argument, "the joined weight of step {} would have more than a GiB", first);
    for (const auto& each : layers)
      CUDAL1_CHECK(check_readers(each, features));
    return {};
  }

  expected<void> check_readers(const layer& of, int64_t joined_features) const {
    if (!readers_) readers_.emplace(*p_);
    const std::string& result = step_of(*p_, of.step).results[0];
    return readers_->check(result, slice_type(p_->types.at(result), joined_features));
  }

  const layer_finder& finder() const { return finder_; }

 private:
  const checked_program* p_;
  layer_finder finder_;
  mutable std::optional<strided_readers> readers_;  // of most programs: not needed
};

// ---- the program with joined layers ---------------------------------------------------------------------------------

class layer_joiner {
 public:
  explicit layer_joiner(const checked_program& p) : p_(&p), out_(p) {}

  program write(const std::vector<layer_set>& sets) {
    std::map<int, const layer_set*> first;
    for (const auto& layers : sets) {
      first[layers.front().step] = &layers;
      add_slices(layers);
    }
    for (std::size_t i = 0; i < p_->text.steps.size(); ++i) {
      const int number = static_cast<int>(i);
      if (const auto found = first.find(number); found != first.end()) add_joined(*found->second);
      const auto slice = slices_.find(number);
      out_.add(slice == slices_.end() ? p_->text.steps[i] : step(std::move(slice->second)));
    }
    return out_.take();
  }

  // The result of each joined layer, by that of its first layer.
  const std::map<std::string, std::string>& results() const { return results_; }

 private:
  static std::vector<std::string> names_of(const layer_set& layers, std::string layer::*value) {
    std::vector<std::string> out;
    for (const auto& each : layers)
      out.push_back(each.*value);
    return out;
  }

  void add_slices(const layer_set& layers) {
    const std::string& first = step_of(*p_, layers.front().step).results[0];
    const std::string& joined = results_[first] = out_.new_name(first + "_joined");
    int64_t start = 0;
    for (const auto& each : layers) {
      const std::string& result = step_of(*p_, each.step).results[0];
      aten_step slice;
      slice.op = "aten::narrow";
      slice.args = {{"self", json(joined)},
                    {"dim", json(p_->types.at(result).dim() - 1)},
                    {"start", json(start)},
                    {"length", json(each.features)}};
      slice.results = {result};
      slices_.emplace(each.step, std::move(slice));
      start += each.features;
    }
  }

  void add_joined(const layer_set& layers) {
    const layer& first = layers.front();
    const aten_step& own = step_of(*p_, first.step);
    const json input(first.input), weight(joined(names_of(layers, &layer::weight), first.row_a_feature ? 0 : 1));
    const json bias = joined_bias(layers);
    aten_step made;
    if (first.row_a_feature) {
      made.op = "aten::linear";
      made.args = {{"input", input}, {"weight", weight}, {"bias", bias}};
    } else if (bias.is_string()) {
      made.op = "aten::addmm";
      made.args = {{"self", bias}, {"mat1", input}, {"mat2", weight}};
    } else {
      const bool of_rows = p_->types.at(first.input).dim() == 2;
      made.op = of_rows ? "aten::mm" : "aten::matmul";
      made.args = {{"self", input}, {of_rows ? "mat2" : "other", weight}};
    }
    made.results = {results_.at(own.results[0])};
    made.precision = own.precision;
    out_.add(std::move(made));
  }

  // Null where no layer has a bias.
  json joined_bias(const layer_set& layers) {
    auto names = names_of(layers, &layer::bias);
    if (std::ranges::all_of(names, &std::string::empty)) return {};
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i].empty()) names[i] = zeros(layers[i]);
    return json(joined(names, 0));
  }

  std::string zeros(const layer& of) {
    const json size(json::array{json(of.features)}), type(name_of(p_->types.at(of.weight).type));
    return out_.at_set_up("aten::full", {{"size", size}, {"fill_value", json(0)}, {"dtype", type}}, "no_bias");
  }

  std::string joined(const std::vector<std::string>& values, int64_t dim) {
    json::array tensors;
    for (const auto& value : values)
      tensors.emplace_back(value);
    const json all(std::move(tensors));
    return out_.at_set_up("aten::cat", {{"tensors", all}, {"dim", json(dim)}}, values.front() + "_joined");
  }

  const checked_program* p_;
  program_changes out_;
  std::map<std::string, std::string> results_;
  std::map<int, aten_step> slices_;
};

std::vector<int> steps_of(const layer_set& layers) {
  std::vector<int> out;
  for (const auto& each : layers)
    out.push_back(each.step);
  std::ranges::sort(out);
  return out;
}

std::string certificate_of(const std::vector<layer_set>& sets) {
  std::vector<std::string> parts;
  for (const auto& layers : sets)
    parts.push_back(fmt::format(
        "steps {} multiply {} by weights that no input changes: one layer with these weights concatenated has their "
        "results as slices of its features",
        print_steps(steps_of(layers)), layers.front().input));
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The task with what was recorded of each first layer's result for the joined one too: parts that read it are drawn so.
task with_records_of(task t, const std::map<std::string, std::string>& joined_by_first) {
  if (t.origin)
    for (const auto& [first, joined] : joined_by_first)
      if (const auto known = t.origin->values.find(first); known != t.origin->values.end())
        t.origin->values.emplace(joined, known->second);
  return t;
}

}  // namespace

std::vector<std::vector<int>> joinable_layers(const checked_program& p) {
  std::vector<int> all(p.text.steps.size());
  std::iota(all.begin(), all.end(), 0);
  const layer_sets sets(p);
  std::vector<std::vector<int>> out;
  for (auto& layers : sets.among(all)) {
    if (layers.size() < 2) continue;
    const int64_t features = features_of(layers);
    std::erase_if(layers, [&](const layer& each) { return !sets.check_readers(each, features); });
    if (!layers.empty() && sets.check(layers)) out.push_back(steps_of(layers));
  }
  return out;
}

expected<joined_task> with_joined_layers(const task& t, std::span<const int> steps) {
  const checked_program& p = t.reference;
  const layer_sets all(p);
  for (const int step : steps)
    CUDAL1_CHECK(all.finder().of(step));
  const auto sets = all.among(steps);
  for (const auto& layers : sets)
    CUDAL1_CHECK(all.check(layers));
  layer_joiner joiner(p);
  program text = joiner.write(sets);
  CUDAL1_TRY(auto with, with_program(with_records_of(t, joiner.results()), std::move(text)));
  for (const auto& [value, whole] : p.view_of)
    if (!with->reference.view_of.contains(value))
      return fail(errc::invalid_argument, "{} is a view, and would become a copy", value);
  joined_task out{std::move(with), certificate_of(sets), {}};
  for (const auto& layers : sets)
    out.layers.push_back(steps_of(layers));
  return out;
}

}  // namespace cudal1
