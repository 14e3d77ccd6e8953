// Size expressions in task files: "N*C/4" over the names of a profile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

using size_names = std::map<std::string, int64_t, std::less<>>;

// Integers, names, + - * / ( ). A division must have no remainder, and no result may overflow int64. Errors name the
// expression.
expected<int64_t> evaluate_size(std::string_view expression, const size_names& names);

}  // namespace cudal1
