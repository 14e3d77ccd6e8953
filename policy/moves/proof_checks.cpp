#include "policy/moves/proof_checks.hpp"

#include "policy/moves/move_registry.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t k_most_known = 4096;

}  // namespace

std::vector<checked_step> proof_checks::of(const task& t, const schedule& s, const lowering_target& target,
                                           const std::vector<std::string>& certificates) {
  if (certificates.empty()) return {};
  std::string key = t.id;
  for (const auto& m : s.moves)  // which say what steps the certificates' numbers mean
    if (const move_kind* kind = find_move(m.name); kind != nullptr && kind->phase == move_phase::preparation)
      key += "\n" + print_schedule({{m}});
  for (const auto& line : certificates)
    key += "\n" + line;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  graph g(t);
  for (const auto& m : s.moves)
    (void)apply_move(g, m, target);
  auto found = check_proofs(g);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= k_most_known) known_.clear();
  known_.emplace(std::move(key), found);
  return found;
}

}  // namespace cudal1
