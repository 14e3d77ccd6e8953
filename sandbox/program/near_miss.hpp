// "did you mean": the known word that is closest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// `; did you mean "softmax"?`, or "" where nothing is close. Case counts as a small difference.
std::string did_you_mean(std::string_view given, const std::vector<std::string_view>& known);

// did_you_mean() among the keys of a map or the items of a container, each of which is called name(item).
template <class Range, class Name>
std::string did_you_mean(std::string_view given, const Range& known, Name name) {
  std::vector<std::string_view> words;
  for (const auto& item : known)
    words.emplace_back(name(item));
  return did_you_mean(given, words);
}

}  // namespace cudal1
