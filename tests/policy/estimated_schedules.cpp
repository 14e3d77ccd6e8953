// Prints the whole schedules of tasks with their estimates, for a GPU that config/devices has:
//
//   estimated_schedules GPU TASK.json ...    GPU: as in "NVIDIA H200"; with PROGRAM=TEXT in the environment also the
//                                            programs of schedules that contain the text, and with SCHEDULE=MOVES those
//                                            of this schedule alone
#include <cstdlib>

#include <fmt/format.h>

#include "policy/search/schedule_estimates.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {
namespace {

void print_schedules(const task& t, const lowering_target& target, const device_data& gpu) {
  const char* const wanted = std::getenv("PROGRAM");
  const char* const only = std::getenv("SCHEDULE");
  fmt::print("{}\n", t.name);
  const auto chosen = only == nullptr ? std::nullopt : std::optional(parse_schedule(only));
  if (chosen && !*chosen) return fmt::print(stderr, "SCHEDULE: {}\n", chosen->error().message);
  for (const auto& s : chosen ? std::vector<schedule>{**chosen} : whole_schedules(t, target)) {
    schedule_builder b = repaired(t, target, s.moves);
    const std::string text = print_schedule(s);
    fmt::print("  {:8.1f} us  {}\n", estimated_us(t, b, gpu).value_or(-1), text);
    if (const auto whole = lower(t, s, target); chosen && !whole)
      fmt::print(stderr, "not all of it: {}\n", whole.error().message);
    const auto program = b.lowered_program();
    if (wanted != nullptr && program && text.find(wanted) != std::string::npos)
      fmt::print("{}\n", print_program(*program));
  }
}

}  // namespace
}  // namespace cudal1

int main(int count, char** words) {
  using namespace cudal1;
  const auto gpu = find_device_data(count > 1 ? words[1] : "");
  const auto target = find_lowering_target("cuda");
  if (!gpu || !*gpu || !target || count < 3) {
    fmt::print(stderr, "estimated_schedules: name a GPU that config/devices has, and task files\n");
    return 2;
  }
  const lowering_target& limited = (*target)->limited_to("compute capability 9.0");
  for (int i = 2; i < count; ++i) {
    if (const auto t = load_task(words[i], "cuda"); t)
      print_schedules(*t, limited, **gpu);
    else
      fmt::print("{}: {}\n", words[i], t.error().message);
  }
}
