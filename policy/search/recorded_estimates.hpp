// How well estimates order the measured candidates of recorded tasks.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/device_data.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/contrastive/recorded_space.hpp"
#include "policy/estimate/estimate_quality.hpp"

namespace cudal1 {

inline constexpr std::array<std::size_t, 3> estimated_firsts{1, 4, 8};

// Shares are of the shortest device time, after the first 1, 4 and 8 candidates (estimated_firsts).
struct estimated_task {
  std::string name, operators;
  int64_t candidates = 0;  // that are correct, and whose device time was measured
  double rank_correlation = 0;
  std::vector<double> by_estimate, by_chance;
};
BOOST_DESCRIBE_STRUCT(estimated_task, (), (name, operators, candidates, rank_correlation, by_estimate, by_chance))

// The estimated device time of a schedule's program. Nothing if it cannot be lowered: one of an older version may not
// be legal any more.
std::optional<double> estimated_device_us(const task& t, const std::string& plan, const lowering_target& target,
                                          const device_data& gpu);

// Estimated and measured device times of the task's correct candidates.
expected<std::vector<estimated_time>> estimated_times(const recorded_task& t, const device_data& gpu);

// Nothing for a task with fewer than two such candidates.
expected<std::optional<estimated_task>> estimated(const recorded_task& t, const device_data& gpu);

// Of several tasks: the mean of the correlations, and geometric means of the shares.
estimated_task mean_of(const std::vector<estimated_task>& tasks);

}  // namespace cudal1
