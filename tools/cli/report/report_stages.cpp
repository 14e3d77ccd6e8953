// The time of a search by stage of an evaluation.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "actors/messages/protocol.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

// In the order of an evaluation; unknown stages (of a newer node) come last.
std::vector<std::string> stages_of(const search_report& r) {
  static constexpr std::array<std::string_view, 3> before = {"propose", "compile", "wait"};
  std::vector<std::string> stages;
  const auto add = [&](std::string_view stage) {
    if (r.stage_ms.contains(std::string(stage))) stages.emplace_back(stage);
  };
  std::for_each(before.begin(), before.end(), add);
  std::for_each(device_stages.begin(), device_stages.end(), add);
  for (const auto& [stage, ms] : r.stage_ms)
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
  return stages;
}

bool holds_device(const std::string& stage) {
  return std::find(device_stages.begin(), device_stages.end(), stage) != device_stages.end();
}

}  // namespace

std::string print_stages(const search_report& r, const terminal& t) {
  const auto stages = stages_of(r);
  if (stages.empty() || r.evaluations == 0) return "";
  const double on_device = device_ms_of(r.stage_ms);
  table out({{.title = "stage"},
             {.title = "mean of an evaluation", .right = true},
             {.title = "share of the device's time", .right = true}});
  for (const auto& stage : stages) {
    const double ms = r.stage_ms.at(stage);
    out.add({stage, format_time(1000 * ms / static_cast<double>(r.evaluations)),
             holds_device(stage) && on_device > 0 ? fmt::format("{:.0f}%", 100 * ms / on_device) : "-"});
  }
  std::string text = out.text(t);
  if (r.device_busy > 0)
    text += fmt::format("{} was busy for {:.0f}% of the time.\n", r.devices > 1 ? "A device" : "The device",
                        100 * r.device_busy);
  if (r.policy_wait > 0.0005)
    text += fmt::format("It waited for the policy's proposals, with nothing else to do, for {:.1f}% of the time.\n",
                        100 * r.policy_wait);
  return text;
}

}  // namespace cudal1::cli
