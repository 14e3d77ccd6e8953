// A policy that learns: logits over moves, from features that have the same meaning on every task, trained by REINFORCE
// (Williams 1992) on rewards that are normalised within a group and clipped, as in CUDA-L1.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/search/policy.hpp"
#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

class learned_policy final : public policy {
 public:
  explicit learned_policy(uint64_t seed) : seed_(seed) {}
  std::string name() const override { return "learned"; }
  int64_t version() const override { return version_; }
  expected<proposal> propose(const prompt& p) override;
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
  schedule_builder sample(const prompt& p, random_source& random) const;
  // Adds advantage * d log p(schedule) / d weights to the gradient.
  void add_gradient(const experience& e, double advantage, std::map<std::string, double>& gradient) const;
  std::vector<double> advantages(const std::vector<experience>& group);

  struct baseline {
    double mean = 1, deviation = 0.25;
    int64_t count = 0;
  };
  uint64_t seed_;
  int64_t version_ = 0;
  std::map<std::string, double> weights_;
  std::map<std::string, baseline> baselines_;  // by task id
};

}  // namespace cudal1
