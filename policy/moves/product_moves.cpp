#include "policy/moves/product_moves.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

bool is_free_product(const graph_step& s) {
  return !s.dropped && s.group < 0 && family_of(s) == operator_family::product;
}

// A form of the product's kernel other than tiles that warps multiply.
struct named_form {
  product_form form;
  const char *parameter, *value;
};

constexpr const char *k_factors = "factors", *k_depth = "depth", *k_by = "by";
constexpr std::array<named_form, 4> k_forms{{{product_form::scaled_halves, k_factors, "halves"},
                                             {product_form::depth_of_warps, k_depth, "warps"},
                                             {product_form::warpgroup_tiles, k_by, "warpgroups"},
                                             {product_form::thread_sums, k_by, "threads"}}};

// The product with the group that reads it, and the product alone, each in every form, what should be the fastest
// first.
std::vector<move> product_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  std::vector<product_form> forms;
  const auto add = [&](std::vector<int> steps) {
    std::ranges::sort(steps);
    for (const auto form : forms) {
      out.push_back({"product_kernel", {{"steps", print_steps(steps)}}});
      if (const auto* const named = std::ranges::find(k_forms, form, &named_form::form); named != k_forms.end())
        out.back().parameters.emplace_back(named->parameter, named->value);
    }
  };
  for (const auto& s : g.steps()) {
    if (!is_free_product(s)) continue;
    const auto body = build_body(g, {s.number});
    forms = body ? target.forms_of(*body) : std::vector<product_form>();
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

const std::string& name_of_parameter(const std::pair<std::string, std::string>& p) {
  return p.first;
}

// "warpgroups or threads": what a parameter may be.
std::string values_of(std::string_view parameter) {
  std::vector<std::string> out;
  for (const auto& f : k_forms)
    if (f.parameter == parameter) out.emplace_back(f.value);
  if (parameter == k_factors) out.emplace_back("tf32");
  return fmt::format("{}", fmt::join(out, " or "));
}

expected<product_form> form_of(const move& m) {
  const named_form* out = nullptr;
  for (const auto& [name, value] : m.parameters) {
    if (std::ranges::find(k_forms, name, &named_form::parameter) == k_forms.end()) continue;
    if (name == k_factors && value == "tf32") continue;
    const auto* const named = std::ranges::find(k_forms, value, &named_form::value);  // no two have the same
    if (named == k_forms.end() || named->parameter != name)
      return fail(errc::invalid_argument, "{}={} is not {}", name, value, values_of(name));
    if (out != nullptr)
      return fail(errc::invalid_argument, "{}={} excludes {}={}", out->parameter, out->value, name, value);
    out = named;
  }
  return out == nullptr ? product_form::tiles : out->form;
}

std::string_view explanation_of(product_form form, dtype type) {
  if (form == product_form::scaled_halves) return ": each factor is a high and a low half, scaled by a power of two";
  if (form == product_form::warpgroup_tiles) return ": four warps each multiply tiles in shared memory at once";
  if (form == product_form::thread_sums) return ": each thread adds up the few terms of its elements";
  const bool split = type == dtype::float32;
  if (form == product_form::depth_of_warps)
    return split ? ": each warp multiplies other terms, from memory, as a high and a low TF32 part"
                 : ": each warp multiplies other terms, from memory";
  return split ? ": each factor is a high and a low TF32 part" : "";
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
  CUDAL1_TRY(const product_form form, form_of(m));
  const dtype type = g.step_at(number).result_types[0].type;
  if (type != dtype::float32 && std::ranges::find(m.parameters, k_factors, name_of_parameter) != m.parameters.end())
    return fail(errc::invalid_argument, "only the factors of a float32 product are split, not those of step {}",
                number);
  g.groups()[static_cast<std::size_t>(group)].options.form = form;
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) {}{}{}", group, number, g.step_at(number).op(),
                     form == product_form::thread_sums ? "without tensor cores" : "on tensor cores",
                     others.empty() ? "" : ", with " + operator_names(g, others) + " after it",
                     explanation_of(form, type));
}

}  // namespace

std::vector<move_kind> product_moves() {
  return {{.name = "product_kernel",
           .summary =
               "a matrix product as a kernel on tensor cores, which keeps float32's precision, together with the "
               "group that reads it (cuda); factors=halves, for large ones, multiplies scaled halves, which other "
               "kernels make of the operands; depth=warps, for small ones, gives each warp other terms; by=warpgroups, "
               "for large ones of half types, multiplies by wgmma; by=threads, for few terms, uses no tensor cores",
           .parameters = {"steps"},
           .optional = {k_factors, k_depth, k_by},
           .phase = move_phase::implementation,
           .order = -1,  // before the others: what follows the product is not a kernel of its own
           .parts = {starting_part::other_implementations},
           .candidates = product_candidates,
           .apply = apply_product}};
}

}  // namespace cudal1
