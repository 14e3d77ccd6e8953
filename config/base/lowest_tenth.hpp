// A robust minimum, for times that were measured on a shared machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cudal1 {

// The lower decile, which single outliers do not decide. Of fewer than ten values the minimum; of none 0.
inline double lowest_tenth(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace cudal1
