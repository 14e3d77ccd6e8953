#include "actors/agent/result_spool.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <spdlog/spdlog.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"

namespace cudal1 {

namespace {
constexpr const char* ending = ".json";
constexpr const char* unfinished = "unfinished-";
}  // namespace

std::string result_spool::path_of(uint64_t lease) const {
  return fmt::format("{}/{}{}", folder_, lease, ending);
}

expected<void> result_spool::put(const message::work_done& m) const {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  return write_durably({.path = path_of(m.lease), .temporary_prefix = folder_ + "/" + unfinished}, to_text(m));
}

void result_spool::remove(uint64_t lease) const {
  std::error_code problem;
  std::filesystem::remove(path_of(lease), problem);
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
