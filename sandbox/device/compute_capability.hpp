// The compute capability of a GPU and the version of cuDNN, as its environment has them.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// The number behind these words in environment::details; "" for none.
inline std::string number_behind(std::string_view words, std::string_view details) {
  const auto at = details.find(words);
  if (at == std::string_view::npos) return "";
  const auto number = details.substr(at + words.size());
  return std::string(number.substr(0, number.find_first_not_of("0123456789.")));
}
// "9.0" of "compute capability 9.0, 143771 MiB, ..."; "" for a processor.
inline std::string compute_capability_of(std::string_view details) {
  return number_behind("compute capability ", details);
}
// "9.19.0" of "LibTorch 2.11.0, cuDNN 9.19.0, ...".
inline std::string cudnn_version_of(std::string_view details) {
  return number_behind("cuDNN ", details);
}

}  // namespace cudal1
