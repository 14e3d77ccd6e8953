#include "sandbox/device/machine_claims.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cudal1 {

namespace {

// As /tmp: everybody may add a file, and only its owner may remove it.
constexpr mode_t folder_mode = 01777, file_mode = 0666;

struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

expected<machine_claims> machine_claims::open(std::string folder) {
  if (::mkdir(folder.c_str(), 0777) == 0) {
    if (::chmod(folder.c_str(), folder_mode) != 0)
      return fail(errc::io_error, "cannot open {} to all users: {}", folder, std::strerror(errno));
  } else if (errno != EEXIST) {
    return fail(errc::io_error, "cannot create {}: {}", folder, std::strerror(errno));
  }
  return machine_claims(std::move(folder));
}

// Linux does not let one user's program create a file anew that another user has in such a folder, so that is tried
// only if there is none. The lock needs a file that is open for writing.
expected<unique_fd> machine_claims::open_file(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  for (int tries = 0; tries < 3; ++tries) {
    unique_fd fd(::open(path.c_str(), flags));
    if (!fd && errno == ENOENT) {
      fd = unique_fd(::open(path.c_str(), flags | O_CREAT | O_EXCL, file_mode));
      if (fd) (void)::fchmod(fd.get(), file_mode);
    }
    if (fd) return fd;
    if (errno != EEXIST) break;
  }
  return fail(errc::io_error, "cannot open {}: {}", path, std::strerror(errno));
}

// A lock of POSIX is of the process that took it, not of its children; it ends if the process closes any descriptor of
// the file, so each file is opened once.
expected<void> machine_claims::take(const std::string& name) {
  const std::lock_guard guard(*mutex_);
  if (held_.contains(name)) return {};
  CUDAL1_TRY(unique_fd fd, open_file(name));
  struct flock lock = whole_file();
  if (::fcntl(fd.get(), F_SETLK, &lock) != 0) {
    if (errno != EACCES && errno != EAGAIN)
      return fail(errc::io_error, "cannot lock {}/{}: {}", folder_, name, std::strerror(errno));
    lock = whole_file();
    const bool known = ::fcntl(fd.get(), F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0;
    return fail(errc::already_exists, "another cudal1-node{} uses it",
                known ? fmt::format(" (process {})", lock.l_pid) : "");
  }
  held_.emplace(name, std::move(fd));
  return {};
}

void machine_claims::give_back(const std::string& name) {
  const std::lock_guard guard(*mutex_);
  held_.erase(name);
}

expected<machine_claims*> claims_of_this_process() {
  static expected<machine_claims> claims = machine_claims::open();
  if (!claims) return tl::unexpected<error>(claims.error());
  return &*claims;
}

}  // namespace cudal1
