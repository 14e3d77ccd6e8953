// A pipe whose ends are closed in programs that this one starts.
#pragma once

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

struct pipe_ends {
  unique_fd reader, writer;
};

// Errors: infrastructure.
expected<pipe_ends> make_pipe();

}  // namespace cudal1
