#include "store/blobs.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/blob.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> failed(const std::string& path, const char* what) {
  return fail(errc::io_error, "the blob {}: {}: {}", path, what, std::strerror(errno));
}

expected<void> sync_folder(const std::string& folder) {
  const unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return failed(folder, "fsync");
  return {};
}

// Written under another name first, so that no reader sees a partial file.
expected<void> copy_file(int source, const std::string& target) {
  std::string temporary = target + ".XXXXXX";
  const unique_fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return failed(temporary, "cannot be created");
  const auto write = [&]() -> expected<void> {
    struct stat status {};
    if (::fstat(source, &status) != 0) return failed(target, "fstat");
    for (off_t at = 0; at < status.st_size;) {
      const ssize_t n = ::sendfile(fd.get(), source, &at, std::size_t{1} << 30);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed(temporary, "copying");
    }
    if (::fchmod(fd.get(), 0444) != 0) return failed(temporary, "chmod");
    if (::fsync(fd.get()) != 0) return failed(temporary, "fsync");
    if (::rename(temporary.c_str(), target.c_str()) != 0) return failed(target, "rename");
    return {};
  };
  auto written = write();
  if (!written) ::unlink(temporary.c_str());
  return written;
}

}  // namespace

bool blobs::has(const std::string& name) const {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder_ + "/" + name, ignored);
}

expected<void> blobs::take(const std::string& from, const std::string& name) const {
  if (has(name)) return {};
  CUDAL1_TRY(const unique_fd source, open_blob(from, name));
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  if (problem) return fail(errc::io_error, "the folder {} cannot be created: {}", folder_, problem.message());
  const std::string target = folder_ + "/" + name;
  if (::link((from + "/" + name).c_str(), target.c_str()) == 0) {
    if (::fsync(source.get()) != 0) return failed(target, "fsync");
  } else if (errno != EEXIST) {  // another file system, or one without links
    CUDAL1_CHECK(copy_file(source.get(), target));
  }
  return sync_folder(folder_);
}

}  // namespace cudal1
