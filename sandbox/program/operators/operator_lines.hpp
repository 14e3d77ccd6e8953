// The table's schemas as text, for comparison with ATen's own.
#pragma once

#include <string>
#include <vector>

namespace cudal1 {

std::vector<std::string> operator_schema_texts();

}  // namespace cudal1
