// Search without learning: the baseline that learned policies are compared with.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "policy/search/doubtful_moves.hpp"
#include "policy/search/known_variants.hpp"
#include "policy/search/schedule_estimates.hpp"

namespace cudal1 {

// Whole schedules first; then the exemplars are the population: a mutation of the best one, or mutation and crossover
// of parents chosen by tournament, with repair. On a GPU of known specifications several are drawn for a proposal, if
// the task is small, and the one with the shortest estimated call time is proposed, mostly. Moves of which nothing
// correct came are left out, mostly (doubtful_moves.hpp).
class evolutionary_policy final : public search_policy {
 public:
  explicit evolutionary_policy(const policy_setup& setup)
      : search_policy(setup), uses_estimates_(setup.search.estimates) {}
  std::string name() const override { return "evolutionary"; }
  policy_traits traits() const override;
  expected<proposal> propose_one(const prompt& p) override;

 private:
  // The starting schedules of a task. They are cached, since finding them takes long for a network of hundreds of
  // steps; so is the program of each, which is lowered when it is first needed.
  struct starting_schedule {
    schedule plan;
    std::string program;                 // its id; "" until it is needed
    std::optional<double> estimated_us;  // estimated; none until it is needed
    bool is_too_large = false;           // for the device's memory; known with the program
  };
  struct starting_lists {
    std::mutex used;
    std::optional<std::vector<starting_schedule>> whole, further;
  };
  struct attempt {
    proposal made;
    bool is_new = false;  // this program was not proposed before
  };
  starting_lists& lists_of(const prompt& p);
  // With the lists' lock held.
  static std::vector<starting_schedule>& whole_of(const prompt& p, starting_lists& lists);
  static std::vector<starting_schedule>& further_of(const prompt& p, starting_lists& lists);
  static bool is_new(const prompt& p, const known_variants& known, starting_schedule& s);
  // `correct`: how many exemplars are.
  std::optional<schedule> next_starting_schedule(const prompt& p, const known_variants& known, std::size_t correct,
                                                 const doubtful_moves& doubtful, random_source& random);
  attempt try_once(const prompt& p, const known_variants& known, const doubtful_moves& doubtful, random_source& random);
  std::shared_ptr<const device_data> gpu_of(const prompt& p);
  // With the lists' lock held.
  static double estimate_of(const prompt& p, starting_schedule& s, const device_data& gpu);
  std::optional<schedule> first_of_a_program(const prompt& p, const known_variants& known,
                                             const doubtful_moves& doubtful, const device_data& gpu,
                                             random_source& random);
  std::optional<proposal> shortest_by_estimate(const prompt& p, const known_variants& known,
                                               const doubtful_moves& doubtful, const device_data& gpu,
                                               random_source& random);

  bool uses_estimates_;
  known_gpus gpus_;
  std::mutex mutex_;  // guards the map
  // By the task's id, the target and the device's model.
  std::map<std::tuple<std::string, const lowering_target*, std::string>, starting_lists> firsts_;
};

}  // namespace cudal1
