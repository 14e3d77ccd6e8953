#include "actors/work_queue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
// So many waiting evaluations take one device longer than another one needs for new draws.
constexpr double long_queue = 3;
constexpr std::size_t most_held = 32;  // tasks that a device is taken to have ready
// Holders of waiting tasks, each counted once a task, up to which the queue of every device is looked at.
constexpr std::size_t most_compared = 64;
constexpr double share_of_new = 0.1;  // of the last evaluation in the mean duration
}  // namespace

bool same_attempt(const attempt_record& a, const attempt_record& b) {
  return a.experiment == b.experiment && a.task == b.task && a.variant == b.variant && a.number == b.number;
}

std::string attempt_key(const attempt_record& a) {
  return fmt::format("{}/{}/{}/{}", a.experiment, a.task.substr(0, 12), a.variant.substr(0, 12), a.number);
}

std::string work_queue::key_of(const attempt_record& a) {
  return fmt::format("{}/{}/{}/{}", a.experiment, a.task, a.variant, a.number);
}

// ---- what waits ---------------------------------------------------------------------------------------------------

void work_queue::set_weight(const std::string& experiment, double weight) {
  shares_[experiment].weight = weight;
}

// An experiment that had nothing to do does not make up for it.
void work_queue::enter(share& s) {
  if (s.active++ > 0) return;
  std::optional<double> least;
  for (const auto& [name, other] : shares_)
    if (&other != &s && other.active > 0) least = std::min(least.value_or(other.served_s), other.served_s);
  if (least) s.served_s = std::max(s.served_s, *least);
}

void work_queue::offer(message::work_item item) {
  if (!known_.insert(key_of(item.attempt)).second) return;
  auto& s = shares_[item.attempt.experiment];
  enter(s);
  s.ended = false;
  auto& in = s.lanes[item.device];
  const std::string task = item.attempt.task, list = item.device;
  in.tasks[task].emplace(++last_offer_, std::move(item));
  ++waiting_;
  try_for(list, in, task);
}

bool work_queue::takes(lane& in, const std::string& list, const std::string& device) {
  const auto [known, is_new] = in.takes.try_emplace(device, false);
  if (is_new) known->second = names_device(list, device);
  return known->second;
}

// Marks an idle device that may take an evaluation of a task: one that has it, or any if none has it or their queues
// may be long.
void work_queue::try_for(const std::string& list, lane& in, const std::string& task) {
  const auto holders = holders_.find(task);
  if (holders != holders_.end())
    for (const auto& device : holders->second)
      if (idle_.contains(device) && takes(in, list, device)) {
        to_try_.insert(device);
        return;
      }
  for (const auto& device : idle_)
    if (!to_try_.contains(device) && takes(in, list, device)) {
      to_try_.insert(device);
      return;
    }
}

std::vector<attempt_record> work_queue::withdraw(const std::string& experiment) {
  std::vector<attempt_record> removed;
  const auto found = shares_.find(experiment);
  if (found == shares_.end()) return removed;
  for (auto& [list, in] : found->second.lanes)
    for (const auto& [task, items] : in.tasks)
      for (const auto& [order, item] : items) {
        removed.push_back(item.attempt);
        known_.erase(key_of(item.attempt));
      }
  waiting_ -= removed.size();
  found->second.active -= removed.size();
  found->second.lanes.clear();
  found->second.ended = true;
  if (found->second.active == 0) shares_.erase(found);
  return removed;
}

// ---- devices ------------------------------------------------------------------------------------------------------

void work_queue::idle(const std::string& device) {
  if (measures(device)) return;
  if (present_.insert(device).second)
    for (const auto& task : holds_[device])
      add_holder(task, device);
  idle_.insert(device);
  to_try_.insert(device);
}

void work_queue::not_idle(const std::string& device) {
  idle_.erase(device);
  to_try_.erase(device);
  if (present_.erase(device) == 0) return;
  for (const auto& task : holds_[device])
    remove_holder(task, device);
  to_try_ = idle_;
}

bool work_queue::measures(const std::string& device) const {
  return measuring_.contains(device);
}

void work_queue::add_holder(const std::string& task, const std::string& device) {
  auto& all = holders_[task];
  if (all.insert(device).second) ++all.version;
}

void work_queue::remove_holder(const std::string& task, const std::string& device) {
  auto& all = holders_[task];
  if (all.erase(device) > 0) ++all.version;
}

void work_queue::hold(const std::string& device, const std::string& task) {
  auto& tasks = holds_[device];
  std::erase(tasks, task);
  tasks.push_back(task);
  add_holder(task, device);
  if (tasks.size() <= most_held) return;
  remove_holder(tasks.front(), device);
  tasks.erase(tasks.begin());
}

// ---- handing out --------------------------------------------------------------------------------------------------

std::optional<work_queue::place> work_queue::find_for(const std::string& device, const std::string& list, lane& in) {
  std::optional<place> first;
  for (const auto& [task, items] : in.tasks) {
    const uint64_t order = items.begin()->first;
    if (first && first->order < order) continue;
    const auto holders = holders_.find(task);
    const bool is_held_elsewhere =
        holders != holders_.end() && !holders->second.contains(device) &&
        std::ranges::any_of(holders->second, [&](const auto& other) { return takes(in, list, other); });
    if (!is_held_elsewhere) first = place{&in, task, order};
  }
  return first ? first : find_in_long_queue(device, list, in);
}

std::size_t work_queue::able_devices(const std::string& list, lane& in, const std::string& task) const {
  const auto found = holders_.find(task);
  if (found == holders_.end()) return 0;
  auto& [version, count] = in.able[task];
  if (version != found->second.version) {
    version = found->second.version;
    count = static_cast<std::size_t>(
        std::ranges::count_if(found->second, [&](const auto& device) { return takes(in, list, device); }));
  }
  return count;
}

std::optional<work_queue::place> work_queue::find_in_long_queue(const std::string& device, const std::string& list,
                                                                lane& in) {
  std::size_t holders = 0;
  for (const auto& [task, items] : in.tasks)
    holders += able_devices(list, in, task);
  if (holders <= most_compared) return find_in_longest_queue(device, list, in);
  // Of many devices, those of one task have queues of about the same length.
  std::optional<place> last;
  double longest = long_queue;
  for (const auto& [task, items] : in.tasks) {
    const auto able = static_cast<double>(std::max<std::size_t>(able_devices(list, in, task), 1));
    const double length = static_cast<double>(items.size()) / able;
    if (length < longest) continue;
    longest = length;
    last = place{&in, task, items.rbegin()->first};
  }
  return last;
}

// The evaluation that would wait longest: the last one of the longest queue.
std::optional<work_queue::place> work_queue::find_in_longest_queue(const std::string& device, const std::string& list,
                                                                   lane& in) {
  std::map<std::string, double> queues;
  for (const auto& [task, items] : in.tasks) {
    devices able;
    for (const auto& other : holders_[task])
      if (other != device && takes(in, list, other)) able.insert(other);
    for (const auto& other : able)
      queues[other] += static_cast<double>(items.size()) / static_cast<double>(able.size());
  }
  const auto longest = std::ranges::max_element(queues, {}, [](const auto& queue) { return queue.second; });
  if (longest == queues.end() || longest->second < long_queue) return std::nullopt;
  std::optional<place> last;
  for (const auto& [task, items] : in.tasks) {
    const uint64_t order = items.rbegin()->first;
    if (holders_[task].contains(longest->first) && (!last || order > last->order)) last = place{&in, task, order};
  }
  return last;
}

std::optional<std::pair<std::string, work_queue::place>> work_queue::best_for(const std::string& device) {
  std::vector<std::pair<double, const std::string*>> experiments;
  for (const auto& [name, s] : shares_)
    if (!s.lanes.empty()) experiments.emplace_back(s.served_s, &name);
  std::ranges::sort(experiments);
  for (const auto& [served, name] : experiments) {
    std::optional<place> first;
    for (auto& [list, in] : shares_.at(*name).lanes) {
      if (!takes(in, list, device)) continue;
      const auto found = find_for(device, list, in);
      if (found && (!first || found->order < first->order)) first = found;
    }
    if (first) return std::pair(*name, *first);
  }
  return std::nullopt;
}

message::work_item work_queue::remove(const std::string& experiment, const place& where) {
  auto& items = where.in->tasks.at(where.task);
  auto item = std::move(items.at(where.order));
  items.erase(where.order);
  if (items.empty()) where.in->tasks.erase(where.task);
  auto& lanes = shares_.at(experiment).lanes;
  if (where.in->tasks.empty()) lanes.erase(item.device);
  --waiting_;
  return item;
}

std::optional<work_queue::assignment> work_queue::next(time_point now) {
  while (!to_try_.empty()) {
    const std::string device = *to_try_.begin();
    const auto found = best_for(device);
    to_try_.erase(device);
    if (!found) continue;
    idle_.erase(device);
    assignment result{device, remove(found->first, found->second)};
    hold(device, result.item.attempt.task);
    result.item.lease = ++last_lease_;
    auto& held = leases_[last_lease_];
    static_cast<lease&>(held) = {device, result.item.attempt, now, lease_limit_};
    leases_on_[device].insert(last_lease_);
    measuring_.insert(device);
    charge(held, shares_.at(found->first).mean_s);
    return result;
  }
  return std::nullopt;
}

// ---- leases -------------------------------------------------------------------------------------------------------

void work_queue::charge(held_lease& held, double seconds) {
  auto& s = shares_.at(held.attempt.experiment);
  s.served_s += (seconds - held.charged_s) / s.weight;
  held.charged_s = seconds;
}

void work_queue::end_measuring(const held_lease& held) {
  if (!held.measured) measuring_.erase(held.device);
}

void work_queue::measured(uint64_t id, time_point now) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.measured) return;
  auto& held = found->second;
  const double took_s = std::chrono::duration<double>(now - held.begun).count();
  auto& mean_s = shares_.at(held.attempt.experiment).mean_s;
  mean_s += share_of_new * (took_s - mean_s);
  charge(held, took_s);
  end_measuring(held);
  held.measured = true;
}

void work_queue::extend(uint64_t id, std::chrono::milliseconds limit) {
  if (const auto found = leases_.find(id); found != leases_.end())
    found->second.limit = std::max(found->second.limit, limit);
}

void work_queue::forget(uint64_t id) {
  const auto found = leases_.find(id);
  const held_lease& held = found->second;
  end_measuring(held);
  known_.erase(key_of(held.attempt));
  leases_on_[held.device].erase(id);
  if (const auto s = shares_.find(held.attempt.experiment); --s->second.active == 0 && s->second.ended)
    shares_.erase(s);
  leases_.erase(found);
}

std::optional<work_queue::lease> work_queue::release(uint64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  lease ended = found->second;
  forget(id);
  return ended;
}

std::vector<work_queue::lease> work_queue::drop_device(const std::string& device) {
  not_idle(device);
  std::vector<lease> lost;
  for (const uint64_t id : leases_of(device)) {
    lost.push_back(leases_.at(id));
    forget(id);
  }
  return lost;
}

std::vector<uint64_t> work_queue::leases_of(const std::string& device) const {
  const auto found = leases_on_.find(device);
  return found == leases_on_.end() ? std::vector<uint64_t>{}
                                   : std::vector<uint64_t>(found->second.begin(), found->second.end());
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

}  // namespace cudal1
