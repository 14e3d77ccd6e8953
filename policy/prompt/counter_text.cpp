#include "policy/prompt/counter_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/quantities.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t longest_kernel_name = 60;

void add_share(std::vector<std::string>& to, const char* what, const std::optional<double>& pct) {
  if (pct) to.push_back(fmt::format("{} {:.0f}%", what, *pct));
}

std::string occupancy_text(const kernel_counters& k) {
  if (!k.occupancy_pct) return "";
  auto text = fmt::format("occupancy {:.0f}%", *k.occupancy_pct);
  if (k.most_occupancy_pct) text += fmt::format(" of {:.0f}%", *k.most_occupancy_pct);
  return k.limited_by.empty() ? text : text + fmt::format(" (limited by {})", fmt::join(k.limited_by, ", "));
}

}  // namespace

std::string usage_text(const kernel_counters& k) {
  std::vector<std::string> parts, peaks;
  if (auto occupancy = occupancy_text(k); !occupancy.empty()) parts.push_back(std::move(occupancy));
  add_share(peaks, "DRAM", k.dram_pct);
  add_share(peaks, "L2", k.l2_pct);
  add_share(peaks, "tensor cores", k.tensor_pct);
  add_share(peaks, "FMA", k.fma_pct);
  if (!peaks.empty()) parts.push_back(fmt::format("{} of peak", fmt::join(peaks, ", ")));
  if (!k.near_roof.empty()) parts.push_back("near the roof of " + k.near_roof);
  if (k.waves) parts.push_back(fmt::format("{:.3g} waves", *k.waves));
  if (k.spill_requests && *k.spill_requests > 0) parts.push_back("registers spill to memory");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string stalls_text(const kernel_counters& k) {
  std::vector<std::string> parts;
  for (const auto& s : k.stalls)
    parts.push_back(fmt::format("{} {:.0f}%", s.words, 100 * s.share));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> counter_lines(const counter_profile& p) {
  if (p.kernels.empty()) return {};
  const auto& longest = p.kernels.front();
  std::vector<std::string> lines{fmt::format("Counters of {} ({}, {:.0f}% of its kernels' time): {}",
                                             longest.kernel.substr(0, longest_kernel_name), time_text(longest.us),
                                             100 * longest.share, usage_text(longest))};
  const auto& advice =
      longest.near_roof.empty() && !longest.stalls.empty() ? longest.stalls.front().advice : longest.roof_advice;
  const auto waits = longest.stalls.empty() ? "" : fmt::format("Its warps wait for: {}. ", stalls_text(longest));
  if (!advice.empty()) lines.push_back(waits + "To try: " + advice);
  return lines;
}

}  // namespace cudal1
