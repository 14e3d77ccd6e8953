// The compute capability of a GPU, as its environment has it.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// "9.0" of "compute capability 9.0, 143771 MiB, ..." (environment::details); "" for none, as of a processor.
inline std::string compute_capability_of(std::string_view details) {
  constexpr std::string_view words = "compute capability ";
  const auto at = details.find(words);
  if (at == std::string_view::npos) return "";
  const auto number = details.substr(at + words.size());
  return std::string(number.substr(0, number.find_first_not_of("0123456789.")));
}

}  // namespace cudal1
