#include "config/base/text_file.hpp"

#include <fstream>
#include <sstream>

namespace cudal1 {

expected<std::string> read_text_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  if (!in) return fail(errc::io_error, "{} cannot be read", path);
  return std::move(all).str();
}

}  // namespace cudal1
