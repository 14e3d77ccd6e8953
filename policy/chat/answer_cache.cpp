#include "policy/chat/answer_cache.hpp"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// A file is the SHA-256 of the rest in hexadecimal digits, a line break, and the answer as one line of JSON.
constexpr std::size_t digest_digits = 64;

tl::unexpected<error> failed(const std::string& path, const char* what) {
  return fail(errc::io_error, "{}: {}: {}", path, what, std::strerror(errno));
}

expected<chat_answer> parse_file(const std::string& text) {
  if (text.size() <= digest_digits || text[digest_digits] != '\n' ||
      sha256_hex(std::string_view(text).substr(digest_digits + 1)) != text.substr(0, digest_digits))
    return fail(errc::corrupt, "its content does not match its checksum");
  return from_text<chat_answer>(std::string_view(text).substr(digest_digits + 1));
}

expected<void> sync_folder(const std::string& folder) {
  const unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return failed(folder, "fsync");
  return {};
}

expected<void> write_file(const std::string& temporary, int fd, const std::string& text, const std::string& path) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(temporary, "write");
    at += static_cast<std::size_t>(n);
  }
  if (::fsync(fd) != 0) return failed(temporary, "fsync");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failed(path, "rename");
  return sync_folder(fs::path(path).parent_path().string());
}

// Written under another name first, so that no reader sees a part of a file.
expected<void> write_atomically(const std::string& partial, const std::string& path, const std::string& text) {
  std::error_code problem;
  const std::string folder = fs::path(path).parent_path().string();
  const bool is_new = fs::create_directories(folder, problem);
  if (!problem) fs::create_directories(partial, problem);
  if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
  if (is_new) CUDAL1_CHECK(sync_folder(fs::path(folder).parent_path().string()));
  std::string temporary = partial + "/XXXXXX";
  const unique_fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return failed(temporary, "cannot be created");
  auto written = write_file(temporary, fd.get(), text, path);
  if (!written) ::unlink(temporary.c_str());
  return written;
}

// What processes that were killed have left. Another process may be writing the newest.
void remove_partial_files(const std::string& partial) {
  std::error_code problem;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::directory_iterator entry(partial, problem), end; !problem && entry != end; entry.increment(problem)) {
    std::error_code ignored;
    if (const auto written = fs::last_write_time(entry->path(), ignored); !ignored && written < old)
      fs::remove(entry->path(), ignored);
  }
}

}  // namespace

answer_cache::answer_cache(std::string folder) : folder_(std::move(folder)) {
  remove_partial_files(folder_ + "/partial");
}

// In 256 folders: file systems are slow with many files in one.
std::string answer_cache::path_of(const std::string& key) const {
  return folder_ + "/" + key.substr(0, 2) + "/" + key + ".json";
}

std::optional<chat_answer> answer_cache::find(const std::string& key) {
  const std::string path = path_of(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  auto answer = parse_file(text);
  if (!answer) {
    spdlog::warn("the cached answer {} is damaged: {}; it is removed, and asked for again", path,
                 answer.error().message);
    std::error_code ignored;
    fs::remove(path, ignored);
    return std::nullopt;
  }
  answer->cached = true;
  answer->cost = 0;
  return std::move(*answer);
}

void answer_cache::keep(const std::string& key, const chat_answer& answer) {
  const std::string content = to_text(answer) + "\n";
  const auto written = write_atomically(folder_ + "/partial", path_of(key), sha256_hex(content) + "\n" + content);
  if (!written && !has_warned_.exchange(true))
    spdlog::warn(
        "answers cannot be kept, and are asked and paid for again if the experiment is interrupted: {}; make room or "
        "the folder writable",
        written.error().message);
}

}  // namespace cudal1
