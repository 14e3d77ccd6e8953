#include "policy/search/starting_schedules.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "policy/graph/channels_last.hpp"
#include "policy/graph/float32_convolutions.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

using kind_list = std::vector<const move_kind*>;

// Schedules of all legal moves of some kinds, kind after kind. Common prefixes of the lists are built once.
class schedules_of_kinds {
 public:
  schedules_of_kinds(const task& t, const lowering_target& target) {
    made_.emplace(kind_list{}, schedule_builder(t, target));
  }
  const schedule_builder& of(const kind_list& kinds) {
    if (const auto known = made_.find(kinds); known != made_.end()) return known->second;
    schedule_builder out = of({kinds.begin(), kinds.end() - 1});
    out.add_all(*kinds.back());
    return made_.emplace(kinds, std::move(out)).first->second;
  }

 private:
  std::map<kind_list, schedule_builder> made_;
};

// The schedule of each list, without those whose program an earlier one has.
std::vector<schedule> distinct(const task& t, const lowering_target& target, const std::vector<kind_list>& lists) {
  std::vector<schedule> out;
  std::set<std::string> programs;
  schedules_of_kinds all(t, target);
  for (const auto& kinds : lists) {
    const schedule_builder& b = all.of(kinds);
    if (b.moves().moves.empty()) continue;
    const auto result = b.lowered_program();
    if (result && programs.insert(program_id(*result)).second) out.push_back(b.moves());
  }
  return out;
}

// All kinds of moves of some phases, except `but`.
kind_list kinds_of(std::initializer_list<move_phase> phases, const kind_list& but = {}) {
  kind_list out;
  for (const move_phase phase : phases) {
    for (const move_kind* kind : moves_of(phase)) {
      if (std::ranges::count(but, kind) == 0) out.push_back(kind);
    }
  }
  return out;
}

// The list with further kinds behind it.
kind_list joined(kind_list list, const kind_list& behind) {
  std::ranges::copy(behind, std::back_inserter(list));
  return list;
}

bool applies(const move_kind* kind, const graph& g, const lowering_target& target) {
  return !kind->candidates(g, target).empty();
}

// The list with convolutions in float32 behind the moves that make convolutions of other layers, where the library may
// compute what they make in TF32, but not what the task has.
kind_list in_float32(const kind_list& base) {
  const move_kind* const exact = find_move("float32_convolutions");
  const auto behind = std::ranges::find_if(base, [&](const move_kind* kind) {
    return kind->phase != move_phase::preparation || kind->order > exact->order;
  });
  kind_list out(base.begin(), behind);
  out.push_back(exact);
  out.insert(out.end(), behind, base.end());
  return out;
}

// Whether the library may compute a convolution of the task in float32 although it may use TF32: cuDNN has no kernels
// on tensor cores for some of them.
bool may_be_in_float32(const graph& g) {
  const auto& p = g.origin().reference;
  return std::ranges::any_of(convolutions_without_precision(p), [&](int step) {
    const operator_call& call = p.calls[static_cast<std::size_t>(step)];
    const bool in_groups = work_parts::integer_of(call, "groups", 1) > 1;
    const bool by_several =
        std::ranges::any_of(work_parts::windows_of(call, p.results[static_cast<std::size_t>(step)][0].type),
                            [](const auto& w) { return w.stride > 1; });
    return (work_parts::is_transposed(call) && (in_groups || by_several)) || !convolves_by_fours(call);
  });
}

// Kinds of moves up to the kernels of steps. The biases of convolutions apart, which costs nothing; with layers of one
// input as one layer as well; with other orders in memory: there the library's convolutions also do what follows at no
// cost; and, in both orders, with layers that are computed as others, all or one kind of them, and with products in
// place of unit kernels.
std::vector<kind_list> bases_of(const graph& g, const lowering_target& target) {
  using enum move_phase;
  const move_kind *const reorders = find_move("channels_last"), *const joins = find_move("join_layers"),
                         *const multiplies = find_move("multiply_unit_kernels"),
                         *const exact = find_move("float32_convolutions"),
                         *const separates = find_move("separate_statistics");
  kind_list rewrites = moves_of(starting_part::rewritten_layers);
  const kind_list all_rewrites = joined(rewrites, {multiplies});
  const auto all_but = [exact, separates](const kind_list& without) {
    return kinds_of({preparation, always, grouping}, joined(without, {exact, separates}));
  };
  const bool has_orders = applies(reorders, g, target);
  std::vector<kind_list> out = {all_but(joined(all_rewrites, {reorders, joins}))};
  if (applies(joins, g, target)) out.push_back(all_but(joined(all_rewrites, {reorders})));
  if (has_orders) {
    out.push_back(joined(all_but(all_rewrites), {find_move("library_activation")}));
    out.push_back(all_but(all_rewrites));
  }
  const auto add_in_both_orders = [&](const kind_list& but) {
    out.push_back(all_but(joined(but, {reorders})));
    if (has_orders) out.push_back(all_but(but));
  };
  graph last = g;  // where dimensions may be one that are not in the task's order
  if (has_orders && !apply_move(last, reorders->candidates(g, target).front(), target)) last = g;
  std::erase_if(rewrites,
                [&](const move_kind* kind) { return !applies(kind, g, target) && !applies(kind, last, target); });
  if (!rewrites.empty()) add_in_both_orders({multiplies});
  for (const move_kind* alone : rewrites) {
    if (rewrites.size() < 2) break;
    kind_list others = joined(rewrites, {multiplies});
    std::erase(others, alone);
    add_in_both_orders(others);
  }
  if (applies(multiplies, g, target)) add_in_both_orders({});
  return out;
}

}  // namespace

std::vector<schedule> whole_schedules(const task& t, const lowering_target& target) {
  using enum move_phase;
  const graph own(t);
  const auto bases = bases_of(own, target);
  std::vector<kind_list> lists;
  for (const auto& base : bases)
    lists.push_back(joined(base, moves_of(execution)));
  for (const auto& base : bases)
    for (const move_kind* each : moves_of(implementation))
      if (auto list = joined(joined(base, {each}), moves_of(execution));
          std::ranges::count(base, each) + std::ranges::count(lists, list) == 0)
        lists.push_back(std::move(list));
  // What was rewritten or laid out in another order, or is a kernel, as exact as the task has it.
  const move_kind* const on_tensor_cores = find_move("tensor_core_convolution");
  const bool has_kernels = applies(on_tensor_cores, own, target);
  if (applies(find_move("float32_convolutions"), own, target) && may_be_in_float32(own))
    for (std::size_t i = 0; i < bases.size(); ++i) {
      if (i > 0) lists.push_back(joined(in_float32(bases[i]), moves_of(execution)));
      if (has_kernels) lists.push_back(joined(joined(in_float32(bases[i]), {on_tensor_cores}), moves_of(execution)));
    }
  // Norms in two parts: the convolutions' kernels take the first one, before kernels are made of all that follows.
  const move_kind* const separates = find_move("separate_statistics");
  if (applies(separates, own, target)) {
    const kind_list norms = joined({find_move("separate_bias"), separates}, kinds_of({always}));
    const auto add = [&](const kind_list& base, const move_kind* kernels) {
      lists.push_back(joined(joined(base, {kernels}), kinds_of({grouping, execution})));
    };
    add(norms, find_move("convolution_kernel"));
    add(norms, on_tensor_cores);
    if (has_kernels && may_be_in_float32(own)) add(in_float32(norms), on_tensor_cores);
  }
  // Products with what follows in one kernel, and the convolutions that are left with the library's activations.
  if (applies(find_move("multiply_unit_kernels"), own, target))
    lists.push_back(joined(joined(bases.back(), {find_move("product_kernel"), find_move("library_activation")}),
                           moves_of(execution)));
  // Kernels of templates, and of the products that these leave.
  if (applies(find_move("template"), own, target))
    lists.push_back(
        joined(joined(bases.front(), {find_move("template"), find_move("product_kernel")}), moves_of(execution)));
  for (const move_kind* each : moves_of(execution))
    lists.push_back(joined(bases.front(), kinds_of({execution}, {each})));
  lists.push_back(kinds_of({always, grouping, execution}));
  lists.push_back(moves_of(starting_part::plain_kernels));
  lists.push_back(moves_of(starting_part::unchanged_program));
  const move_kind* const exact = find_move("float32_convolutions");
  if (target.accepted() == accuracy::strict && applies(exact, own, target))
    for (auto& list : lists)
      if (std::ranges::count(list, exact) == 0) list = in_float32(list);
  return distinct(t, target, lists);
}

std::vector<schedule> further_schedules(const task& t, const lowering_target& target,
                                        const std::vector<schedule>& whole) {
  std::vector<schedule> out;
  if (whole.empty()) return out;
  const schedule_builder full = repaired(t, target, whole.front().moves);
  for (const move_kind* kind : moves_of(move_phase::tuning)) {
    for (auto& m : full.legal(*kind)) {
      out.push_back(full.moves());
      out.back().moves.push_back(std::move(m));
    }
  }
  const std::vector<kind_list> lists = {moves_of(starting_part::elementwise_kernels),
                                        moves_of(starting_part::row_kernels), moves_of(starting_part::proofs),
                                        moves_of(starting_part::other_implementations)};
  for (auto& part : distinct(t, target, lists)) {
    if (std::ranges::count(whole, part) + std::ranges::count(out, part) == 0) out.push_back(std::move(part));
  }
  return out;
}

}  // namespace cudal1
