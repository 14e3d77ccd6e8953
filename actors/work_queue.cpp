#include "actors/work_queue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "config/device_names.hpp"

namespace cudal1 {

namespace {
constexpr std::chrono::minutes grace{1};
}

bool same_attempt(const attempt_record& a, const attempt_record& b) {
  return a.experiment == b.experiment && a.task == b.task && a.variant == b.variant && a.number == b.number;
}

std::string attempt_key(const attempt_record& a) {
  return fmt::format("{}/{}/{}/{}", a.experiment, a.task.substr(0, 12), a.variant.substr(0, 12), a.number);
}

void work_queue::offer(message::work_item item) {
  for (const auto& waiting : waiting_)
    if (same_attempt(waiting.attempt, item.attempt)) return;
  for (const auto& [id, held] : leases_)
    if (same_attempt(held.attempt, item.attempt)) return;
  waiting_.push_back(std::move(item));
}

void work_queue::idle(const std::string& device) {
  const bool holds =
      std::any_of(leases_.begin(), leases_.end(), [&](const auto& l) { return l.second.device == device; });
  if (!holds) idle_.insert(device);
}

std::optional<work_queue::assignment> work_queue::next(time_point now) {
  for (auto item = waiting_.begin(); item != waiting_.end(); ++item) {
    const auto device =
        std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) { return names_device(item->device, idle); });
    if (device == idle_.end()) continue;
    assignment result{*device, std::move(*item)};
    idle_.erase(device);
    waiting_.erase(item);
    result.item.lease = ++last_lease_;
    leases_[last_lease_] = {result.device, result.item.attempt, now + lease_limit_};
    return result;
  }
  return std::nullopt;
}

std::optional<work_queue::lease> work_queue::release(uint64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  lease ended = std::move(found->second);
  leases_.erase(found);
  return ended;
}

std::optional<work_queue::lease> work_queue::drop_device(const std::string& device) {
  idle_.erase(device);
  for (const auto& [id, held] : leases_)
    if (held.device == device) return release(id);
  return std::nullopt;
}

std::vector<std::pair<uint64_t, work_queue::lease>> work_queue::overdue(time_point now) {
  std::vector<std::pair<uint64_t, lease>> result;
  for (auto& [id, held] : leases_) {
    if (held.reports >= 2 || now < held.deadline) continue;
    ++held.reports;
    held.deadline = now + grace;
    result.emplace_back(id, held);
  }
  return result;
}

std::size_t work_queue::withdraw(const std::string& experiment) {
  return std::erase_if(waiting_, [&](const auto& item) { return item.attempt.experiment == experiment; });
}

}  // namespace cudal1
