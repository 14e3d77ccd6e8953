#include "sandbox/verify/disturbance.hpp"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

namespace cudal1 {

namespace {

constexpr double least_share = 0.05, least_ms = 30;
constexpr double least_named_share = 0.01;  // of one process

std::string percent(double ms, const core_sharing& of) {
  return fmt::format("{:.0f}%", 100 * ms / of.watched_ms);
}

bool is_worth_a_word(double ms, const core_sharing& of) {
  return ms >= least_ms && ms >= least_share * of.watched_ms;
}

}  // namespace

std::string describe(const core_sharing& s) {
  std::vector<std::string> found;
  if (is_worth_a_word(s.others_ms, s)) {
    std::vector<std::string> users;
    double unknown_ms = s.others_ms;
    for (const auto& user : s.users) {
      if (user.ms < least_named_share * s.watched_ms) continue;
      users.push_back(fmt::format("{}, process {}: {}", user.name, user.pid, percent(user.ms, s)));
      unknown_ms -= user.ms;
    }
    if (is_worth_a_word(unknown_ms, s))
      users.push_back(fmt::format("{}processes that have ended or moved to other cores: {}",
                                  users.empty() ? "" : "and ", percent(unknown_ms, s)));
    found.push_back(fmt::format("was used by other processes for {} of the time ({})", percent(s.others_ms, s),
                                fmt::join(users, "; ")));
  }
  if (is_worth_a_word(s.stolen_ms, s))
    found.push_back(fmt::format("was taken by the machine's hypervisor for {} of the time", percent(s.stolen_ms, s)));
  if (found.empty()) return "";
  return fmt::format("core {}, on which it was timed, {}", s.core, fmt::join(found, " and "));
}

void add(core_sharing& all, const core_sharing& one) {
  all.core = one.core;
  all.watched_ms += one.watched_ms;
  all.others_ms += one.others_ms;
  all.stolen_ms += one.stolen_ms;
  for (const auto& user : one.users) {
    const auto known = std::ranges::find(all.users, user.pid, &core_user::pid);
    if (known == all.users.end())
      all.users.push_back(user);
    else
      known->ms += user.ms;
  }
  std::ranges::sort(all.users, std::greater(), &core_user::ms);
  constexpr std::size_t most_named = 3;
  if (all.users.size() > most_named) all.users.resize(most_named);
}

}  // namespace cudal1
