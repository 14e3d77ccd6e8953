#include "actors/coordinator/work_queue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sandbox/device/device_names.hpp"

namespace cudal1 {

namespace {
constexpr std::size_t most_held = 32;  // tasks that a device is taken to have ready
constexpr double share_of_new = 0.1;   // of the last evaluation in the mean duration
constexpr double longest_draws_s = 5;  // that are waited for
}  // namespace

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

void work_queue::offer(message::work_item item, time_point now) {
  if (!known_.insert(key_of(item.attempt)).second) return;
  auto& s = shares_[item.attempt.experiment];
  enter(s);
  s.ended = false;
  auto& in = s.lanes[item.device];
  const std::string task = item.attempt.task, list = item.device;
  in.tasks[task].emplace(++last_offer_, waiting_item{std::move(item), now});
  ++waiting_;
  try_for(list, in, task);
}

bool work_queue::takes(lane& in, const std::string& list, const std::string& device) {
  const auto [known, is_new] = in.takes.try_emplace(device, false);
  if (is_new) known->second = names_device(list, device);
  return known->second;
}

// Marks an idle device that may take an evaluation of a task: one that has it, or else any, which may take another one
// that has waited long enough.
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
      for (const auto& [order, waiting] : items) {
        removed.push_back(waiting.item.attempt);
        known_.erase(key_of(waiting.item.attempt));
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
      holders_[task].insert(device);
  idle_.insert(device);
  to_try_.insert(device);
}

void work_queue::not_idle(const std::string& device) {
  idle_.erase(device);
  to_try_.erase(device);
  if (present_.erase(device) == 0) return;
  for (const auto& task : holds_[device])
    holders_[task].erase(device);
  to_try_ = idle_;
}

bool work_queue::measures(const std::string& device) const {
  return measuring_.contains(device);
}

bool work_queue::hold(const std::string& device, const std::string& task) {
  auto& tasks = holds_[device];
  const bool is_new = std::erase(tasks, task) == 0;
  tasks.push_back(task);
  holders_[task].insert(device);
  if (tasks.size() > most_held) {
    holders_[tasks.front()].erase(device);
    tasks.erase(tasks.begin());
  }
  return is_new;
}

// ---- handing out --------------------------------------------------------------------------------------------------

bool work_queue::waits_for_others(const std::string& task, const std::string& device, const std::string& list,
                                  lane& in) const {
  const auto holders = holders_.find(task);
  return holders != holders_.end() && !holders->second.contains(device) &&
         std::ranges::any_of(holders->second, [&](const auto& other) { return takes(in, list, other); });
}

std::optional<work_queue::place> work_queue::find_for(const std::string& device, const std::string& list, lane& in,
                                                      time_point late_since) const {
  std::optional<place> first, late;
  for (const auto& [task, items] : in.tasks) {
    const auto& [order, waiting] = *items.begin();
    if (first && first->order < order) continue;
    if (!waits_for_others(task, device, list, in))
      first = place{&in, task, order};
    else if (waiting.since <= late_since && (!late || order < late->order))
      late = place{&in, task, order};
  }
  return first ? first : late;
}

std::optional<std::pair<std::string, work_queue::place>> work_queue::best_for(const std::string& device,
                                                                              time_point now) {
  std::vector<std::pair<double, const std::string*>> experiments;
  for (const auto& [name, s] : shares_)
    if (!s.lanes.empty()) experiments.emplace_back(s.served_s, &name);
  std::ranges::sort(experiments);
  for (const auto& [served, name] : experiments) {
    std::optional<place> first;
    auto& s = shares_.at(*name);
    const std::chrono::duration<double> for_draws(s.draws_s);
    const auto late_since = now - std::chrono::duration_cast<time_point::duration>(for_draws);
    for (auto& [list, in] : s.lanes) {
      if (!takes(in, list, device)) continue;
      const auto found = find_for(device, list, in, late_since);
      if (found && (!first || found->order < first->order)) first = found;
    }
    if (first) return std::pair(*name, *first);
  }
  return std::nullopt;
}

message::work_item work_queue::remove(const std::string& experiment, const place& where) {
  auto& items = where.in->tasks.at(where.task);
  auto item = std::move(items.at(where.order).item);
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
    const auto found = best_for(device, now);
    to_try_.erase(device);
    if (!found) continue;
    idle_.erase(device);
    assignment result{device, remove(found->first, found->second)};
    const bool is_new = hold(device, result.item.attempt.task);
    result.item.lease = ++last_lease_;
    auto& held = leases_[last_lease_];
    static_cast<lease&>(held) = {device, result.item.attempt, now, lease_limit_};
    held.is_new = is_new;
    leases_on_[device].insert(last_lease_);
    measuring_.insert(device);
    const auto& s = shares_.at(found->first);
    charge(held, s.mean_s + (is_new ? s.draws_s : 0));
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
  auto& s = shares_.at(held.attempt.experiment);
  if (held.is_new)
    s.draws_s += share_of_new * (std::clamp(took_s - s.mean_s, 0.0, longest_draws_s) - s.draws_s);
  else
    s.mean_s += share_of_new * (took_s - s.mean_s);
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
