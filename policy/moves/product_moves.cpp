#include "policy/moves/product_moves.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "policy/codegen/product_operators.hpp"
#include "policy/graph/alignment.hpp"
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

// The left factor of a product.
std::string left_factor(const graph& g, const graph_step& s) {
  return g.resolve(*tensor_argument_name(s, find_product_signature(s.op())->left));
}

// Groups that read several products of one left factor, with these.
std::vector<std::vector<int>> groups_with_products(const graph& g) {
  std::vector<std::vector<int>> out;
  for (const auto& group : g.groups()) {
    if (group.steps.empty() || group.kind == group_kind::product) continue;
    std::map<std::string, std::set<int>> of_factor;
    for (const int n : group.steps)
      for (const int maker : g.makers()[static_cast<std::size_t>(n)])
        if (is_free_product(g.step_at(maker))) of_factor[left_factor(g, g.step_at(maker))].insert(maker);
    for (const auto& [factor, products] : of_factor) {
      if (products.size() < 2 || products.size() > most_products) continue;
      out.push_back(group.steps);
      out.back().insert(out.back().end(), products.begin(), products.end());
      std::ranges::sort(out.back());
    }
  }
  return out;
}

bool is_free_slice(const graph& g, const graph_step& s) {
  return !s.dropped && s.group < 0 && place_of_slice(g, s, 0).has_value();
}

// The product with the slices that are all that reads it and the one group that reads these; empty where there are
// others.
std::vector<int> product_in_slices(const graph& g, const graph_step& product) {
  std::vector<int> out = {product.number};
  int group = -1;
  for (const int slice : g.readers(product.text->results[0])) {
    if (!is_free_slice(g, g.step_at(slice))) return {};
    out.push_back(slice);
    for (const auto& value : g.step_at(slice).text->results)
      for (const int reader : g.readers(value)) {
        if (g.step_at(reader).group < 0 || (group >= 0 && g.step_at(reader).group != group)) return {};
        group = g.step_at(reader).group;
      }
  }
  if (group < 0) return {};
  const auto& steps = g.groups()[static_cast<std::size_t>(group)].steps;
  out.insert(out.end(), steps.begin(), steps.end());
  std::ranges::sort(out);
  return out;
}

// The steps with the group that makes the left factor of the products among them, if these are all that reads it; else
// none.
std::vector<int> with_group_in_front(const graph& g, const std::vector<int>& steps) {
  const auto product = std::ranges::find_if(steps, [&](int n) { return is_free_product(g.step_at(n)); });
  const std::string factor = left_factor(g, g.step_at(*product));
  const graph_step* maker = g.producer(factor);
  if (maker == nullptr || maker->group < 0 || g.is_output(factor)) return {};
  const auto& front = g.groups()[static_cast<std::size_t>(maker->group)];
  const auto is_among = [&](int n) { return std::ranges::count(steps, n) > 0; };
  if (front.kind != group_kind::pointwise || is_among(maker->number) ||
      !std::ranges::all_of(g.readers(factor), is_among))
    return {};
  std::vector<int> out = steps;
  std::ranges::copy(front.steps, std::back_inserter(out));
  return out;
}

// Sets of steps that may be a kernel with a product: products of one left factor with the group that reads them, a
// product whose slices a group reads with it, a product with the group that reads it, and the product alone.
std::vector<std::vector<int>> sets_with_products(const graph& g) {
  auto out = groups_with_products(g);
  for (const auto& s : g.steps())
    if (is_free_product(s))
      if (auto steps = product_in_slices(g, s); !steps.empty()) out.push_back(std::move(steps));
  for (const auto& s : g.steps()) {
    if (!is_free_product(s)) continue;
    std::set<int> groups;
    for (const int reader : g.readers(s.text->results[0]))
      if (const int group = g.step_at(reader).group; group >= 0) groups.insert(group);
    for (const int group : groups) {
      out.push_back(g.groups()[static_cast<std::size_t>(group)].steps);
      out.back().push_back(s.number);
    }
    out.push_back({s.number});
  }
  return out;
}

// Each set in every form, what should be the fastest first, and also with what is in front of the product: before it
// where that is no reason for another form.
std::vector<move> product_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  const auto forms_of = [&](std::vector<int>& steps) {
    std::ranges::sort(steps);
    const auto body = steps.empty() ? fail(errc::unsupported, "") : build_body(g, steps);
    return body ? target.forms_of(*body) : std::vector<product_form>();
  };
  const auto add = [&](const std::vector<int>& steps, const std::vector<product_form>& forms) {
    for (const auto form : forms) {
      out.push_back({"product_kernel", {{"steps", print_steps(steps)}}});
      if (const auto* const named = std::ranges::find(k_forms, form, &named_form::form); named != k_forms.end())
        out.back().parameters.emplace_back(named->parameter, named->value);
    }
  };
  for (auto& steps : sets_with_products(g)) {
    auto whole = with_group_in_front(g, steps);
    const auto forms = forms_of(steps), of_whole = forms_of(whole);
    const bool is_first = !forms.empty() && !of_whole.empty() && forms.front() == of_whole.front();
    if (is_first) add(whole, of_whole);
    add(steps, forms);
    if (!is_first) add(whole, of_whole);
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

struct steps_of_kernel {
  std::vector<int> products, slices;
  std::vector<int> front, behind;  // a whole group each, or none
};

// errc::invalid_argument with the reason where the steps are not products of one left factor, with their slices, and at
// most a whole group in front of them and one behind.
expected<steps_of_kernel> sorted_steps(const graph& g, const std::vector<int>& steps) {
  steps_of_kernel out;
  std::map<int, std::vector<int>> groups;
  for (const int n : steps) {
    const graph_step& s = g.step_at(n);
    if (is_free_product(s))
      out.products.push_back(n);
    else if (is_free_slice(g, s))
      out.slices.push_back(n);
    else
      groups[s.group].push_back(n);
  }
  if (out.products.empty())
    return fail(errc::invalid_argument, "the steps contain no product that is still a library call");
  const graph_step* maker = g.producer(left_factor(g, g.step_at(out.products.front())));
  for (auto& [number, members] : groups) {
    if (number < 0 || g.groups()[static_cast<std::size_t>(number)].steps != members)
      return fail(errc::invalid_argument, "steps {} are not one whole group", print_steps(members));
    const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
    if (group.kind == group_kind::product || !group.decided.empty())
      return fail(errc::invalid_argument, "group {} has a product, or was tuned without it", number);
    auto& place = maker != nullptr && std::ranges::count(members, maker->number) > 0 ? out.front : out.behind;
    if (!place.empty())
      return fail(errc::invalid_argument, "steps {} and {} are two groups", print_steps(place), print_steps(members));
    place = std::move(members);
  }
  return out;
}

// One or several products with what is in front of them and behind them.
expected<std::string> apply_product(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  CUDAL1_TRY(const auto sorted, sorted_steps(g, steps));
  const int number = sorted.products.front();
  const int into = sorted.behind.empty() ? -1 : g.step_at(sorted.behind.front()).group;
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::product, into));
  CUDAL1_TRY(const product_form form, form_of(m));
  const dtype type = g.step_at(number).result_types[0].type;
  if (type != dtype::float32 && std::ranges::find(m.parameters, k_factors, name_of_parameter) != m.parameters.end())
    return fail(errc::invalid_argument, "only the factors of a float32 product are split, not those of step {}",
                number);
  g.groups()[static_cast<std::size_t>(group)].options.form = form;
  CUDAL1_CHECK(check_group(g, group, target));
  const auto with = [&](const char* how, const std::vector<int>& others) {
    return others.empty() ? "" : fmt::format(", with {} {}", operator_names(g, others), how);
  };
  return fmt::format("group {}: step{} {} ({}) {}{}{}{}", group, sorted.products.size() == 1 ? "" : "s",
                     print_steps(sorted.products), operator_names(g, sorted.products),
                     form == product_form::thread_sums ? "without tensor cores" : "on tensor cores",
                     with("in front of it", sorted.front), with("after it", sorted.behind), explanation_of(form, type));
}

}  // namespace

std::vector<move_kind> product_moves() {
  return {
      {.name = "product_kernel",
       .summary =
           "a matrix product as a kernel on tensor cores, which keeps float32's precision (cuda), together with the "
           "group that reads it and the one that makes its left factor, also two or four products of one left "
           "factor, or one and its slices; factors=halves, for large ones, multiplies scaled halves, which other "
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
