// Search without learning: the baseline that every claim of learning is measured against.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/search/known_variants.hpp"

namespace cudal1 {

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

  std::map<std::pair<std::string, const lowering_target*>, firsts> firsts_;  // by the task's id
};

}  // namespace cudal1
