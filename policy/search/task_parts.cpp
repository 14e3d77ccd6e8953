#include "policy/search/task_parts.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "config/base/hash.hpp"
#include "policy/graph/channels_last.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/graph/renamed_step.hpp"
#include "policy/graph/setup_draws.hpp"
#include "policy/moves/groups.hpp"
#include "policy/search/schedule_builder.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// ---- a part as a task -----------------------------------------------------------------------------------------------

bool is_view(const graph& g, const graph_step& s) {
  const auto& views = g.origin().reference.view_of;
  return std::ranges::all_of(s.text->results,
                             [&](const auto& value) { return value.empty() || views.contains(value); });
}

// The steps with the views that lead to their operands: these cost nothing, and lowering sees what they select.
std::vector<int> with_views(const graph& g, const std::vector<int>& steps) {
  std::set<int> all;
  for (auto left = steps; !left.empty();) {
    const int number = left.back();
    left.pop_back();
    if (!all.insert(number).second) continue;
    for (const int maker : g.makers()[static_cast<std::size_t>(number)])
      if (is_view(g, g.step_at(maker)) && !g.is_rewritten(maker)) left.push_back(maker);
  }
  return {all.begin(), all.end()};
}

// Layers of one kind are initialised alike, but their measured means and deviations differ a little. The usual
// deviations, 1/sqrt(n) and 1/sqrt(3 n) with n of the form 2^k, 3 2^k, 5 2^k, 7 2^k or 9 2^k, are at least 3% away from
// where this goes from one power of two to the next.
double power_of_two(double v) {
  return v > 0 && std::isfinite(v) ? std::exp2(std::floor(std::log2(v) + 0.35)) : v;
}

draw_spec rounded(draw_spec d) {
  if (d.kind != distribution::normal) return d;
  d.mean = std::fabs(d.mean) < d.std / 4 ? 0 : std::copysign(power_of_two(std::fabs(d.mean)), d.mean);
  d.std = power_of_two(d.std);
  return d;
}

expected<input_spec> spec_of_weight(input_spec spec) {
  if (spec.content && spec.content->fixed) return spec;
  spec.content.reset();
  spec.draw = rounded(spec.draw);
  return spec;
}

input_spec spec_of_setup(const graph& g, const std::string& value) {
  input_spec spec;
  spec.draw = rounded(draw_of_setup_value(g, value));
  return spec;
}

// The step whose result has the same elements in another order, or place; null if it computes anything.
const graph_step* copied_by(const graph& g, const std::string& value) {
  const graph_step* made = g.producer(value);
  if (made == nullptr || made->operands().size() != 1) return nullptr;
  const auto& kernel = made->record().traits.kernel;
  return is_view(g, *made) || (kernel && kernel->form == kernel_form::identity) ? made : nullptr;
}

// Those that were recorded of a value of a step when the task was imported, or of what it is a copy of, if there is
// more than one; else none.
std::vector<double> recorded_values(const graph& g, std::string value) {
  const auto& origin = g.origin().origin;
  if (!origin) return {};
  for (const graph_step* copy = copied_by(g, value); copy != nullptr && !origin->values.contains(value);
       copy = copied_by(g, value))
    value = copy->operands().front();
  const auto found = origin->values.find(value);
  if (found == origin->values.end() || found->second.front() == found->second.back()) return {};
  return found->second;
}

// Of a value that a step outside of the part produces.
expected<input_spec> spec_of_value(const graph& g, const std::string& value) {
  const tensor_type& type = g.type_of(value);
  const value_range range = range_of(g, value);
  input_spec spec;
  if (type.type == dtype::bool_) {
    spec.draw.kind = distribution::bernoulli;
    return spec;
  }
  const bool bounded = std::isfinite(range.low) && std::isfinite(range.high);
  if (!is_floating(type.type)) {
    if (!bounded) return fail(errc::unsupported, "{} holds integers, and no bounds are proved", value);
    spec.draw.kind = distribution::integer;
    spec.draw.low = range.low;
    spec.draw.high = range.high + 1;
  } else if (bounded && range.low < range.high) {
    spec.draw.kind = distribution::uniform;
    spec.draw.low = range.low;
    spec.draw.high = range.high;
  }
  if (is_floating(type.type)) spec.quantiles = recorded_values(g, value);
  if (std::isfinite(range.low)) spec.draw.min = range.low;
  if (std::isfinite(range.high)) spec.draw.max = range.high;
  return spec;
}

// The declarations of a part: what crosses its border, named in the order of first use.
class part_border {
 public:
  explicit part_border(const graph& g) : graph_(&g) {}

  expected<std::string> name_of(const std::string& value) {
    if (const auto known = names_.find(value); known != names_.end()) return known->second;
    const auto& whole = graph_->origin();
    const auto among = [&](const auto& declarations) -> std::optional<std::size_t> {
      const auto found = std::ranges::find(declarations, value, &tensor_declaration::name);
      if (found == declarations.end()) return std::nullopt;
      return static_cast<std::size_t>(found - declarations.begin());
    };
    const auto input = among(whole.reference.text.inputs), weight = among(whole.reference.text.weights);
    if (weight) {
      CUDAL1_TRY(auto spec, spec_of_weight(whole.weights[*weight]));
      return add(value, "w", weights, weight_specs, std::move(spec));
    }
    if (input) return add(value, "x", inputs, input_specs, whole.inputs[*input]);
    if (graph_->is_constant(value)) return add(value, "w", weights, weight_specs, spec_of_setup(*graph_, value));
    CUDAL1_TRY(auto spec, spec_of_value(*graph_, value));
    return add(value, "x", inputs, input_specs, std::move(spec));
  }

  std::vector<tensor_declaration> inputs, weights;
  std::vector<input_spec> input_specs, weight_specs;

 private:
  std::string add(const std::string& value, const char* prefix, std::vector<tensor_declaration>& declarations,
                  std::vector<input_spec>& specs, input_spec spec) {
    std::string name = prefix + std::to_string(declarations.size());
    declarations.push_back({name, graph_->type_of(value)});
    specs.push_back(std::move(spec));
    names_.emplace(value, name);
    return name;
  }

  const graph* graph_;
  std::map<std::string, std::string> names_;
};

// "mm-add-relu".
std::string operator_path(const graph& g, const std::vector<int>& steps) {
  constexpr std::size_t longest = 60;
  std::string out;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    if (is_view(g, s)) continue;
    out += (out.empty() ? "" : "-") + short_operator_name(s.task_op());
  }
  return out.size() > longest ? out.substr(0, longest) : out;
}

// "part-mm-add-relu-3f9a1c2b": parts of the same operators differ in the digits, which come from all else that the id
// depends on.
std::string name_of_part(const std::string& operators, task t) {
  for (auto& spec : t.inputs)
    spec.quantiles.clear();
  return fmt::format("part-{}-{}", operators, sha256_hex(canonical_text(t)).substr(0, 8));
}

// The results of the part that anything outside of it reads.
std::vector<std::string> results_that_leave(const graph& g, const std::vector<int>& steps) {
  std::vector<std::string> out;
  const auto inside = [&](int n) { return std::ranges::binary_search(steps, n); };
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    for (const auto& value : s.text->results) {
      if (value.empty() || g.resolve(value) != value) continue;
      if (g.is_output(value) || !std::ranges::all_of(g.readers(value), inside)) out.push_back(value);
    }
  }
  return out;
}

// ---- partitions -----------------------------------------------------------------------------------------------------

// A step that parts may contain.
bool is_work(const graph& g, const graph_step& s) {
  return !s.dropped && !s.is_replaced() && !is_view(g, s);
}

partition partition_from(const schedule_builder& at, std::string name) {
  const graph& g = at.state();
  partition out{std::move(name), {}, {}};
  const auto add = [&](const std::vector<int>& steps) {
    auto part = part_of(g, steps);
    if (part) return out.parts.push_back(std::move(*part));
    for (const int n : steps)
      out.apart.emplace(n, part.error().message);
  };
  std::set<int> seen;
  for (const auto& s : g.steps()) {
    if (!is_work(g, s) || seen.contains(s.number)) continue;
    std::vector<int> steps = {s.number};
    if (s.group >= 0) steps = g.groups()[static_cast<std::size_t>(s.group)].steps;
    seen.insert(steps.begin(), steps.end());
    if (std::ranges::none_of(steps, [&](int n) { return g.step_at(n).is_replaced(); })) {
      add(steps);
      continue;
    }
    for (const int n : steps)
      if (is_work(g, g.step_at(n))) out.apart.emplace(n, "it is in one kernel with a step that a proof replaces");
  }
  return out;
}

bool same_parts(const partition& a, const partition& b) {
  return std::ranges::equal(a.parts, b.parts, {}, &task_part::covers, &task_part::covers);
}

}  // namespace

expected<task_part> part_of(const graph& g, std::vector<int> steps) {
  task_part out;
  out.steps = with_views(g, steps);
  part_border border(g);
  program p;
  std::map<std::string, std::string> own;  // names of the part's results
  expected<void> problem;
  const auto name = [&](const std::string& value) -> std::string {
    const std::string& at = g.resolve(value);
    if (const auto made = own.find(at); made != own.end()) return made->second;
    auto from_outside = border.name_of(at);
    if (from_outside) return *from_outside;
    if (problem) problem = tl::unexpected<error>(std::move(from_outside).error());
    return value;
  };
  for (const int number : out.steps) {
    const graph_step& s = g.step_at(number);
    // Operands first, so that borders are named in the order of their use.
    for (const auto& operand : s.operands())
      name(operand);
    for (const auto& result : s.text->results)
      if (!result.empty()) own.emplace(result, "v" + std::to_string(own.size()));
    p.steps.emplace_back(renamed_step(g, number, name));
  }
  CUDAL1_CHECK(problem);
  for (const auto& value : results_that_leave(g, out.steps))
    if (std::ranges::binary_search(steps, g.producer(value)->number)) p.outputs.push_back(own.at(value));
  out.covers = std::move(steps);
  p.inputs = border.inputs;
  p.weights = border.weights;
  task t;
  t.name = p.name = operator_path(g, out.steps);
  t.family = part_family;
  t.profile = g.origin().profile;
  t.inputs = border.input_specs;
  t.weights = border.weight_specs;
  CUDAL1_TRY(t.reference, check_program(std::move(p)));
  t.name = t.reference.text.name = name_of_part(t.name, t);
  CUDAL1_TRY(out.what, read_task(canonical_text(t), t.profile));
  out.what.folder = g.origin().folder;
  return out;
}

task_partitions partitions_of(const task& t, const lowering_target& target, const std::vector<move>& preparation) {
  schedule_builder proved = repaired(t, target, preparation);
  for (const move_kind* kind : moves_of(move_phase::always))
    proved.add_all(*kind);
  task_partitions out{proved.moves(), {}, {}};
  for (const auto& s : proved.state().steps())
    if (!s.dropped && s.is_replaced()) out.replaced.push_back(s.number);
  const auto add = [&](std::string name, const std::vector<const move_kind*>& kinds) {
    schedule_builder grouped = proved;
    for (const move_kind* kind : kinds)
      grouped.add_all(*kind);
    auto way = partition_from(grouped, std::move(name));
    if (std::ranges::none_of(out.ways, [&](const auto& other) { return same_parts(way, other); }))
      out.ways.push_back(std::move(way));
  };
  auto with_products = moves_of(move_phase::grouping);
  with_products.push_back(find_move("product_kernel"));
  add("largest kernels", with_products);
  add("without product kernels", moves_of(move_phase::grouping));
  add("pointwise chains", {find_move("fuse")});
  add("single steps", {});
  return out;
}

std::vector<task_partitions> partitions_by_layout(const task& t, const lowering_target& target) {
  std::vector<task_partitions> out;
  const auto add_if_changed = [&](const schedule_builder& prepared, const char* kind) {
    schedule_builder other = prepared;
    other.add_all(*find_move(kind));
    if (other.moves() != prepared.moves()) out.push_back(partitions_of(t, target, other.moves().moves));
    return other;
  };
  const auto add = [&](schedule_builder prepared, const std::vector<const char*>& further) {
    prepared.add_all(*find_move("separate_bias"));
    out.push_back(partitions_of(t, target, prepared.moves().moves));
    for (const char* kind : further)
      add_if_changed(prepared, kind);
  };
  add({t, target}, {"channels_last", "join_layers"});
  schedule_builder rewritten(t, target);
  for (const move_kind* kind : moves_of(starting_part::rewritten_layers))
    rewritten.add_all(*kind);
  if (!rewritten.moves().moves.empty()) add(rewritten, {"channels_last"});
  rewritten.add_all(*find_move("separate_bias"));
  schedule_builder last = rewritten;
  last.add_all(*find_move("channels_last"));
  add_if_changed(rewritten, "multiply_unit_kernels");
  if (last.moves() == rewritten.moves()) return out;
  last = add_if_changed(last, "drop_unit_dimensions");  // those that are views in this order only
  add_if_changed(last, "multiply_unit_kernels");
  return out;
}

std::vector<int> convolutions_after(const task& t, const lowering_target& target,
                                    const std::vector<move>& preparation) {
  return convolutions_with_channels(repaired(t, target, preparation).state().origin().reference);
}

std::vector<const task*> distinct_tasks(const task_partitions& p) {
  std::vector<const task*> out;
  std::set<std::string> ids;
  for (const auto& way : p.ways)
    for (const auto& part : way.parts)
      if (ids.insert(part.what.id).second) out.push_back(&part.what);
  return out;
}

}  // namespace cudal1
