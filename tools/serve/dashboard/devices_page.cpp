// Machines and devices, the queue, and the log.
#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/utf8.hpp"
#include "config/base/wall_clock.hpp"
#include "tools/charts/escape.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/serve/dashboard/device_tables.hpp"
#include "tools/serve/dashboard/pages.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

constexpr std::size_t most_in_flight = 100, most_log_lines = 200;
constexpr std::streamoff log_bytes = 64 << 10;

std::string shown_machine(const std::string& name) {
  return name.empty() ? "(coordinator)" : name;
}

// "check 30%, time 61%" of the experiments that use the device.
std::string work_on(const cli::top_state& s, const device_report& d) {
  for (const auto& e : s.experiments)
    if (cli::state_of(d, {.place = "", .node = {}, .experiments = {e}, .problem = ""}) != "idle") {
      auto work = cli::device_work(e);
      if (!work.empty()) return work;
    }
  return "-";
}

// The last lines of DATA/node.log.
std::string end_of_node_log(const std::string& data) {
  std::ifstream in(data + "/node.log", std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - log_bytes));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  auto lines = cli::split_lines(replace_invalid_utf8(std::move(text)));
  if (size > log_bytes && !lines.empty()) lines.erase(lines.begin());  // a part of a line
  std::string out;
  for (auto i = lines.size() > most_log_lines ? lines.size() - most_log_lines : 0; i < lines.size(); ++i)
    out += lines[i] + "\n";
  return out;
}

std::string drain_form(const page_input& in) {
  if (!in.viewer.may("stop")) return permission_note(in.viewer, "stop", "drain a machine");
  std::string choices;
  for (const auto& m : in.now->node.node->machines)
    choices +=
        fmt::format("<option value=\"{}\">{}</option>", escaped(shown_machine(m.name)), escaped(shown_machine(m.name)));
  if (choices.empty()) return "";
  return form_of(in.viewer, "/nodes/drain",
                 "<label for=\"machine\">Machine</label> <select id=\"machine\" name=\"machine\">" + choices +
                     "</select> <button name=\"drain\" value=\"yes\">Drain</button> "
                     "<button name=\"drain\" value=\"no\">Give it work again</button>") +
         cli::paragraph("A machine that is drained finishes what it has and gets no more work.", "note");
}

}  // namespace

std::string device_part(const page_input& in) {
  const auto& s = in.now->node;
  if (!s.node) return cli::paragraph("The node does not say what it has.", "problem");
  cli::data_table t{
      "device-table", "What each device does now.", {{"device"}, {"model"}, {"now"}, {"of its time just now"}}, {}};
  for (const auto& d : s.node->devices)
    t.rows.push_back({{d.where.device}, {d.where.model}, {cli::state_of(d, s)}, {work_on(s, d)}});
  for (const auto& d : s.node->troubled)
    t.rows.push_back({{d.device},
                      {"-"},
                      {fmt::format("{}: {}", d.given_up ? "does not work" : "does not work yet", d.problem)},
                      {"-"}});
  for (const auto& d : s.node->reserved)
    t.rows.push_back({{d.device}, {d.model}, {"runs the policy's models"}, {"-"}});
  return t.empty() ? cli::paragraph("The node has no devices.", "state") : shown_table(t);
}

cli::data_table machine_table(const page_input& in) {
  cli::data_table t{"machine-table",
                    "The machines of the cluster.",
                    {{"machine"}, {"state"}, {"for", true}, {"devices", true}, {"version"}},
                    {}};
  if (!in.now->node.node) return t;
  for (const auto& m : in.now->node.node->machines)
    t.rows.push_back({{shown_machine(m.name)},
                      {m.state + (m.draining && m.state == "present" ? ", draining" : "")},
                      {cli::format_time(m.since_s * 1e6)},
                      number_cell(m.devices),
                      {m.version}});
  return t;
}

expected<page_parts> devices_page(const page_input& in) {
  const auto& node = in.now->node.node;
  std::string confinement;
  if (node)
    for (const auto& d : node->devices) {
      std::vector<std::string> missing;
      for (const auto& item : d.confinement)
        if (!item.in_force) missing.push_back(item.name);
      if (!d.confinement.empty())
        confinement += cli::paragraph(fmt::format(
            "{}: {} of {} in force{}.", d.where.device, std::ssize(d.confinement) - std::ssize(missing),
            d.confinement.size(), missing.empty() ? "" : fmt::format("; not: {}", fmt::join(missing, ", "))));
      for (const auto& remark : d.remarks)
        confinement += cli::paragraph(d.where.device + ": " + remark, "note");
    }
  std::string machines = shown_table(machine_table(in));
  if (node)
    machines +=
        cli::paragraph(node->listens.empty() ? "No other machine can join: the node was started without --listen."
                                             : fmt::format("Machines join at {}.", node->listens),
                       "note");
  return page_parts{"Devices", "/nodes",
                    page_title("Devices and machines") + live_section("devices", "Devices", device_part(in)) +
                        live_section("machines", "Machines", machines) +
                        (node ? "<section aria-labelledby=\"drain-title\"><h2 id=\"drain-title\">Drain</h2>\n" +
                                    drain_form(in) + "</section>\n"
                              : "") +
                        live_section("confinement", "Confinement of variants", confinement)};
}

expected<page_parts> queue_page(const page_input& in) {
  const auto n = in.routes.board->count();
  std::string head =
      page_title("Queue") + figures_of({{"evaluations wait over HTTP", std::to_string(n.waiting)},
                                        {"of these run", std::to_string(n.running)},
                                        {"have a verdict since the node's start", std::to_string(n.finished)}});
  const bool all = in.viewer.client.is_allowed("stop");
  cli::data_table jobs{
      "jobs",
      all ? "Jobs that have not ended, the oldest first." : "Your jobs that have not ended.",
      {{"job"}, {"client"}, {"task"}, {"device"}, {"state"}, {"done", true}, {"before it", true}, {"accepted", true}},
      {}};
  for (const auto& j : in.routes.board->open_jobs(in.viewer.client))
    jobs.rows.push_back({{j.id},
                         {j.client},
                         {j.task},
                         {j.device.empty() ? "-" : j.device},
                         {enum_name(j.state)},
                         {fmt::format("{} of {}", j.finished, j.evaluations)},
                         {j.position ? std::to_string(*j.position) : "-"},
                         {cli::format_date(j.accepted_unix_ms)}});
  cli::data_table flights{"flights",
                          "Proposals of searches without a verdict, the oldest first.",
                          {{"variant"}, {"experiment"}, {"task"}, {"attempt", true}, {"for", true}},
                          {}};
  std::size_t count = 0;
  for (const auto& [experiment, attempts] : in.now->in_flight)
    for (const auto& a : attempts)
      if (++count <= most_in_flight)
        flights.rows.push_back({variant_cell(a.variant),
                                experiment_cell(experiment),
                                task_cell(in.records(), a.task),
                                number_cell(a.number),
                                {cli::format_clock(static_cast<double>(unix_ms() - a.time_unix_ms) / 1000)}});
  std::string in_flight = flights.empty() ? cli::paragraph("Nothing is in flight.") : shown_table(flights);
  if (count > most_in_flight)
    in_flight += cli::paragraph(fmt::format("{} more are in flight.", count - most_in_flight), "note");
  return page_parts{"Queue", "/queue",
                    live_part("head", head) +
                        live_section("jobs-part", "Jobs over HTTP",
                                     jobs.empty() ? cli::paragraph("No job waits.") : shown_table(jobs)) +
                        live_section("flights-part", "In flight", in_flight)};
}

expected<page_parts> log_page(const page_input& in) {
  const auto events = event_table(in, most_shown_events);
  std::string node_log;
  if (in.viewer.client.is_allowed("stop")) {
    const auto text = end_of_node_log(in.routes.data);
    if (!text.empty())
      node_log = "<pre tabindex=\"0\" role=\"region\" aria-labelledby=\"node-log-title\">" + escaped(text) + "</pre>\n";
  }
  return page_parts{
      "Log", "/log",
      page_title("Log") +
          live_section("events-part", "Events",
                       events.empty() ? cli::paragraph("The store has no events yet.") : shown_table(events)) +
          live_section("node-log", "The node's log", node_log)};
}

}  // namespace cudal1::serve
