#include "policy/chat/answer_cache.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <spdlog/spdlog.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/hash.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// A file is the SHA-256 of the rest in hexadecimal digits, a line break, and the answer as one line of JSON.
constexpr std::size_t digest_digits = 64;

expected<chat_answer> parse_file(const std::string& text) {
  if (text.size() <= digest_digits || text[digest_digits] != '\n' ||
      sha256_hex(std::string_view(text).substr(digest_digits + 1)) != text.substr(0, digest_digits))
    return fail(errc::corrupt, "its content does not match its checksum");
  return from_text<chat_answer>(std::string_view(text).substr(digest_digits + 1));
}

// The file is in `partial` while it is written.
expected<void> write_answer(const std::string& partial, const std::string& path, const std::string& text) {
  std::error_code problem;
  const std::string folder = fs::path(path).parent_path().string();
  const bool is_new = fs::create_directories(folder, problem);
  if (!problem) fs::create_directories(partial, problem);
  if (problem) return fail(errc::io_error, "{}: {}", folder, problem.message());
  if (is_new) CUDAL1_CHECK(sync_folder(fs::path(folder).parent_path().string()));
  return write_durably({path, 0600, partial + "/"}, text);
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
  const auto written = write_answer(folder_ + "/partial", path_of(key), sha256_hex(content) + "\n" + content);
  if (!written && !has_warned_.exchange(true))
    spdlog::warn(
        "answers cannot be kept, and are asked and paid for again if the experiment is interrupted: {}; make room or "
        "the folder writable",
        written.error().message);
}

}  // namespace cudal1
