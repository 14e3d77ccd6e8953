#include "sandbox/device/code_cache.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <unistd.h>

#include "config/base/hash.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "cudal1 object 1 ";  // then 64 digits, a newline, the object
constexpr std::size_t head_bytes = magic.size() + 64 + 1;
constexpr uint64_t stores_between_prunes = 64;

}  // namespace

expected<code_cache> code_cache::open(std::string folder, int64_t limit_bytes) {
  if (!folder.empty()) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) return fail(errc::io_error, "cannot make the cache folder {}: {}", folder, problem.message());
  }
  return code_cache(std::move(folder), limit_bytes);
}

std::string code_cache::path_of(const std::string& key) const {
  return (fs::path(folder_) / key.substr(0, 2) / (key + ".object")).string();
}

std::optional<std::string> code_cache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto path = path_of(key);
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::error_code ignored;
  const std::string_view view = content;
  const bool whole = view.size() > head_bytes && view.starts_with(magic) &&
                     view.substr(magic.size(), 64) == sha256_hex(view.substr(head_bytes));
  if (!whole) {
    fs::remove(path, ignored);
    return std::nullopt;
  }
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // the least recently used is pruned first
  return content.substr(head_bytes);
}

expected<void> code_cache::store(const std::string& key, const std::string& object) {
  if (folder_.empty()) return {};
  const auto path = path_of(key);
  const auto number = stored_++;
  const auto temporary = fmt::format("{}.{}.{}", path, ::getpid(), number);
  std::error_code problem;
  fs::create_directories(fs::path(path).parent_path(), problem);
  std::ofstream file(temporary, std::ios::binary);
  file << magic << sha256_hex(object) << '\n' << object;
  file.close();
  if (!file) {
    fs::remove(temporary, problem);
    return fail(errc::io_error, "the cache: cannot write {}: is the disk full?", temporary);
  }
  fs::rename(temporary, path, problem);
  if (problem) return fail(errc::io_error, "the cache: cannot rename {}: {}", temporary, problem.message());
  if (number % stores_between_prunes == 0) prune();
  return {};
}

void code_cache::prune() const {
  struct entry {
    fs::file_time_type time;
    int64_t bytes;
    fs::path path;
  };
  std::vector<entry> entries;
  int64_t total = 0;
  // Other processes add and remove files at the same time: skip those that no longer exist.
  std::error_code problem;
  for (fs::recursive_directory_iterator i(folder_, problem), end; i != end && !problem; i.increment(problem)) {
    std::error_code gone;
    const auto bytes = static_cast<int64_t>(i->file_size(gone));
    if (gone) continue;
    const auto time = i->last_write_time(gone);
    if (gone) continue;
    entries.push_back({time, bytes, i->path()});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const entry& a, const entry& b) { return a.time < b.time; });
  for (const auto& e : entries) {
    if (total <= limit_bytes_) break;
    std::error_code gone;
    if (fs::remove(e.path, gone)) total -= e.bytes;
  }
}

}  // namespace cudal1
