#include "config/base/process_environment.hpp"

#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves its declaration to us

namespace cudal1 {

std::vector<std::string> process_environment() {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable)
    out.emplace_back(*variable);
  return out;
}

std::string_view variable_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string_view entry : environment)
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name))
      return entry.substr(name.size() + 1);
  return {};
}

}  // namespace cudal1
