#include "actors/agent/cores.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cudal1 {

namespace {

bool holds(const std::vector<int>& cores, int core) {
  return std::find(cores.begin(), cores.end(), core) != cores.end();
}

// Takes up to `count` cores out of `left`, from its end, near ones first.
std::vector<int> take_cores(std::vector<int>& left, const core_request& request, int64_t count) {
  std::vector<int> taken;
  if (request.fixed_core >= 0) {
    taken.push_back(static_cast<int>(request.fixed_core));
    std::erase(left, taken.front());
    return taken;
  }
  for (const bool near_only : {true, false})
    for (std::size_t i = left.size(); i-- > 0 && static_cast<int64_t>(taken.size()) < count;) {
      if (near_only && !holds(request.near, left[i])) continue;
      taken.push_back(left[i]);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    }
  std::sort(taken.begin(), taken.end());
  return taken;
}

}  // namespace

core_layout lay_out_cores(std::vector<int> allowed, const std::vector<core_request>& requests) {
  core_layout l;
  l.all = std::move(allowed);
  int64_t most = 0;
  for (const auto& request : requests)
    most = std::max(most, request.count);
  for (; most >= 0; --most) {
    l.others = l.all;
    l.timing.clear();
    for (const bool fixed : {true, false})
      for (const auto& request : requests)
        if ((request.fixed_core >= 0) == fixed)
          l.timing[request.device] =
              take_cores(l.others, request, std::clamp(most, std::min(request.least, request.count), request.count));
    if (2 * l.others.size() >= l.all.size() || (most == 0 && !l.others.empty())) return l;
  }
  l.others = l.all;
  for (auto& [device, cores] : l.timing)
    cores.clear();
  return l;
}

std::optional<core_layout> lay_out_unclaimed_cores(const std::vector<int>& allowed,
                                                   const std::vector<core_request>& requests, machine_claims& claims) {
  const auto claim_of = [](int core) { return fmt::format("core-{}", core); };
  for (std::vector<int> left = allowed; !left.empty();) {
    core_layout l = lay_out_cores(left, requests);
    std::vector<int> ours, others;
    for (const auto& [device, cores] : l.timing)
      for (const int core : cores)
        (claims.take(claim_of(core)) ? ours : others).push_back(core);
    const bool all_served =
        std::ranges::all_of(requests, [&](const auto& r) { return r.count == 0 || !l.timing_of(r.device).empty(); });
    if (others.empty() && all_served) return l;
    for (const int core : ours)
      claims.give_back(claim_of(core));
    if (others.empty()) break;
    std::erase_if(left, [&](int core) { return holds(others, core); });
  }
  return std::nullopt;
}

void remark_on_missing_cores(core_layout& l, const std::vector<core_request>& requests) {
  for (const auto& r : requests)
    if (r.count > 0 && l.timing_of(r.device).empty())
      l.remarks[r.device] = fmt::format(
          "{} may be used, too few to keep any free for timing on {}: compilations and other work disturb its "
          "measurements; allow the node more cores (taskset, the container's cpuset)",
          l.all.size() == 1 ? "1 core" : fmt::format("{} cores", l.all.size()), r.device);
}

// Sessions of `cpu` take turns on such a core (core_turn).
core_layout lay_out_cores_of_node(const std::vector<int>& allowed, const std::vector<core_request>& requests,
                                  machine_claims& claims) {
  if (auto own = lay_out_unclaimed_cores(allowed, requests, claims)) return std::move(*own);
  core_layout l = lay_out_cores(allowed, requests);
  remark_on_missing_cores(l, requests);
  for (const auto& r : requests)
    for (const int core : l.timing_of(r.device)) {
      const auto taken = claims.take(fmt::format("core-{}", core));
      if (taken) continue;
      l.remarks[r.device] = fmt::format("core {}, on which {} is timed, is another node's for timing, too ({}): {}",
                                        core, r.device, taken.error().message,
                                        traits_of(r.device).is_accelerator
                                            ? "the two disturb each other's measurements"
                                            : "the two take turns, so each evaluation takes longer than on its own");
    }
  return l;
}

std::vector<int> core_layout::timing_of(const std::string& device) const {
  const auto found = timing.find(device);
  return found == timing.end() ? std::vector<int>{} : found->second;
}

std::vector<int> core_layout::seen_by(const std::string& device) const {
  std::vector<int> seen = all;
  for (const auto& entry : timing)
    if (entry.first != device) std::erase_if(seen, [&](int core) { return holds(entry.second, core); });
  return seen;
}

}  // namespace cudal1
