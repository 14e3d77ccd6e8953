#include "actors/work_queue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
// So many waiting evaluations take one device longer than another one needs for new draws.
constexpr int64_t long_queue = 3;
}  // namespace

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
  if (!measures(device)) idle_.insert(device);
}

void work_queue::measured(uint64_t id) {
  if (const auto found = leases_.find(id); found != leases_.end()) found->second.measured = true;
}

void work_queue::extend(uint64_t id, std::chrono::milliseconds limit) {
  if (const auto found = leases_.find(id); found != leases_.end())
    found->second.limit = std::max(found->second.limit, limit);
}

bool work_queue::measures(const std::string& device) const {
  return std::ranges::any_of(leases_, [&](const auto& l) { return l.second.device == device && !l.second.measured; });
}

std::vector<uint64_t> work_queue::leases_of(const std::string& device) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, held] : leases_)
    if (held.device == device) ids.push_back(id);
  return ids;
}

const std::string& work_queue::preferred_device(const message::work_item& item) const {
  static const std::string none;
  const auto found = last_devices_.find(item.attempt.task);
  if (found == last_devices_.end() || !names_device(item.device, found->second)) return none;
  return idle_.contains(found->second) || measures(found->second) ? found->second : none;
}

work_queue::waiting_items::iterator work_queue::best_for(const std::string& device) {
  const auto is_first_choice = [&](const auto& item) {
    const auto& home = preferred_device(item);
    return names_device(item.device, device) && (home.empty() || home == device);
  };
  const auto first = std::ranges::find_if(waiting_, is_first_choice);
  if (first != waiting_.end()) return first;
  // The one that would wait longest: the last of the longest queue.
  std::map<std::string, int64_t> at_home;
  for (const auto& item : waiting_)
    if (names_device(item.device, device)) ++at_home[preferred_device(item)];
  const auto longest = std::ranges::max_element(at_home, {}, [](const auto& home) { return home.second; });
  if (longest == at_home.end() || longest->second < long_queue) return waiting_.end();
  const auto last = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const auto& item) {
    return names_device(item.device, device) && preferred_device(item) == longest->first;
  });
  return std::prev(last.base());
}

std::optional<work_queue::assignment> work_queue::next(time_point now) {
  for (const auto& device : idle_) {
    const auto item = best_for(device);
    if (item == waiting_.end()) continue;
    assignment result{device, std::move(*item)};
    idle_.erase(device);
    waiting_.erase(item);
    last_devices_[result.item.attempt.task] = result.device;
    result.item.lease = ++last_lease_;
    leases_[last_lease_] = {result.device, result.item.attempt, now, lease_limit_};
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

std::vector<work_queue::lease> work_queue::drop_device(const std::string& device) {
  idle_.erase(device);
  std::vector<lease> lost;
  for (const auto& [id, held] : leases_)
    if (held.device == device) lost.push_back(held);
  std::erase_if(leases_, [&](const auto& l) { return l.second.device == device; });
  return lost;
}

std::vector<std::pair<uint64_t, work_queue::lease>> work_queue::overdue(time_point now) {
  std::vector<std::pair<uint64_t, lease>> result;
  for (auto& [id, held] : leases_) {
    if (held.measured || held.reports >= 2 || now < held.begun + held.limit) continue;
    ++held.reports;
    held.limit += held.limit / 5;
    result.emplace_back(id, held);
  }
  return result;
}

std::vector<attempt_record> work_queue::withdraw(const std::string& experiment) {
  std::vector<attempt_record> removed;
  std::erase_if(waiting_, [&](const auto& item) {
    const bool its = item.attempt.experiment == experiment;
    if (its) removed.push_back(item.attempt);
    return its;
  });
  return removed;
}

}  // namespace cudal1
