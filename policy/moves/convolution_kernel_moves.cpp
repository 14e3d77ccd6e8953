#include "policy/moves/convolution_kernel_moves.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "policy/body/body_builder.hpp"
#include "policy/graph/channels_last.hpp"
#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

constexpr const char *k_plain = "convolution_kernel", *k_tensor_cores = "tensor_core_convolution";
constexpr std::string_view k_factors = "factors";

bool is_free_step(const graph_step& s, operator_family family) {
  return !s.dropped && s.group < 0 && family_of(s) == family;
}

bool is_free_convolution(const graph_step& s) {
  return is_free_step(s, operator_family::convolution);
}

// The ways to multiply that a move may have: without tensor cores, or on them.
std::vector<std::string_view> ways_of(std::string_view name, const lowering_target& target) {
  std::vector<std::string_view> out;
  for (const auto way : target.convolution_ways())
    if (way.empty() == (name == k_plain)) out.push_back(way);
  return out;
}

// Why the convolution is not multiplied in this way, after "step 3 "; null where it may be.
const char* why_not_so(const graph_step& s, std::string_view way) {
  const bool is_float32 = s.result_types[0].type == dtype::float32;
  if (way == convolution_by_tf32 && is_float32 && s.text->precision == "float32")
    return "is computed in float32, not in TF32";
  if (way == convolution_by_tf32_pairs && !is_float32) return "multiplies half types, of which TF32 holds all bits";
  return nullptr;
}

// The library multiplies a few channels in float32, so that TF32 would be wrong, and in two parts it is slower than
// without tensor cores. Where TF32 is not accepted, a float32 convolution in it is wrong in any case.
bool may_pay(const graph& g, const graph_step& s, std::string_view way, const lowering_target& target) {
  if (way == convolution_by_tf32 && s.result_types[0].type == dtype::float32 && target.accepted() == accuracy::strict)
    return false;
  const auto& calls = g.origin().reference.calls;
  const auto number = static_cast<std::size_t>(s.number);
  return way.empty() || number >= calls.size() || convolves_by_fours(calls[number]);
}

const char* explanation_of(std::string_view way) {
  if (way.empty()) return " that keeps tiles of its input in shared memory";
  return way == convolution_by_tf32 ? " on tensor cores in TF32"
                                    : " on tensor cores: operands are a high and a low TF32 part each";
}

// The groups that read the step's result.
std::set<int> groups_behind(const graph& g, const graph_step& s) {
  std::set<int> out;
  for (const int reader : g.readers(s.text->results[0]))
    if (const int group = g.step_at(reader).group; group >= 0) out.insert(group);
  return out;
}

// The elementwise steps that make a value of that of a step; empty, too, where it is not made so.
std::optional<std::vector<int>> steps_between(const graph& g, const graph_step& from, const std::string& value) {
  std::vector<int> out;
  for (std::string now = value; !now.empty();) {
    const graph_step* made = g.producer(g.resolve(now));
    if (made == nullptr) return std::nullopt;
    if (made->number == from.number) return out;
    if (!is_free_step(*made, operator_family::pointwise)) return std::nullopt;
    out.push_back(made->number);
    const auto operands = made->operands();
    const auto same = std::ranges::find_if(operands, [&](const std::string& o) {
      return g.type_of(o).shape == from.result_types[0].shape && g.producer(g.resolve(o)) != nullptr;
    });
    now = same == operands.end() ? "" : *same;
  }
  return std::nullopt;
}

// Reductions of what elementwise steps make of the convolution's result, with these steps, and with what is made of
// their results alone: the statistics of a norm, for example. None of them in a group yet.
std::vector<int> reductions_behind(const graph& g, const graph_step& convolution) {
  std::set<int> out, reduced;
  std::vector<int64_t> shape;  // of the results
  for (const auto& s : g.steps()) {
    if (!is_free_step(s, operator_family::reduction) || (!reduced.empty() && s.result_types[0].shape != shape))
      continue;
    const auto value = tensor_argument_name(s, "self");
    const auto between = value ? steps_between(g, convolution, *value) : std::nullopt;
    if (!between) continue;
    shape = s.result_types[0].shape;
    out.insert(between->begin(), between->end());
    reduced.insert(s.number);
  }
  for (const auto& s : g.steps()) {
    if (!is_free_step(s, operator_family::pointwise) || s.result_types[0].shape != shape) continue;
    const auto operands = s.operands();
    const auto is_known = [&](const std::string& o) {
      const graph_step* made = g.producer(g.resolve(o));
      return made == nullptr ? g.is_constant(g.resolve(o)) : reduced.contains(made->number);
    };
    const auto is_reduced = [&](const std::string& o) { return g.producer(g.resolve(o)) != nullptr; };
    if (std::ranges::all_of(operands, is_known) && std::ranges::any_of(operands, is_reduced)) reduced.insert(s.number);
  }
  out.insert(reduced.begin(), reduced.end());
  return {out.begin(), out.end()};
}

// Whether the convolution's kernel has a norm over so few elements of space that a kernel of its own reads them once:
// with the convolution it is not one pass.
bool is_better_apart(const kernel_body& body) {
  constexpr int64_t k_most_elements = 1 << 14;
  return body.columns() <= k_most_elements &&
         std::ranges::any_of(body.windows, [&](const body_window& w) { return w.row >= body.row_dims(); }) &&
         !std::ranges::all_of(body.results, [&](const body_result& r) { return body.is_one_per_row(r.target); });
}

// Each convolution with a group that reads it, or with reductions in none, where there are such, and alone. What is
// better apart comes last.
std::vector<move> kernel_candidates(std::string_view name, const graph& g, const lowering_target& target) {
  std::vector<move> out, last;
  const auto ways = ways_of(name, target);
  if (ways.empty()) return out;
  enum class reader { group, no_group };
  const auto add = [&](std::vector<int> steps, const graph_step& convolution, reader read_by) {
    std::ranges::sort(steps);
    const auto body = build_body(g, steps);
    if (!body) return;
    auto& into = read_by == reader::group && is_better_apart(*body) ? last : out;
    for (const auto way : ways) {
      if (!may_pay(g, convolution, way, target) || why_not_so(convolution, way) != nullptr ||
          !target.suits_convolution(*body, way))
        continue;
      into.push_back({std::string(name), {{"steps", print_steps(steps)}}});
      if (way == convolution_by_tf32_pairs) into.back().parameters.emplace_back(k_factors, way);
    }
  };
  for (const auto& s : g.steps()) {
    if (!is_free_convolution(s)) continue;
    if (std::vector<int> steps = reductions_behind(g, s); !steps.empty()) {
      steps.push_back(s.number);
      add(std::move(steps), s, reader::no_group);
    }
    for (const int group : groups_behind(g, s)) {
      std::vector<int> steps = g.groups()[static_cast<std::size_t>(group)].steps;
      steps.push_back(s.number);
      add(std::move(steps), s, reader::group);
    }
    add({s.number}, s, reader::no_group);
  }
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

expected<std::string> apply_kernel(graph& g, const move& m, const lowering_target& target) {
  const auto ways = ways_of(m.name, target);
  if (ways.empty()) return fail(errc::invalid_argument, "{} has no such kernels of convolutions", target.name());
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  const auto convolution = std::ranges::find_if(steps, [&](int n) { return is_free_convolution(g.step_at(n)); });
  if (convolution == steps.end())
    return fail(errc::invalid_argument,
                "steps {} contain no convolution that adds up channels and is still a library call",
                print_steps(steps));
  std::vector<int> behind = steps;
  std::erase(behind, *convolution);
  const int number = *convolution;
  std::set<int> groups;
  for (const int n : behind)
    if (const int group = g.step_at(n).group; group >= 0) groups.insert(group);
  if (groups.size() > 1) return fail(errc::invalid_argument, "steps {} are of several groups", print_steps(behind));
  const int into = groups.empty() ? -1 : *groups.begin();
  if (into >= 0 && g.groups()[static_cast<std::size_t>(into)].steps != behind)
    return fail(errc::invalid_argument, "steps {} are not one whole group", print_steps(behind));
  if (into >= 0 && !g.groups()[static_cast<std::size_t>(into)].decided.empty())
    return fail(errc::invalid_argument, "group {} was tuned without the convolution", into);
  std::string_view way = ways.front();
  if (const std::string* const given = find_parameter(m, k_factors)) {
    if (*given != convolution_by_tf32_pairs)
      return fail(errc::invalid_argument, "{}={} is not {}", k_factors, *given, convolution_by_tf32_pairs);
    way = convolution_by_tf32_pairs;
  }
  if (const char* why = why_not_so(g.step_at(number), way); why != nullptr)
    return fail(errc::invalid_argument, "step {} {}", number, why);
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::rows, into));
  g.groups()[static_cast<std::size_t>(group)].options.product_way = way;
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) as a kernel{}{}", group, number,
                     short_operator_name(g.step_at(number).op()), explanation_of(way),
                     behind.empty() ? "" : fmt::format(", with {} after it", operator_names(g, behind)));
}

move_kind kind_of(const char* name, std::vector<std::string> optional, const char* summary) {
  return {.name = name,
          .summary = summary,
          .parameters = {"steps"},
          .optional = std::move(optional),
          .phase = move_phase::implementation,
          .parts = {starting_part::other_implementations},
          .candidates = [name](const graph& g,
                               const lowering_target& target) { return kernel_candidates(name, g, target); },
          .apply = apply_kernel};
}

}  // namespace

std::vector<move_kind> convolution_kernel_moves() {
  return {
      kind_of(k_plain, {},
              "a convolution of few channels, or of groups of few, as a kernel, exact in float32, together with "
              "the group that reads it (cuda): elementwise steps, a reduction, softmax or norm over channels, or sums, "
              "means or a norm over space, of which the kernel makes partial results"),
      kind_of(k_tensor_cores, {std::string(k_factors)},
              "the same, also of transposed convolutions, on tensor cores of compute capability 9.0 (cuda): in TF32 "
              "as the library, or with factors=tf32_pairs as exact as in float32, of a high and a low TF32 part")};
}

}  // namespace cudal1
