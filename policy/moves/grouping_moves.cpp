#include "policy/moves/grouping_moves.hpp"

#include <algorithm>
#include <set>
#include <span>

#include "policy/body/operators/window_operators.hpp"
#include "policy/moves/groups.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

bool is_row_family(operator_family f) {
  return f == operator_family::reduction || f == operator_family::normalization || f == operator_family::scan;
}

bool has_rows(const graph& g, const std::vector<int>& steps) {
  return std::any_of(steps.begin(), steps.end(), [&](int n) { return is_row_family(family_of(g.step_at(n))); });
}

// Whether the moves here put the step into kernels: products and convolutions have moves of their own.
bool is_grouped(const graph_step& s) {
  const operator_family family = family_of(s);
  return family != operator_family::other && family != operator_family::product &&
         family != operator_family::convolution;
}

// Steps that a new group may contain: those in no group, or in a pointwise group that it would absorb.
bool is_free(const graph& g, const graph_step& s) {
  if (s.dropped || !is_grouped(s)) return false;
  return s.group < 0 || g.groups()[static_cast<std::size_t>(s.group)].kind == group_kind::pointwise;
}

// Whether the step copies a value into another order in memory.
bool changes_order(const graph& g, const graph_step& s) {
  if (s.record().kind != operator_kind::copy || s.result_types.size() != 1) return false;
  const auto from = tensor_argument_name(s, "self");
  return from && g.type_of(g.resolve(*from)).strides != s.result_types[0].strides;
}

// Whether a kernel of rows would copy what it reads or makes into another order, at the cost of all its accesses.
bool copies_badly(const graph& g, const std::vector<int>& steps, const lowering_target& target) {
  if (std::ranges::none_of(steps, [&](int n) { return changes_order(g, g.step_at(n)); })) return false;
  const auto body = build_body(g, steps);
  return body && !target.is_coalesced(*body);
}

// Kernels are tried over at most so many consecutive free steps: networks have hundreds.
constexpr std::size_t k_widest = 48;

// Whether no step outside of the set both depends on a step of the set and is needed by another one.
bool is_convex(const std::vector<std::vector<int>>& makers, const std::vector<int>& set) {
  const int first = set.front(), last = set.back();
  std::vector<char> in(static_cast<std::size_t>(last - first) + 1), behind(in.size());
  const auto at = [&](int n) { return static_cast<std::size_t>(n - first); };
  for (const int n : set)
    in[at(n)] = 1;
  for (int n = first; n <= last; ++n) {
    for (const int m : makers[static_cast<std::size_t>(n)]) {
      if (m < first || m > last) continue;
      if (in[at(n)] != 0 && behind[at(m)] != 0) return false;
      if (in[at(n)] == 0 && (in[at(m)] != 0 || behind[at(m)] != 0)) behind[at(n)] = 1;
    }
  }
  return true;
}

// Connected components of steps, built step by step (union-find with path halving).
class components {
 public:
  explicit components(std::size_t steps) : parent_(steps, -1) {}
  void clear(std::span<const int> steps) {
    for (const int n : steps)
      parent_[static_cast<std::size_t>(n)] = -1;
  }
  bool has(int n) const { return parent_[static_cast<std::size_t>(n)] >= 0; }
  void add(int n) { parent_[static_cast<std::size_t>(n)] = n; }
  int find(int n) {
    const auto up = [&](int of) -> int& { return parent_[static_cast<std::size_t>(of)]; };
    for (; up(n) != n; n = up(n))
      up(n) = up(up(n));
    return n;
  }
  void join(int a, int b) { parent_[static_cast<std::size_t>(find(a))] = find(b); }

 private:
  std::vector<int> parent_;
};

// Whether a new group of this set would absorb whole groups only, and is not itself a group already.
bool takes_whole_groups(const graph& g, const std::vector<int>& set) {
  return std::ranges::all_of(set, [&](int n) {
    const int group = g.step_at(n).group;
    if (group < 0) return true;
    const auto& steps = g.groups()[static_cast<std::size_t>(group)].steps;
    return steps.size() < set.size() && std::ranges::includes(set, steps);
  });
}

// All sets that fuse and row_kernel may be tried on, the largest first: for each range of the free steps, the connected
// component that contains its first and its last one.
std::vector<std::vector<int>> candidate_sets(const graph& g, group_kind kind) {
  const bool rows = kind == group_kind::rows;
  std::vector<int> free;
  std::vector<char> has_row(g.steps().size());
  for (const auto& s : g.steps()) {
    if (is_free(g, s)) free.push_back(s.number);
    has_row[static_cast<std::size_t>(s.number)] = is_row_family(family_of(s)) ? 1 : 0;
  }
  const auto& makers = g.makers();
  std::set<std::vector<int>> seen;
  std::vector<std::vector<int>> out;
  components linked_steps(g.steps().size());
  for (std::size_t first = 0; first < free.size(); ++first) {
    const auto stretch = std::span(free).subspan(first, std::min(k_widest, free.size() - first));
    linked_steps.clear(stretch);
    for (std::size_t count = 1; count <= stretch.size(); ++count) {
      const int last = stretch[count - 1];
      linked_steps.add(last);
      for (const int maker : makers[static_cast<std::size_t>(last)]) {
        if (maker >= stretch.front() && linked_steps.has(maker)) linked_steps.join(maker, last);
      }
      const int root = linked_steps.find(last);
      if (linked_steps.find(stretch.front()) != root) continue;
      std::vector<int> set;
      for (const int n : stretch.first(count)) {
        if (linked_steps.find(n) == root) set.push_back(n);
      }
      const bool with_rows = std::ranges::any_of(set, [&](int n) { return has_row[static_cast<std::size_t>(n)] != 0; });
      if (with_rows == rows && takes_whole_groups(g, set) && is_convex(makers, set) && seen.insert(set).second)
        out.push_back(std::move(set));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return out;
}

std::vector<move> as_moves(const std::string& name, const std::vector<std::vector<int>>& sets) {
  std::vector<move> out;
  for (const auto& set : sets)
    out.push_back({name, {{"steps", print_steps(set)}}});
  return out;
}

// Sets that would copy badly come last, when other kernels have been made of most of their steps.
std::vector<move> row_candidates(const graph& g, const lowering_target& target) {
  auto sets = candidate_sets(g, group_kind::rows);
  std::stable_partition(sets.begin(), sets.end(), [&](const auto& set) { return !copies_badly(g, set, target); });
  return as_moves("row_kernel", sets);
}

expected<std::vector<int>> free_steps(const graph& g, const move& m) {
  CUDAL1_TRY(auto steps, steps_parameter(g, m, "steps"));
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    if (!is_grouped(s)) return fail(errc::invalid_argument, "step {} ({}) cannot be part of a kernel", number, s.op());
  }
  return steps;
}

std::string saved_traffic(const graph& g, const std::vector<int>& steps) {
  int64_t bytes = 0;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    for (std::size_t r = 0; r < s.text->results.size(); ++r) {
      if (s.text->results[r].empty() || g.is_output(s.text->results[r])) continue;
      const auto& readers = g.readers(s.text->results[r]);
      const bool inside = std::all_of(readers.begin(), readers.end(),
                                      [&](int n) { return std::find(steps.begin(), steps.end(), n) != steps.end(); });
      if (inside) bytes += 2 * s.result_types[r].bytes();
    }
  }
  if (bytes == 0) return "one pass over its memory";
  return fmt::format("saves writing and reading back {:.1f} MB between operators", static_cast<double>(bytes) / 1e6);
}

expected<std::string> apply_fuse(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const auto steps, free_steps(g, m));
  if (has_rows(g, steps)) return fail(errc::invalid_argument, "the steps contain a reduction: use row_kernel");
  for (const auto& old : g.groups()) {
    if (old.steps == steps) return fail(errc::invalid_argument, "these steps are a group already");
  }
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: {} as one kernel over the elements; {}", group, operator_names(g, steps),
                     saved_traffic(g, steps));
}

expected<std::string> apply_row_kernel(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const auto steps, free_steps(g, m));
  if (!has_rows(g, steps)) return fail(errc::invalid_argument, "the steps contain no reduction: use fuse");
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::rows));
  CUDAL1_CHECK(check_group(g, group, target));
  const bool by_window =
      std::ranges::any_of(steps, [&](int n) { return find_window_operator(g.step_at(n)) != nullptr; });
  return fmt::format("group {}: {} as one kernel that takes a {} at a time; {}", group, operator_names(g, steps),
                     by_window ? "window" : "row", saved_traffic(g, steps));
}

std::vector<move> extension_candidates(const graph& g, const lowering_target& target) {
  std::vector<int> free;
  for (const auto& s : g.steps()) {
    if (is_free(g, s) && family_of(s) == operator_family::pointwise) free.push_back(s.number);
  }
  const auto& makers = g.makers();
  const auto linked = [&](int a, int b) {
    const auto reads = [&](int reader, int maker) {
      return std::ranges::count(makers[static_cast<std::size_t>(reader)], maker) > 0;
    };
    return reads(a, b) || reads(b, a);
  };
  std::vector<move> out;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    const kernel_group& group = g.groups()[i];
    if (group.kind != group_kind::rows || group.steps.empty()) continue;
    std::set<std::vector<int>> seen;
    for (const int limit : free) {
      const int first = std::min(limit, group.steps.front()), last = std::max(limit, group.steps.back());
      std::set<int> in(group.steps.begin(), group.steps.end());
      const auto all = [&] {
        std::vector<int> grown(in.begin(), in.end());
        for (bool grew = true; grew;) {
          grew = false;
          for (const int n : free) {
            if (n < first || n > last || in.contains(n)) continue;
            if (std::any_of(in.begin(), in.end(), [&](int k) { return linked(n, k); })) grew = in.insert(n).second;
          }
        }
        grown.clear();
        for (const int n : in) {
          if (std::find(group.steps.begin(), group.steps.end(), n) == group.steps.end()) grown.push_back(n);
        }
        return grown;
      }();
      std::vector<int> together = group.steps;
      together.insert(together.end(), all.begin(), all.end());
      std::ranges::sort(together);
      if (!all.empty() && seen.insert(all).second && !copies_badly(g, together, target))
        out.push_back({"fuse_into_reduction", {{"group", std::to_string(i)}, {"steps", print_steps(all)}}});
    }
  }
  return out;
}

expected<std::string> apply_extension(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const int group, group_parameter(g, m));
  CUDAL1_TRY(const auto steps, free_steps(g, m));
  kernel_group& rows = g.groups()[static_cast<std::size_t>(group)];
  if (rows.kind != group_kind::rows) return fail(errc::invalid_argument, "group {} contains no reduction", group);
  if (!rows.options.in_place.empty())
    return fail(errc::invalid_argument, "group {} writes in place already; fuse before that", group);
  for (const int number : steps) {
    if (family_of(g.step_at(number)) != operator_family::pointwise)
      return fail(errc::invalid_argument, "step {} ({}) is not pointwise", number, g.step_at(number).op());
    if (g.step_at(number).group == group)
      return fail(errc::invalid_argument, "step {} is in group {} already", number, group);
  }
  CUDAL1_CHECK(make_group(g, steps, group_kind::rows, group));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: its row kernel also computes {}; {}", group, operator_names(g, steps),
                     saved_traffic(g, g.groups()[static_cast<std::size_t>(group)].steps));
}

}  // namespace

std::vector<move_kind> grouping_moves() {
  return {
      {.name = "row_kernel",
       .summary = "a whole softmax, norm, reduction or (cuda) pool, with pointwise operators before and after it, as "
                  "one kernel that takes a row, or a window of the pool, at a time",
       .parameters = {"steps"},
       .phase = move_phase::grouping,
       .order = 0,
       .parts = {starting_part::plain_kernels, starting_part::row_kernels},
       .candidates = row_candidates,
       .apply = apply_row_kernel},
      // Last in order: takes the steps that the other two leave.
      {.name = "fuse",
       .summary = "a chain of pointwise operators as one kernel: each element is read once and written once",
       .parameters = {"steps"},
       .phase = move_phase::grouping,
       .order = 2,
       .parts = {starting_part::plain_kernels, starting_part::elementwise_kernels},
       .candidates = [](const graph& g,
                        const lowering_target&) { return as_moves("fuse", candidate_sets(g, group_kind::pointwise)); },
       .apply = apply_fuse},
      {.name = "fuse_into_reduction",
       .summary = "pointwise operators next to a reduction become part of its kernel",
       .parameters = {"group", "steps"},
       .phase = move_phase::grouping,
       .order = 1,
       .candidates = extension_candidates,
       .apply = apply_extension},
  };
}

}  // namespace cudal1
