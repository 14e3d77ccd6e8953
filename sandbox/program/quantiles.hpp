// The distribution of recorded values, as quantiles: the k-th of n + 1 is that of (1 - cos(pi k / n)) / 2, so that they
// are dense in the tails; between two the values are linear in k. Equal ones in a row are a value that occurs often, as
// 0 behind a ReLU.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"

namespace cudal1 {

// 2 to 129 finite numbers in ascending order.
expected<std::vector<double>> read_quantiles(const json& v, const std::string& where);

// The value of which the share `u` of all values is below; u in [0, 1].
double quantile(std::span<const double> quantiles, double u);

// "as recorded, -1.1 to 1.8 with a median of 0.017".
std::string quantiles_text(std::span<const double> quantiles);

}  // namespace cudal1
