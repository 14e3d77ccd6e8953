#include "actors/clients/data_lock.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "config/base/utf8.hpp"

namespace cudal1 {

namespace {

std::string read_all(int fd) {
  char buffer[64];
  const auto got = ::pread(fd, buffer, sizeof buffer, 0);
  std::string text(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n')
    text.pop_back();
  return text;
}

}  // namespace

expected<void> check_data_name(const std::string& folder) {
  if (is_valid_utf8(folder)) return {};
  return fail(errc::invalid_argument, "the name of the data folder is not UTF-8 (\"{}\"); name another with --data",
              replace_invalid_utf8(folder));
}

expected<data_lock> data_lock::take(const std::string& folder) {
  std::error_code made;
  if (std::filesystem::create_directories(folder, made))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, made);
  if (made) return fail(errc::io_error, "cannot create the data folder {}: {}", folder, made.message());
  const std::string path = folder + "/node.lock";
  unique_fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return fail(errc::io_error, "cannot open {}: {}", path, std::strerror(errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return fail(errc::already_exists, "another cudal1-node runs on {} (pid {})", folder, read_all(fd.get()));
    return fail(errc::io_error, "cannot lock {}: {}", path, std::strerror(errno));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0)
    return fail(errc::io_error, "cannot write {}: {}", path, std::strerror(errno));
  return data_lock(std::move(fd));
}

}  // namespace cudal1
