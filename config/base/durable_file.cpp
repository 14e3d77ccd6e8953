#include "config/base/durable_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> failed(const std::string& path, const char* what) {
  return fail(errc::io_error, "{} {}: {}", path, what, std::strerror(errno));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

expected<void> sync_folder(const std::string& folder) {
  const unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return failed(folder, "cannot be synced");
  return {};
}

expected<void> write_durably(const durable_file& file, const std::function<expected<void>(int)>& fill) {
  std::string temporary = (file.temporary_prefix.empty() ? file.path + "." : file.temporary_prefix) + "XXXXXX";
  const unique_fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return failed(temporary, "cannot be created");
  const auto write = [&]() -> expected<void> {
    CUDAL1_CHECK(fill(fd.get()));
    if (::fchmod(fd.get(), file.mode) != 0 || ::fsync(fd.get()) != 0) return failed(temporary, "cannot be written");
    if (::rename(temporary.c_str(), file.path.c_str()) != 0) return failed(file.path, "cannot be replaced");
    return {};
  };
  if (auto written = write(); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  return sync_folder(folder_of(file.path));
}

expected<void> write_durably(const durable_file& file, std::string_view content) {
  return write_durably(file, [&](int fd) { return write_all(fd, content, file.path); });
}

expected<void> write_all(int fd, std::string_view content, const std::string& what) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(what, "cannot be written");
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace cudal1
