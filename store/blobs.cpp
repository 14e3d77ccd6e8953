#include "store/blobs.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/blob.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> failed(const std::string& path, const char* what) {
  return fail(errc::io_error, "the blob {}: {}: {}", path, what, std::strerror(errno));
}

expected<void> copy_file(int source, const std::string& target) {
  return write_durably({target, 0444}, [&](int to) -> expected<void> {
    struct stat status {};
    if (::fstat(source, &status) != 0) return failed(target, "fstat");
    for (off_t at = 0; at < status.st_size;) {
      const ssize_t n = ::sendfile(to, source, &at, std::size_t{1} << 30);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed(target, "copying");
    }
    return {};
  });
}

expected<void> create_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) return fail(errc::io_error, "the folder {} cannot be created: {}", folder, problem.message());
  return {};
}

}  // namespace

bool blobs::has(const std::string& name) const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder_ + "/" + name, ignored);
}

expected<std::string> blobs::put(std::string_view bytes, std::string_view ending) const {
  std::string name = sha256_hex(bytes) + std::string(ending);
  if (has(name)) return name;
  CUDAL1_CHECK(create_folder(folder_));
  CUDAL1_CHECK(write_durably({folder_ + "/" + name, 0444}, bytes));
  return name;
}

expected<std::string> blobs::get(const std::string& name) const {
  CUDAL1_TRY(const unique_fd source, open_blob(folder_, name));
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::pread(source.get(), buffer, sizeof buffer, static_cast<off_t>(bytes.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(folder_ + "/" + name, "reading");
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
}

expected<void> blobs::remove(const std::string& name) const {
  const std::string path = folder_ + "/" + name;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed(path, "removing");
  return {};
}

expected<void> blobs::take(const std::string& from, const std::string& name) const {
  if (has(name)) return {};
  CUDAL1_TRY(const unique_fd source, open_blob(from, name));
  CUDAL1_CHECK(create_folder(folder_));
  const std::string target = folder_ + "/" + name;
  if (::link((from + "/" + name).c_str(), target.c_str()) == 0) {
    if (::fsync(source.get()) != 0) return failed(target, "fsync");
  } else if (errno != EEXIST) {  // another file system, or one without links
    return copy_file(source.get(), target);
  }
  return sync_folder(folder_);
}

}  // namespace cudal1
