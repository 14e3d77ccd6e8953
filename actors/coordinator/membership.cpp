#include "actors/coordinator/membership.hpp"

#include <algorithm>

namespace cudal1 {

expected<membership::admission> membership::join(const std::string& name, uint64_t incarnation, time_point now) {
  const auto known = members_.find(name);
  const bool same = known != members_.end() && known->second.incarnation == incarnation;
  if (known != members_.end() && !same && known->second.now == state::present)
    return fail(
        errc::already_exists,
        "a machine named \"{}\" is in this cluster and alive: each needs a certificate of its own, and a process "
        "that was killed is noticed after {} s",
        name, std::chrono::duration<double>(limits_.failure).count());
  const admission how = known == members_.end() ? admission::first : same ? admission::again : admission::restarted;
  auto& m = members_[name];
  m.incarnation = incarnation;
  m.epoch = ++last_epoch_;
  m.now = state::present;
  m.leaving = m.beating = false;
  m.heard = m.since = now;
  return how;
}

bool membership::heard(const std::string& name, uint64_t epoch, time_point now) {
  const auto found = members_.find(name);
  if (found == members_.end() || found->second.epoch != epoch || found->second.now != state::present) return false;
  found->second.heard = now;
  found->second.beating = true;
  return true;
}

bool membership::lost(const std::string& name, time_point now) {
  auto& m = members_.at(name);
  if (m.now != state::present) return false;
  m.now = state::away;
  m.since = now;
  return true;
}

void membership::left(const std::string& name, time_point now) {
  auto& m = members_.at(name);
  m.now = state::left;
  m.since = now;
}

std::vector<std::string> membership::silent(time_point now) const {
  std::vector<std::string> names;
  for (const auto& [name, m] : members_)
    if (m.now == state::present &&
        now - m.heard > (m.beating ? limits_.failure : std::max(limits_.failure, limits_.answer)))
      names.push_back(name);
  return names;
}

std::vector<std::string> membership::newly_absent(time_point now) {
  std::vector<std::string> names;
  for (auto& [name, m] : members_) {
    if (m.now != state::away || now - m.since < limits_.rejoin) continue;
    m.now = state::absent;
    names.push_back(name);
  }
  return names;
}

bool membership::is_present(const std::string& name) const {
  const auto found = members_.find(name);
  return found != members_.end() && found->second.now == state::present;
}

bool membership::takes_work(const std::string& name) const {
  return is_present(name) && !members_.at(name).draining && !members_.at(name).leaving;
}

}  // namespace cudal1
