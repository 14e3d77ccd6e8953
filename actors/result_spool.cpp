#include "actors/result_spool.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "config/base/describe.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {
constexpr const char* ending = ".json";
constexpr const char* unfinished = ".part";
}  // namespace

std::string result_spool::path_of(uint64_t lease) const {
  return fmt::format("{}/{}{}", folder_, lease, ending);
}

// A name without that ending is of a write that did not end. The folder is not synced: a file that a power cut takes is
// an evaluation to repeat.
expected<void> result_spool::put(const message::work_done& m) const {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  const std::string path = path_of(m.lease), part = path + unfinished, text = to_text(m);
  const unique_fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool written = fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fdatasync(fd.get()) == 0 && ::rename(part.c_str(), path.c_str()) == 0;
  if (written) return {};
  return fail(errc::io_error, "cannot write {}: {}", path, std::strerror(errno));
}

void result_spool::remove(uint64_t lease) const {
  ::unlink(path_of(lease).c_str());
}

std::vector<message::work_done> result_spool::load() const {
  std::vector<message::work_done> all;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, problem)) {
    if (entry.path().extension() == ending) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(in)), {});
      if (auto read = from_text<message::work_done>(text)) {
        all.push_back(std::move(*read));
        continue;
      }
      spdlog::warn("agent: {} is damaged: its evaluation is repeated", entry.path().string());
    }
    std::filesystem::remove(entry.path(), problem);
  }
  return all;
}

}  // namespace cudal1
