// Reading a whole file.
#pragma once

#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

// Its bytes. errc::io_error where it cannot be opened or read.
expected<std::string> read_text_file(const std::string& path);

}  // namespace cudal1
