// A cache of compiled objects, indexed by a hash of everything that they depend on. Threads and processes can share it:
// files are renamed into place when complete, and contain a hash of their content that is checked when they are read.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

class code_cache {
 public:
  static constexpr int64_t default_limit_bytes = int64_t{1} << 30;

  // With an empty folder name nothing is cached. Errors: io_error.
  static expected<code_cache> open(std::string folder, int64_t limit_bytes = default_limit_bytes);
  code_cache(code_cache&& other) noexcept
      : folder_(std::move(other.folder_)), limit_bytes_(other.limit_bytes_), stored_(other.stored_.load()) {}

  // Nothing if there is no such file or it is damaged (it is then removed).
  std::optional<std::string> find(const std::string& key) const;
  // Removes the least recently used files when the folder exceeds its limit. Errors: io_error, which must not fail a
  // compilation: the object only has to be compiled again.
  expected<void> store(const std::string& key, const std::string& object);

 private:
  code_cache(std::string folder, int64_t limit_bytes) : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}
  std::string path_of(const std::string& key) const;
  void prune() const;

  std::string folder_;
  int64_t limit_bytes_;
  std::atomic<uint64_t> stored_{0};
};

}  // namespace cudal1
