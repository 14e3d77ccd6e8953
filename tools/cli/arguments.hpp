// Arguments in the form that exec and posix_spawn take.
#pragma once

#include <string>
#include <vector>

namespace cudal1::cli {

// Pointers into `words`, which must outlive them; the last is null.
inline std::vector<char*> arguments_of(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (auto& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

}  // namespace cudal1::cli
