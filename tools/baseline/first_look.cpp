#include "tools/baseline/first_look.hpp"

#include <fmt/format.h>

#include "config/device_data.hpp"
#include "tools/baseline/step_times.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t fewest_steps = 16;
// An evaluation is some 150 calls, of which some are in float64.
constexpr double slow_call_us = 250'000;

}  // namespace

bool is_worth_a_look(const task& t) {
  return t.reference.text.steps.size() >= fewest_steps;
}

expected<first_look> look_at(const task& t, const environment& where, int wake_fd) {
  CUDAL1_TRY(const auto device, find_device_data(where.model));
  CUDAL1_TRY(const auto measured, measure_steps(t, where.device, 1, wake_fd));
  return look_from(t, time_table_of(t, measured.step_us, device));
}

first_look look_from(const task& t, time_table times) {
  first_look look;
  look.times = std::move(times);
  const time_row* const repeated = longest_repeated(look.times);
  if (!t.is_whole_model() || look.times.total_us < slow_call_us || repeated == nullptr) return look;
  look.part = repeated->name;
  look.reason = fmt::format(
      "A call takes {}, and an evaluation of the whole minutes. In its place {} is searched, which stands for {} "
      "modules and {:.0f}% of the time; `--module .` searches the whole.",
      format_time(look.times.total_us), repeated->name, repeated->calls, 100 * repeated->us / look.times.total_us);
  return look;
}

}  // namespace cudal1::cli
