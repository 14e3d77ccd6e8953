// What all policies share: the variants proposed so far, the random source of a proposal, and saved seeds.
#pragma once

#include <atomic>
#include <set>
#include <string>

#include "policy/search/immediate_policy.hpp"
#include "policy/search/policy_registry.hpp"
#include "policy/search/schedule_builder.hpp"
#include "sandbox/program/memory_need.hpp"

namespace cudal1 {

// The variants proposed so far: the exemplars' schedules, and the program ids of all. Refers to the prompt, which must
// outlive it.
class known_variants {
 public:
  explicit known_variants(const prompt& p);
  // Whether to propose it is in vain: it was proposed before, or its tensors do not fit the device's memory.
  bool rules_out(schedule_builder& b) const;
  // Not for programs that are far too small for it.
  bool may_be_too_large() const { return may_be_too_large_; }
  bool is_too_large(const checked_program& p) const {
    return may_be_too_large_ && !why_too_large(p, tensor_bytes_).empty();
  }
  bool has_schedule(const schedule& s) const { return schedules_.contains(print_schedule(s)); }
  bool has_programs() const { return !programs_.empty() || is_tried_; }
  bool has_program(const std::string& id) const { return programs_.contains(id) || (is_tried_ && is_tried_(id)); }

 private:
  std::set<std::string> schedules_, programs_;
  int64_t tensor_bytes_;
  bool may_be_too_large_;
  const std::function<bool(const std::string& id)>& is_tried_;
};

// Search without learning: the only state is the seed. It is shown the best variants of its own experiment.
class search_policy : public immediate_policy {
 public:
  explicit search_policy(const policy_setup& setup) : seed_(setup.seed), exemplars_(setup.search.exemplars) {}
  policy_traits traits() const override;
  int64_t version() const override { return 0; }
  expected<bool> learn(const std::vector<experience>&) override { return false; }
  std::string save() const override;
  expected<void> load(const std::string& blob, int64_t version) override;

 protected:
  std::atomic<uint64_t> seed_;

 private:
  int64_t exemplars_;
};

// Makes it the proposal's schedule, with its program if it can be lowered.
void propose_schedule(schedule_builder b, proposal& out);
// The random source of one proposal, seeded by the policy's and the prompt's seed.
random_source random_for(uint64_t policy_seed, const prompt& p);
// errc::invalid_argument for prompts without a task or a target.
expected<void> check_prompt(const prompt& p);
// The saved state of a policy whose only state is its seed.
std::string save_seed(const std::string& name, uint64_t seed);
expected<uint64_t> load_seed(const std::string& name, const std::string& blob);

}  // namespace cudal1
