#include "config/base/blob.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>

#include "config/base/hash.hpp"

namespace cudal1 {
namespace {

constexpr std::size_t digest_digits = 64;

// Differs after any write to the file.
using file_state = std::tuple<dev_t, ino_t, off_t, int64_t, int64_t>;

file_state state_of(const struct stat& s) {
  return {s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
}

// Blobs whose content this process has verified, and the state of their files at that time.
class verified_blobs {
 public:
  bool has(const std::string& name, const file_state& state) {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(name);
    return found != states_.end() && found->second == state;
  }
  void add(const std::string& name, const file_state& state) {
    const std::lock_guard lock(mutex_);
    states_[name] = state;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, file_state> states_;
};

}  // namespace

bool is_blob_name(std::string_view name, std::string_view ending) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == digest_digits + ending.size() && name.ends_with(ending) &&
         std::all_of(name.begin(), name.begin() + digest_digits, digit);
}

expected<unique_fd> open_blob(const std::string& folder, const std::string& name) {
  static verified_blobs verified;
  const std::string path = folder + "/" + name;
  unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd)
    return fail(
        errno == ENOENT ? errc::not_found : errc::io_error,
        "the blob {} cannot be opened: {}; task files need the folder blobs that lies beside them, so copy it with "
        "them; `cudal1 tasks import` makes it again (of a part, `cudal1 tasks parts --out`)",
        path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return fail(errc::io_error, "the blob {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(errc::corrupt, "the blob {} is not a regular file", path);
  const file_state state = state_of(status);
  if (verified.has(name, state)) return fd;
  auto digest = sha256_of_file(fd.get());
  if (!digest) return fail_in("the blob " + path, digest.error());
  if (!name.starts_with(*digest))
    return fail(errc::corrupt,
                "the content of the blob {} does not match its name (its SHA-256 is {}); remove it, and `cudal1 tasks "
                "import` makes it again",
                path, *digest);
  verified.add(name, state);
  return fd;
}

expected<std::string> read_blob(const std::string& folder, const std::string& name, std::size_t most_bytes) {
  CUDAL1_TRY(const unique_fd fd, open_blob(folder, name));
  std::string text;
  char piece[1 << 16];
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd.get(), piece, sizeof piece, at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errc::io_error, "the blob {}/{}: {}", folder, name, std::strerror(errno));
    if (got == 0) return text;
    text.append(piece, static_cast<std::size_t>(got));
    at += got;
    if (text.size() > most_bytes)
      return fail(errc::invalid_argument, "the blob {}/{} has more than {} bytes", folder, name, most_bytes);
  }
}

expected<void> check_blob_name(const std::string& name) {
  const auto ending = name.substr(std::min(name.find('.'), name.size()));
  const bool plain =
      std::ranges::all_of(ending, [](char c) { return c == '.' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  if (is_blob_name(name, ending) && plain) return {};
  return fail(errc::invalid_argument, "\"{}\" is not the name of a blob", name);
}

expected<int64_t> size_of_blob(const unique_fd& file, const std::string& name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0)
    return fail(errc::io_error, "the blob {} cannot be read: {}", name, std::strerror(errno));
  return status.st_size;
}

expected<blob_section> read_blob_section(const std::string& folder, const std::string& name, int64_t offset,
                                         int64_t most_bytes) {
  CUDAL1_CHECK(check_blob_name(name));
  CUDAL1_TRY(const unique_fd file, open_blob(folder, name));
  blob_section part;
  CUDAL1_TRY(part.size, size_of_blob(file, name));
  if (offset < 0 || offset > part.size)
    return fail(errc::invalid_argument, "the blob {} has {} bytes, not {}", name, part.size, offset);
  part.bytes.resize(static_cast<std::size_t>(std::min(part.size - offset, most_bytes)));
  for (std::size_t done = 0; done < part.bytes.size();) {
    const ssize_t n = ::pread(file.get(), part.bytes.data() + done, part.bytes.size() - done,
                              static_cast<off_t>(offset) + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(errc::io_error, "the blob {} cannot be read: {}", name, std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  return part;
}

}  // namespace cudal1
