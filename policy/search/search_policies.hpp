// Search without learning: the baselines that every claim of learning is measured against.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

class random_policy final : public search_policy {
 public:
  using search_policy::search_policy;
  std::string name() const override { return "random"; }
  expected<proposal> propose(const prompt& p) override;
};

// Whole programs first; then a population of exemplars: one step from the best, else parents by tournament; mutation,
// crossover and repair.
class evolutionary_policy final : public search_policy {
 public:
  using search_policy::search_policy;
  std::string name() const override { return "evolutionary"; }
  expected<proposal> propose(const prompt& p) override;

 private:
  // The schedules that come before any search, of a task: kept, as they take long to find for a network of hundreds of
  // steps. So does what program each is, which is lowered when it is first asked for.
  struct first_schedule {
    schedule plan;
    std::string program;  // its id; "" before that
  };
  struct firsts {
    std::optional<std::vector<first_schedule>> whole, further;
  };
  struct attempt {
    proposal made;
    bool is_new = false;  // this program was not proposed before
  };
  std::vector<first_schedule>& whole_of(const prompt& p);
  std::vector<first_schedule>& further_of(const prompt& p);
  static bool is_new(const prompt& p, const known_variants& known, first_schedule& s);
  std::optional<schedule> next_first(const prompt& p, const known_variants& known, bool any_correct,
                                     random_source& random);
  attempt try_once(const prompt& p, const known_variants& known, random_source& random);

  std::map<std::pair<std::string, device_kind>, firsts> firsts_;  // by the task's id
};

// The generator of one proposal: from the policy's seed and the prompt's.
random_source random_for(uint64_t policy_seed, const prompt& p);
// Refuses prompts without a task.
expected<void> check_prompt(const prompt& p);
// The blob of a policy whose whole state is its seed.
std::string save_seed(const std::string& name, uint64_t seed);
expected<uint64_t> load_seed(const std::string& name, const std::string& blob);

}  // namespace cudal1
