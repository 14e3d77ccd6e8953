#include "policy/moves/product_moves.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

#include "policy/body/matrix_product.hpp"
#include "policy/body/operators/feature_pools.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

bool is_free_product(const graph_step& s) {
  return !s.dropped && s.group < 0 && family_of(s) == operator_family::product;
}

constexpr const char *k_factors = "factors", *k_depth = "depth", *k_by = "by", *k_rows = "rows",
                     *k_clusters = "clusters";
// The parameters that say how the kernel makes the product.
constexpr std::array<const char*, 3> k_ways{k_factors, k_depth, k_by};
// What float32 operands are split into in the usual way, for people who would rather say it.
constexpr const char* k_usual_factors = "tf32";

// The step that makes an operand of the first product among these, which nothing but these steps reads; null where
// there is none.
const graph_step* maker_of_operand(const graph& g, const std::vector<int>& steps) {
  const auto is_among = [&](int n) { return std::ranges::count(steps, n) > 0; };
  const auto product = std::ranges::find_if(steps, [&](int n) { return is_free_product(g.step_at(n)); });
  for (const auto& operand : product_operands(g, g.step_at(*product))) {
    const graph_step* maker = g.producer(operand);
    if (maker != nullptr && !is_among(maker->number) && !g.is_output(operand) &&
        std::ranges::all_of(g.readers(operand), is_among))
      return maker;
  }
  return nullptr;
}

// Groups that read several products of one A, with these.
std::vector<std::vector<int>> groups_with_products(const graph& g) {
  std::vector<std::vector<int>> out;
  for (const auto& group : g.groups()) {
    if (group.steps.empty() || group.kind == group_kind::product) continue;
    std::map<std::string, std::set<int>> of_a;
    for (const int n : group.steps)
      for (const int maker : g.makers()[static_cast<std::size_t>(n)])
        if (is_free_product(g.step_at(maker))) of_a[product_operands(g, g.step_at(maker))[0]].insert(maker);
    for (const auto& [a, products] : of_a) {
      if (products.size() < 2 || products.size() > most_products) continue;
      out.push_back(group.steps);
      out.back().insert(out.back().end(), products.begin(), products.end());
      std::ranges::sort(out.back());
    }
  }
  return out;
}

// A step of no kernel that takes a slice of a product, pools its features or only adds or removes dimensions of size 1.
bool is_free_part(const graph& g, const graph_step& s) {
  if (s.dropped || s.group >= 0) return false;
  return place_of_slice(g, s, 0).has_value() || pool_of_features(g, s).has_value() || is_unit_view(g, s);
}

// What reads a value of a product: other steps of its kernel, or none of them.
class followers {
 public:
  followers(const graph& g, const graph_step& product) : g_(&g), steps_{product.number} { follow(product.number); }

  // The product with the slices or pools that are all that reads it, and the group that reads these or pools it
  // itself; also with a second group, which reads what the first one pooled. The largest set first; none where other
  // steps read the product.
  std::vector<std::vector<int>> sets() const {
    if (is_read_elsewhere_ || !has_parts_ || groups_.empty() || groups_.size() > 2) return {};
    std::vector<std::vector<int>> out = {{steps_.begin(), steps_.end()}};
    if (groups_.size() == 1) return out;
    std::vector<int> first = out.front();
    const auto& second = g_->groups()[static_cast<std::size_t>(groups_.back())].steps;
    std::erase_if(first, [&](int n) { return std::ranges::binary_search(second, n); });
    out.push_back(std::move(first));
    return out;
  }

 private:
  enum class place { whole, cut, pooled };

  // Adds what reads the step's values. What is pooled other steps may read, too.
  void follow(int number, place at = place::whole) {
    for (const auto& value : g_->step_at(number).text->results)
      for (const int reader : g_->readers(value)) {
        const graph_step& s = g_->step_at(reader);
        place next = at;
        if (place_of_slice(*g_, s, 0)) next = place::cut;
        if (pool_of_features(*g_, s)) next = place::pooled;
        has_parts_ |= next != place::whole;
        if (is_free_part(*g_, s)) {
          if (steps_.insert(reader).second) follow(reader, next);
        } else if (s.group >= 0 && next != place::whole) {
          add_group(s.group);
        } else if (at != place::pooled) {
          is_read_elsewhere_ = true;
        }
      }
  }

  void add_group(int group) {
    if (std::ranges::count(groups_, group) > 0) return;
    groups_.push_back(group);
    const auto& steps = g_->groups()[static_cast<std::size_t>(group)].steps;
    steps_.insert(steps.begin(), steps.end());
    const auto pools = [&](int n) { return pool_of_features(*g_, g_->step_at(n)).has_value(); };
    if (std::ranges::none_of(steps, pools)) return;
    for (const int n : steps)
      follow(n, place::pooled);
  }

  const graph* g_;
  std::set<int> steps_;
  std::vector<int> groups_;
  bool has_parts_ = false, is_read_elsewhere_ = false;
};

// The steps with the group that makes an operand of the products among them, if these are all that reads it; else none.
std::vector<int> with_group_in_front(const graph& g, const std::vector<int>& steps) {
  const graph_step* maker = maker_of_operand(g, steps);
  if (maker == nullptr || maker->group < 0) return {};
  const auto& front = g.groups()[static_cast<std::size_t>(maker->group)];
  if (front.kind != group_kind::pointwise) return {};
  std::vector<int> out = steps;
  std::ranges::copy(front.steps, std::back_inserter(out));
  return out;
}

// The steps with one more product that makes an operand of theirs, or what the group in front of it reads, and that
// nothing else reads; else none. `with_front`: with_group_in_front, if that is not empty.
std::vector<int> with_product_in_front(const graph& g, const std::vector<int>& steps,
                                       const std::vector<int>& with_front) {
  const auto& all = with_front.empty() ? steps : with_front;
  const auto is_among = [&](int n) { return std::ranges::count(all, n) > 0; };
  std::set<int> found;
  const auto look_at = [&](const graph_step* maker) {
    if (maker != nullptr && is_free_product(*maker) && !is_among(maker->number)) found.insert(maker->number);
  };
  look_at(maker_of_operand(g, steps));
  for (const int n : with_front)
    if (std::ranges::count(steps, n) == 0)
      for (const int maker : g.makers()[static_cast<std::size_t>(n)])
        look_at(&g.step_at(maker));
  if (found.size() != 1) return {};
  const std::string& value = g.step_at(*found.begin()).text->results[0];
  if (g.is_output(value) || !std::ranges::all_of(g.readers(value), is_among)) return {};
  std::vector<int> out = all;
  out.push_back(*found.begin());
  return out;
}

// Sets of steps that may be a kernel with a product: products of one A with the group that reads them, a product whose
// slices a group reads, or whose features it pools, with it, a product with the group that reads it, and the product
// alone.
std::vector<std::vector<int>> sets_with_products(const graph& g) {
  auto out = groups_with_products(g);
  for (const auto& s : g.steps())
    if (is_free_product(s)) std::ranges::move(followers(g, s).sets(), std::back_inserter(out));
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

// Kernels of each set in every way, with and without clusters, what should be the fastest first, and also with what is
// in front of the product: before it where that is no reason for another one.
std::vector<move> product_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  const auto choices_of = [&](std::vector<int>& steps) {
    std::ranges::sort(steps);
    const auto body = steps.empty() ? fail(errc::unsupported, "") : build_body(g, steps);
    return body ? target.product_choices(*body) : std::vector<product_choice>();
  };
  const auto add = [&](const std::vector<int>& steps, const std::vector<product_choice>& choices) {
    for (const auto& [parameter, value, clusters] : choices) {
      out.push_back({"product_kernel", {{"steps", print_steps(steps)}}});
      if (!value.empty()) out.back().parameters.emplace_back(parameter, value);
      if (clusters) out.back().parameters.emplace_back(k_rows, k_clusters);
    }
  };
  for (auto& steps : sets_with_products(g)) {
    auto whole = with_group_in_front(g, steps);
    auto chain = with_product_in_front(g, steps, whole);
    add(chain, choices_of(chain));
    const auto choices = choices_of(steps), of_whole = choices_of(whole);
    const bool is_first = !choices.empty() && !of_whole.empty() && choices.front() == of_whole.front();
    if (is_first) add(whole, of_whole);
    add(steps, choices);
    if (!is_first) add(whole, of_whole);
  }
  return out;
}

// "warpgroups or threads": what a parameter may be.
std::string values_of(std::string_view parameter, const lowering_target& target) {
  std::vector<std::string> out;
  for (const auto& way : target.product_ways())
    if (way.parameter == parameter) out.emplace_back(way.value);
  if (parameter == k_factors) out.emplace_back(k_usual_factors);
  return fmt::format("{}", fmt::join(out, " or "));
}

// The way that the move names, or the usual one. A target without ways refuses products later.
expected<product_way> way_of(const move& m, const lowering_target& target) {
  const auto ways = target.product_ways();
  const product_way* named = nullptr;
  for (const auto& [name, value] : m.parameters) {
    if (std::ranges::find(k_ways, std::string_view(name)) == k_ways.end()) continue;
    if (name == k_factors && value == k_usual_factors) continue;
    if (ways.empty())
      return fail(errc::unsupported, "{}={}: kernels for {} have only one way to make products", name, value,
                  target.name());
    const auto found = std::ranges::find(ways, std::pair<std::string_view, std::string_view>(name, value),
                                         [](const product_way& w) { return std::pair(w.parameter, w.value); });
    if (found == ways.end())
      return fail(errc::invalid_argument, "{}={} is not {}", name, value, values_of(name, target));
    if (named != nullptr)
      return fail(errc::invalid_argument, "{}={} excludes {}={}", named->parameter, named->value, name, value);
    named = &*found;
  }
  if (named != nullptr) return *named;
  const auto usual = std::ranges::find(ways, "", &product_way::value);
  return usual == ways.end() ? product_way() : *usual;
}

expected<bool> has_clusters(const move& m) {
  const std::string* const given = find_parameter(m, k_rows);
  if (given == nullptr) return false;
  if (*given != k_clusters) return fail(errc::invalid_argument, "{}={} is not {}", k_rows, *given, k_clusters);
  return true;
}

struct steps_of_kernel {
  std::vector<int> products;
  std::vector<int> front;           // a whole group, or none
  std::vector<int> behind, groups;  // the steps of whole groups, and their numbers
};

// errc::invalid_argument with the reason where the steps are not products of one A, with their slices or pools, at most
// a whole group in front of them and whole groups behind.
expected<steps_of_kernel> sorted_steps(const graph& g, const std::vector<int>& steps) {
  steps_of_kernel out;
  std::map<int, std::vector<int>> groups;
  for (const int n : steps) {
    const graph_step& s = g.step_at(n);
    if (is_free_product(s))
      out.products.push_back(n);
    else if (!is_free_part(g, s))
      groups[s.group].push_back(n);
  }
  if (out.products.empty())
    return fail(errc::invalid_argument, "the steps contain no product that is still a library call");
  std::set<int> makers;
  for (const auto& operand : product_operands(g, g.step_at(out.products.back())))
    if (const graph_step* maker = g.producer(operand)) makers.insert(maker->number);
  for (auto& [number, members] : groups) {
    if (number < 0 || g.groups()[static_cast<std::size_t>(number)].steps != members)
      return fail(errc::invalid_argument, "steps {} are not one whole group", print_steps(members));
    const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
    if (group.kind == group_kind::product || !group.decided.empty())
      return fail(errc::invalid_argument, "group {} has a product, or was tuned without it", number);
    if (out.front.empty() && std::ranges::any_of(members, [&](int n) { return makers.contains(n); })) {
      out.front = std::move(members);
      continue;
    }
    out.behind.insert(out.behind.end(), members.begin(), members.end());
    out.groups.push_back(number);
  }
  std::ranges::sort(out.behind);
  return out;
}

// One or several products with their prologue and epilogue.
expected<std::string> apply_product(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  CUDAL1_TRY(const auto sorted, sorted_steps(g, steps));
  const int number = sorted.products.front();
  const int into = sorted.groups.empty() ? -1 : sorted.groups.front();
  for (const int other : sorted.groups)
    if (other != into) dissolve_group(g, other);
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::product, into));
  CUDAL1_TRY(const product_way way, way_of(m, target));
  const dtype type = g.step_at(number).result_types[0].type;
  if (type != dtype::float32 && find_parameter(m, k_factors) != nullptr)
    return fail(errc::invalid_argument, "only the operands of a float32 product are split, not those of step {}",
                number);
  CUDAL1_TRY(const bool clusters, has_clusters(m));
  kernel_options& options = g.groups()[static_cast<std::size_t>(group)].options;
  options.product_way = way.value;
  if (clusters) options.choose(kernel_tunable::clusters, 1);
  CUDAL1_CHECK(check_group(g, group, target));
  const auto with = [&](const char* how, const std::vector<int>& others) {
    return others.empty() ? "" : fmt::format(", with {} {}", operator_names(g, others), how);
  };
  return fmt::format("group {}: step{} {} ({}) {}{}{}{}{}", group, sorted.products.size() == 1 ? "" : "s",
                     print_steps(sorted.products), operator_names(g, sorted.products),
                     way.tensor_cores ? "on tensor cores" : "without tensor cores",
                     with("in front of it", sorted.front), with("after it", sorted.behind),
                     type == dtype::float32 ? way.float32_explanation : way.explanation,
                     clusters ? "; clusters of blocks hold the rows" : "");
}

}  // namespace

std::vector<move_kind> product_moves() {
  return {
      {.name = "product_kernel",
       .summary =
           "a matrix product as a kernel on tensor cores, which keeps float32's precision (cuda), together with the "
           "group that reads it and the one that makes its A, also two or four products of one A, or one and its "
           "slices, or with a pool over its features; factors=halves, for large ones, multiplies scaled halves of the "
           "operands, which other kernels make; depth=warps, for small ones, gives each warp a slice of k; "
           "by=warpgroups, for large ones of half types, multiplies by wgmma; by=threads, for a small k, uses no "
           "tensor cores, and may begin with another product; rows=clusters lets the blocks of a cluster hold the rows "
           "of a softmax or norm after it together",
       .parameters = {"steps"},
       .optional = {k_factors, k_depth, k_by, k_rows},
       .phase = move_phase::implementation,
       .order = -1,  // before the others: the epilogue is not a kernel of its own
       .parts = {starting_part::other_implementations},
       .candidates = product_candidates,
       .apply = apply_product}};
}

}  // namespace cudal1
