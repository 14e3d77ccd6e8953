#include "config/base/pipe.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace cudal1 {

expected<pipe_ends> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(errc::infrastructure, "cannot create a pipe: {}", std::strerror(errno));
  return pipe_ends{unique_fd(ends[0]), unique_fd(ends[1])};
}

}  // namespace cudal1
