#include "policy/moves/move_registry.hpp"

#include <algorithm>

#include "policy/moves/convolution_graph_moves.hpp"
#include "policy/moves/convolution_kernel_moves.hpp"
#include "policy/moves/execution_moves.hpp"
#include "policy/moves/grouping_moves.hpp"
#include "policy/moves/groups.hpp"
#include "policy/moves/implementation_moves.hpp"
#include "policy/moves/layer_moves.hpp"
#include "policy/moves/memory_moves.hpp"
#include "policy/moves/preparation_moves.hpp"
#include "policy/moves/product_moves.hpp"
#include "policy/moves/proof_moves.hpp"
#include "policy/moves/template_moves.hpp"
#include "policy/moves/tuning_moves.hpp"

namespace cudal1 {

namespace {

template <class Predicate>
std::vector<const move_kind*> in_order(Predicate wanted) {
  std::vector<const move_kind*> out;
  for (const auto& kind : move_kinds()) {
    if (wanted(kind)) out.push_back(&kind);
  }
  std::ranges::stable_sort(out, {}, [](const move_kind* kind) { return std::pair(kind->phase, kind->order); });
  return out;
}

}  // namespace

// A new family is added to this list only.
const std::vector<move_kind>& move_kinds() {
  static const std::vector<move_kind> kinds = [] {
    std::vector<move_kind> all;
    for (const auto& family : {preparation_moves(), proof_moves(), layer_moves(), grouping_moves(), tuning_moves(),
                               memory_moves(), implementation_moves(), convolution_graph_moves(),
                               convolution_kernel_moves(), product_moves(), template_moves(), execution_moves()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kinds;
}

const move_kind* find_move(std::string_view name) {
  for (const auto& kind : move_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<const move_kind*> moves_of(move_phase phase) {
  return in_order([&](const move_kind& kind) { return kind.phase == phase; });
}

std::vector<const move_kind*> moves_of(starting_part part) {
  return in_order([&](const move_kind& kind) { return std::ranges::count(kind.parts, part) > 0; });
}

expected<std::string> apply_move(graph& g, const move& m, const lowering_target& target) {
  const move_kind* found = find_move(m.name);
  if (found == nullptr) {
    std::string names;
    for (const auto& each : move_kinds())
      names += (names.empty() ? "" : ", ") + each.name;
    return fail(errc::invalid_argument, "there is no move \"{}\"; there are {}", m.name, names);
  }
  std::vector<std::string> given;
  for (const auto& [name, value] : m.parameters)
    given.push_back(name);
  std::vector<std::string> expected_names = found->parameters;
  for (const auto& name : found->optional)
    if (std::ranges::find(given, name) != given.end()) expected_names.push_back(name);
  if (given != expected_names) {
    std::string wanted;
    for (const auto& name : found->parameters)
      wanted += (wanted.empty() ? "" : ", ") + name + "=...";
    for (const auto& name : found->optional)
      wanted += "[, " + name + "=...]";
    return fail(errc::invalid_argument, "{} should be written {}({})", m.name, m.name, wanted);
  }
  CUDAL1_TRY(std::string explanation, found->apply(g, m, target));
  dissolve_unread_groups(g);
  CUDAL1_CHECK(check_overwritten(g));
  return explanation;
}

std::vector<std::pair<std::string, std::string>> move_catalogue() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& kind : move_kinds())
    out.emplace_back(kind.name, kind.summary);
  return out;
}

}  // namespace cudal1
