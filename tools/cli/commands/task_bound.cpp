#include "tools/cli/commands/task_bound.hpp"

#include <algorithm>

#include <boost/describe.hpp>
#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/search/task_parts.hpp"
#include "policy/search/why_no_moves.hpp"
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

void add_kernel(bound_row& row, const task& what, const std::string& steps, const device_data& gpu) {
  const auto roof = roofline_of(work_of(what), gpu);
  ++row.parts;
  row.device_us += roof.device_us();
  if (roof.memory_us >= roof.compute_us) row.memory_us += roof.device_us();
  if (roof.device_us() <= row.slowest_us) return;
  row.slowest_us = roof.device_us();
  row.slowest = steps;
  row.slowest_limit = roof.limit();
}

// The roofs of a task as one kernel, and cut into parts in each way.
struct task_bound {
  std::vector<bound_row> rows;
  task_partitions cut;
  roofline whole;
  std::string little_to_search;
};

task_bound bound_of(const task& t, const device_data& gpu, const lowering_target& target) {
  task_bound b{{}, partitions_of(t, target), roofline_of(work_of(t), gpu), what_little_to_search(t, target)};
  b.rows.resize(1 + b.cut.ways.size());
  b.rows[0].way = "one kernel";
  add_kernel(b.rows[0], t, "all", gpu);
  for (std::size_t i = 0; i < b.cut.ways.size(); ++i) {
    b.rows[i + 1].way = b.cut.ways[i].name;
    for (const auto& part : b.cut.ways[i].parts)
      add_kernel(b.rows[i + 1], part.what, print_steps(part.covers), gpu);
  }
  return b;
}

json document_of(const task_bound& b, const task& t, const device_data& gpu) {
  return json::make_object({{"task", t.name},
                            {"gpu", gpu.name},
                            {"call_overhead_us", b.whole.overhead_us},
                            {"proofs", print_schedule(b.cut.proofs)},
                            {"not_counted", print_steps(b.cut.replaced)},
                            {"little_to_search", b.little_to_search},
                            {"ways", to_json(b.rows)}});
}

void print_bound(const task_bound& b, const task& t, const device_data& gpu, const context& c) {
  c.out.print(c.out.bold(fmt::format("{}: what limits it on {}", t.name, gpu.name)) + "\n");
  if (!b.cut.proofs.moves.empty()) c.out.print("after the proofs " + print_schedule(b.cut.proofs) + "\n");
  c.out.print("\n");
  table list({{.title = "as", .least_width = 16},
              {.title = "kernels", .right = true},
              {.title = "on the device", .right = true},
              {.title = "limited by memory", .right = true},
              {.title = "slowest steps", .least_width = 8},
              {.title = "", .right = true},
              {.title = "limited by"}});
  for (const auto& r : b.rows)
    list.add({r.way, std::to_string(r.parts), format_time(r.device_us),
              r.device_us > 0 ? fmt::format("{:.0f}%", 100 * r.memory_us / r.device_us) : "-", r.slowest,
              format_time(r.slowest_us), r.slowest_limit});
  c.out.print(list.text(c.out));
  c.out.print("\n");
  if (!b.little_to_search.empty()) c.out.print(wrap("Search: " + b.little_to_search + ".", c.out.width, 0) + "\n");
  if (!b.cut.replaced.empty())
    c.out.print(
        fmt::format("Counted for one kernel only: steps {}, which the proofs replace.\n", print_steps(b.cut.replaced)));
  c.out.print(
      wrap(fmt::format("Each kernel at the highest {} rates of this GPU, with each tensor at its border read or "
                       "written once and nothing in a cache; a call takes {} more. Estimates, not measurements.",
                       b.whole.measured ? "measured" : "datasheet", format_time(b.whole.overhead_us)),
           c.out.width, 0) +
      "\n");
}

}  // namespace

const device_traits& accelerator() {
  for (const auto* type : device_types())
    if (type->traits().is_accelerator) return type->traits();
  return preferred_device_type().traits();
}

expected<int> show_bound(const task& t, const device_data& gpu, shown_as form, const context& c) {
  CUDAL1_TRY(const lowering_target* target, find_lowering_target(accelerator().target));
  const task_bound b = bound_of(t, gpu, *target);
  if (form == shown_as::json)
    print_json(c, document_of(b, t, gpu));
  else
    print_bound(b, t, gpu, c);
  return exit_code::success;
}

}  // namespace cudal1::cli
