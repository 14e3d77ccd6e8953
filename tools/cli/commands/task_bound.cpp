#include "tools/cli/commands/task_bound.hpp"

#include <algorithm>

#include <boost/describe.hpp>
#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/search/task_parts.hpp"
#include "sandbox/verify/roofline.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct bound_row {
  std::string way;
  int64_t parts = 0;     // kernels or library calls, at least
  double device_us = 0;  // sum of the roofs
  double memory_us = 0;  // of which parts that memory limits
  std::string slowest;   // the steps of the part with the highest roof
  double slowest_us = 0;
  std::string slowest_limit;
};
BOOST_DESCRIBE_STRUCT(bound_row, (), (way, parts, device_us, memory_us, slowest, slowest_us, slowest_limit))

bound_row row_of(const partition& way, const device_data& gpu) {
  bound_row row;
  row.way = way.name;
  row.parts = std::ssize(way.parts);
  for (const auto& part : way.parts) {
    const auto roof = roofline_of(work_of(part.what), gpu);
    row.device_us += roof.device_us();
    if (roof.memory_us >= roof.compute_us) row.memory_us += roof.device_us();
    if (roof.device_us() <= row.slowest_us) continue;
    row.slowest_us = roof.device_us();
    row.slowest = print_steps(part.covers);
    row.slowest_limit = roof.limit();
  }
  return row;
}

}  // namespace

const device_traits& accelerator() {
  for (const auto* type : device_types())
    if (type->traits().is_accelerator) return type->traits();
  return preferred_device_type().traits();
}

expected<int> show_bound(const task& t, const std::optional<device_data>& gpu, bool as_json, const context& c) {
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(accelerator().target));
  const auto all = partitions_of(t, *target);
  const auto whole = roofline_of(work_of(t), *gpu);
  std::vector<bound_row> rows = {{.way = "one kernel",
                                  .parts = 1,
                                  .device_us = whole.device_us(),
                                  .memory_us = whole.memory_us >= whole.compute_us ? whole.device_us() : 0,
                                  .slowest = "all",
                                  .slowest_us = whole.device_us(),
                                  .slowest_limit = whole.limit()}};
  for (const auto& way : all.ways)
    rows.push_back(row_of(way, *gpu));
  if (as_json) {
    print_json(c, json::make_object({{"task", t.name},
                                     {"gpu", gpu->name},
                                     {"call_overhead_us", whole.overhead_us},
                                     {"proofs", print_schedule(all.proofs)},
                                     {"not_counted", print_steps(all.replaced)},
                                     {"ways", to_json(rows)}}));
    return exit_code::success;
  }
  c.out.print(c.out.bold(fmt::format("{}: what limits it on {}", t.name, gpu->name)) + "\n");
  if (!all.proofs.moves.empty()) c.out.print("after the proofs " + print_schedule(all.proofs) + "\n");
  c.out.print("\n");
  table list({{.title = "as", .least_width = 16},
              {.title = "kernels", .right = true},
              {.title = "on the device", .right = true},
              {.title = "limited by memory", .right = true},
              {.title = "slowest steps", .least_width = 8},
              {.title = "", .right = true},
              {.title = "limited by"}});
  for (const auto& r : rows)
    list.add({r.way, std::to_string(r.parts), format_time(r.device_us),
              r.device_us > 0 ? fmt::format("{:.0f}%", 100 * r.memory_us / r.device_us) : "-", r.slowest,
              format_time(r.slowest_us), r.slowest_limit});
  c.out.print(list.text(c.out));
  c.out.print("\n");
  if (!all.replaced.empty())
    c.out.print(
        fmt::format("Counted for one kernel only: steps {}, which the proofs replace.\n", print_steps(all.replaced)));
  c.out.print(
      wrap(fmt::format("Each kernel at the highest {} rates of this GPU, with each tensor at its border read or "
                       "written once and nothing in a cache; a call takes {} more. Estimates, not measurements.",
                       whole.measured ? "measured" : "datasheet", format_time(whole.overhead_us)),
           c.out.width, 0) +
      "\n");
  return exit_code::success;
}

}  // namespace cudal1::cli
