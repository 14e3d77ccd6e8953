#include "config/data_folder.hpp"

#include <cstdlib>

#include <pwd.h>
#include <unistd.h>

namespace cudal1 {

std::string default_data_folder() {
  if (const char* data = std::getenv("CUDAL1_DATA"); data != nullptr && *data != '\0') return data;
  // The XDG specification: a relative path is ignored.
  if (const char* base = std::getenv("XDG_DATA_HOME"); base != nullptr && *base == '/')
    return std::string(base) + "/cudal1";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    const passwd* me = ::getpwuid(::getuid());
    home = me != nullptr ? me->pw_dir : "/";
  }
  return std::string(home) + "/.local/share/cudal1";
}

}  // namespace cudal1
