#include "actors/coordinator/data_usage.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

namespace cudal1 {

namespace {

namespace fs = std::filesystem;

constexpr double gigabyte = 1e9;
constexpr double room_again = 0.98;  // of the quota, so that a search does not stop and go with each record

struct deletable {
  fs::path path;
  int64_t bytes = 0;
  fs::file_time_type time;
};

bool is_older_log(const fs::path& path) {
  const auto name = path.filename().string();
  return name.starts_with("node.") && name.ends_with(".log") && name != "node.log";
}

// Files come and go meanwhile: what cannot be read is left out.
std::vector<deletable> deletable_in(const std::string& data) {
  std::vector<deletable> found;
  std::error_code gone;
  const auto add = [&](const fs::directory_entry& e) {
    if (e.is_regular_file(gone))
      found.push_back({e.path(), static_cast<int64_t>(e.file_size(gone)), e.last_write_time(gone)});
  };
  for (fs::directory_iterator at(data, gone), end; !gone && at != end; at.increment(gone))
    if (is_older_log(at->path())) add(*at);
  gone.clear();
  for (fs::recursive_directory_iterator at(data + "/cache", gone), end; !gone && at != end; at.increment(gone))
    add(*at);
  std::ranges::sort(found, {}, &deletable::time);
  return found;
}

}  // namespace

data_usage::data_usage(std::string data, double quota_gb)
    : data_(std::move(data)), quota_bytes_(static_cast<int64_t>(quota_gb * gigabyte)) {}

message::disk_usage data_usage::measure() const {
  message::disk_usage now;
  now.quota_bytes = quota_bytes_;
  std::error_code gone;
  for (fs::recursive_directory_iterator at(data_, gone), end; !gone && at != end; at.increment(gone))
    if (std::error_code one; at->is_regular_file(one))
      if (const auto size = at->file_size(one); !one) now.used_bytes += static_cast<int64_t>(size);
  if (const auto space = fs::space(data_, gone); !gone) now.free_bytes = static_cast<int64_t>(space.available);
  return now;
}

int64_t data_usage::free_down_to(int64_t bytes) const {
  int64_t left = measure().used_bytes, freed = 0;
  for (const auto& file : deletable_in(data_)) {
    if (left - freed <= bytes) break;
    std::error_code problem;
    if (fs::remove(file.path, problem)) freed += file.bytes;
  }
  return freed;
}

std::string data_usage::lasting_problem_of(const message::disk_usage& now) const {
  return problem_above(now, room_again);
}

std::string data_usage::problem_above(const message::disk_usage& now, double share_of_quota) const {
  if (quota_bytes_ == 0) return "";
  const double limit = static_cast<double>(quota_bytes_) * share_of_quota;
  if (static_cast<double>(now.used_bytes) < limit) return "";
  return fmt::format(
      "the data folder {} has {:.3g} GB, and its quota is {:.3g} GB (operation.disk_quota_gb): nothing new is "
      "evaluated until "
      "there is room; `cudal1 store prune` removes old records, or raise the quota",
      data_, static_cast<double>(now.used_bytes) / gigabyte, static_cast<double>(quota_bytes_) / gigabyte);
}

}  // namespace cudal1
