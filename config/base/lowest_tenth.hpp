// What a machine that is shared is like at its best.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cudal1 {

// What was kept for a tenth of the time: the least of many is luck. The least of fewer than ten; 0 of nothing.
inline double lowest_tenth(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace cudal1
