// Draws exemplars, asks the policy, lowers and checks its proposal.
#pragma once

#include <functional>
#include <memory>

#include "actors/interfaces.hpp"
#include "policy/search/policy.hpp"

namespace cudal1 {

// What a proposal needs besides the policy.
struct proposal_context {
  shared_task what;
  std::string experiment, device;
  std::vector<message::stored_exemplar> exemplars;
  std::function<bool(const std::string& variant)> is_tried;
  uint64_t seed = 0;
};

// One proposal: a checked program with its record, or the record of a schedule without a legal program, and why. Plain
// logic.
expected<message::proposed> propose_variant(policy& writer, proposal_context c);

struct generator_state {
  static constexpr const char* name = "generator";
  generator_actor::pointer self = nullptr;
  std::unique_ptr<policy> writer;
  store_actor store;
  std::shared_ptr<cudal1::store> records;  // the same store, for reading
  int64_t exemplars = 16;

  caf::result<message::proposed> propose(const message::propose& m);
  bool is_tried(const message::propose& m, const std::string& variant) const;
  void take_version(const message::policy_version& m);
};

// To be spawned detached.
generator_actor::behavior_type run_generator(generator_actor::stateful_pointer<generator_state> self,
                                             const std::shared_ptr<std::unique_ptr<policy>>& writer, store_actor store,
                                             std::shared_ptr<cudal1::store> records, int64_t exemplars);

}  // namespace cudal1
