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

}  // namespace cudal1
