#include "policy/moves/product_moves.hpp"

#include <algorithm>
#include <set>

#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

bool is_free_product(const graph_step& s) {
  return !s.dropped && s.group < 0 && family_of(s) == operator_family::product;
}

constexpr const char* k_halves = "halves";

// The product with the group that reads it, and the product alone, each with its factors in every way, what should be
// the fastest first.
std::vector<move> product_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  std::vector<product_factors> ways;
  const auto add = [&](std::vector<int> steps) {
    std::ranges::sort(steps);
    for (const auto way : ways) {
      out.push_back({"product_kernel", {{"steps", print_steps(steps)}}});
      if (way == product_factors::scaled_halves) out.back().parameters.emplace_back("factors", k_halves);
    }
  };
  for (const auto& s : g.steps()) {
    if (!is_free_product(s)) continue;
    const auto body = build_body(g, {s.number});
    ways = body ? target.factors_of(*body) : std::vector<product_factors>();
    std::set<int> groups;
    for (const int reader : g.readers(s.text->results[0]))
      if (const int group = g.step_at(reader).group; group >= 0) groups.insert(group);
    for (const int group : groups) {
      auto steps = g.groups()[static_cast<std::size_t>(group)].steps;
      steps.push_back(s.number);
      add(std::move(steps));
    }
    add({s.number});
  }
  return out;
}

expected<bool> in_halves(const move& m) {
  const auto given = std::ranges::find(m.parameters, "factors", [](const auto& p) { return p.first; });
  if (given == m.parameters.end() || given->second == "tf32") return false;
  if (given->second == k_halves) return true;
  return fail(errc::invalid_argument, "factors={} is neither {} nor tf32", given->second, k_halves);
}

// One product and, where there are others, a whole group.
expected<std::string> apply_product(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  const auto product = std::ranges::find_if(steps, [&](int n) { return is_free_product(g.step_at(n)); });
  if (product == steps.end())
    return fail(errc::invalid_argument, "the steps contain no product that is still a library call");
  const int number = *product;
  std::vector<int> others = steps;
  std::erase(others, number);
  int group = -1;
  if (!others.empty()) {
    group = g.step_at(others.front()).group;
    if (group < 0 || g.groups()[static_cast<std::size_t>(group)].steps != others)
      return fail(errc::invalid_argument, "steps {} are not one whole group", print_steps(others));
    kernel_group& whole = g.groups()[static_cast<std::size_t>(group)];
    if (whole.kind == group_kind::product || !whole.decided.empty())
      return fail(errc::invalid_argument, "group {} has a product, or was tuned without it", group);
    whole.kind = group_kind::product;
  }
  CUDAL1_TRY(group, make_group(g, {number}, group_kind::product, group));
  CUDAL1_TRY(const bool halves, in_halves(m));
  if (m.parameters.size() > 1 && g.step_at(number).result_types[0].type != dtype::float32)
    return fail(errc::invalid_argument, "only the factors of a float32 product are split, not those of step {}",
                number);
  g.groups()[static_cast<std::size_t>(group)].options.scaled_halves = halves;
  CUDAL1_CHECK(check_group(g, group, target));
  const auto& s = g.step_at(number);
  return fmt::format("group {}: step {} ({}) on tensor cores{}{}", group, number, s.op(),
                     others.empty() ? "" : ", with " + operator_names(g, others) + " after it",
                     s.result_types[0].type != dtype::float32 ? ""
                     : halves ? ": each factor is a high and a low half, scaled by a power of two"
                              : ": each factor is a high and a low TF32 part");
}

}  // namespace

std::vector<move_kind> product_moves() {
  return {{.name = "product_kernel",
           .summary =
               "a matrix product as a kernel on tensor cores, which keeps float32's precision, together with the "
               "group that reads it (cuda); factors=halves, for large ones, multiplies scaled halves, which other "
               "kernels make of the operands",
           .parameters = {"steps"},
           .optional = {"factors"},
           .phase = move_phase::implementation,
           .order = -1,  // before the others: what follows the product is not a kernel of its own
           .parts = {starting_part::other_implementations},
           .candidates = product_candidates,
           .apply = apply_product}};
}

}  // namespace cudal1
