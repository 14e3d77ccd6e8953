// How well estimates order what was measured.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

struct estimated_time {
  double estimated = 0, measured = 0;  // in any unit, the same for all
};

// Spearman's rank correlation: Pearson's of the ranks, equal values with their mean rank. 0 where all values of one
// kind are equal.
double rank_correlation(std::span<const estimated_time> all);

// The shortest measured time of all, as a share of the shortest one of the `first` ones by estimate: 1 is perfect.
double share_by_estimate(std::vector<estimated_time> all, std::size_t first);
// The share of as many in a random order: the geometric mean over all orders.
double share_by_chance(std::span<const estimated_time> all, std::size_t first);

}  // namespace cudal1
