// Policies write variants. All have one interface, so that learning can be compared with search without learning.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/base/json.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/graph/schedule.hpp"
#include "sandbox/evaluation.hpp"

namespace cudal1 {

inline namespace old_interface {
// An earlier variant with its score, shown to the policy.
struct exemplar {
  schedule plan;
  std::string variant;  // id
  outcome result = outcome::correct;
  double score = 0;  // 0 unless correct
};

struct prompt {
  const task* what = nullptr;
  const lowering_target* target = nullptr;
  std::vector<exemplar> exemplars;  // best first
  // Whether a variant, by its id, was proposed before, also one that failed or is under way: to propose it again is in
  // vain. The exemplars are some of them. Empty if none was.
  std::function<bool(const std::string& id)> is_tried;
  uint64_t seed = 0;  // all randomness of a proposal comes from here
};

}  // namespace old_interface
struct proposal {
  schedule plan;
  std::vector<std::string> parents;  // ids of the exemplars that it was made from
  json trace;                        // stored with the variant and returned in its experience
};

// A proposal with its outcome and score.
struct experience {
  const task* what = nullptr;
  const lowering_target* target = nullptr;
  schedule plan;
  json trace;
  outcome result = outcome::correct;
  double score = 0;
};

class policy {
 public:
  virtual ~policy() = default;
  virtual std::string name() const = 0;
  virtual int64_t version() const = 0;  // grows with each learn() that changed it
  virtual expected<proposal> propose(const prompt& p) = 0;
  // Experiences of one group (one task). Returns whether the policy changed.
  virtual expected<bool> learn(const std::vector<experience>& group) = 0;
  virtual std::string save() const = 0;
  virtual expected<void> load(const std::string& blob, int64_t version) = 0;
};

// "random", "evolutionary", "learned".
expected<std::unique_ptr<policy>> make_policy(const std::string& name, uint64_t seed);
std::vector<std::string> policy_names();

}  // namespace cudal1
