// A policy that learns: logits over moves, from features that have the same meaning on every task, trained by REINFORCE
// (Williams 1992) on the rewards of groups.
#pragma once

#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

class learned_policy final : public immediate_policy {
 public:
  explicit learned_policy(const policy_setup& setup);
  std::string name() const override { return "learned"; }
  policy_traits traits() const override;
  int64_t version() const override;
  expected<proposal> propose_one(const prompt& p) override;
  expected<bool> learn(const std::vector<experience>& group) override;
  std::string save() const override;
  expected<void> load(const std::string& blob, int64_t version) override;

 private:
  using features = std::vector<std::string>;
  // The options at one point: first the kinds of legal moves, and to stop (always last); then the moves of one kind.
  struct decision {
    std::vector<features> options;
    std::vector<double> probabilities;
  };
  struct point {
    std::vector<std::vector<move>> by_kind;
    decision kinds;
  };
  point look(const schedule_builder& at) const;
  decision decide(std::vector<features> options) const;
  decision within_kind(const schedule_builder& at, const std::vector<move>& moves) const;
  // A schedule, and the logarithm of its probability.
  struct sampled {
    schedule_builder made;
    double log_probability = 0;
  };
  sampled sample(const prompt& p, random_source& random) const;
  // Adds reward * d log p(schedule) / d weights to the gradient.
  void add_gradient(const experience& e, double reward, std::map<std::string, double>& gradient) const;

  mutable std::shared_mutex mutex_;  // shared to propose, exclusive to load; to learn takes a policy of its own
  uint64_t seed_;
  int64_t group_, exemplars_;
  int64_t version_ = 0;
  std::map<std::string, double> weights_;
};

}  // namespace cudal1
