// What all policies share: what was proposed already, their randomness, and the state of those whose state is a seed.
#pragma once

#include <set>
#include <string>

#include "policy/search/policy.hpp"
#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

// What was proposed already: the exemplars' schedules, and the programs of all. Holds on to the prompt.
class known_variants {
 public:
  explicit known_variants(const prompt& p);
  bool contains(const schedule_builder& b) const;
  bool has_schedule(const schedule& s) const { return schedules_.contains(print_schedule(s)); }
  bool has_programs() const { return !programs_.empty() || !tried_.empty(); }
  bool has_program(const std::string& id) const { return programs_.contains(id) || tried_.contains(id); }

 private:
  std::set<std::string> schedules_, programs_;
  const std::set<std::string>& tried_;
};

// Search without learning: all that there is to keep is the seed.
class search_policy : public policy {
 public:
  explicit search_policy(uint64_t seed) : seed_(seed) {}
  int64_t version() const override { return 0; }
  expected<bool> learn(const std::vector<experience>&) override { return false; }
  std::string save() const override;
  expected<void> load(const std::string& blob, int64_t version) override;

 protected:
  uint64_t seed_;
};

// The generator of one proposal: from the policy's seed and the prompt's.
random_source random_for(uint64_t policy_seed, const prompt& p);
// Refuses prompts without a task or a target.
expected<void> check_prompt(const prompt& p);
// The blob of a policy whose whole state is its seed.
std::string save_seed(const std::string& name, uint64_t seed);
expected<uint64_t> load_seed(const std::string& name, const std::string& blob);

}  // namespace cudal1
