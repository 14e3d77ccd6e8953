#include "tools/cli/report/time_table.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "sandbox/program/check.hpp"
#include "sandbox/program/operators/work_parts.hpp"
#include "sandbox/verify/roofline.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

constexpr double most_of_it = 0.5;   // share from which a module is replaced by those in it
constexpr double much_of_it = 0.25;  // share from which those in it are shown too
constexpr std::size_t most_rows = 10;

struct call_node {
  const module_call* call = nullptr;
  std::size_t place = 0;  // in the origin's list
  std::vector<call_node> inside;
};

// Calls with the calls in them; `modules` has an outer one before those in it.
std::vector<call_node> tree_of(const std::vector<module_call>& modules) {
  std::vector<call_node> roots;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    auto* siblings = &roots;
    const auto holds = [&](const call_node& n) {
      return n.call->first <= modules[i].first && modules[i].first + modules[i].count <= n.call->first + n.call->count;
    };
    while (!siblings->empty() && holds(siblings->back()))
      siblings = &siblings->back().inside;
    siblings->push_back({&modules[i], i, {}});
  }
  return roots;
}

// The steps as a program of their own, with what they read as its inputs.
std::optional<task> alone(const task& t, const module_call& call) {
  const program& whole = t.reference.text;
  const auto read_by = [&](std::size_t step) { return work_parts::operands_of(t.reference.calls[step]); };
  const auto begin = static_cast<std::size_t>(call.first), end = begin + static_cast<std::size_t>(call.count);
  program part;
  part.name = whole.name;
  std::set<std::string> known, later(whole.outputs.begin(), whole.outputs.end());
  for (std::size_t i = end; i < whole.steps.size(); ++i)
    for (const auto& name : read_by(i))
      later.insert(name);
  for (std::size_t i = begin; i < end; ++i) {
    for (const auto& name : read_by(i))
      if (known.insert(name).second) part.inputs.push_back({name, t.reference.types.at(name)});
    part.steps.push_back(whole.steps[i]);
    for (const auto& name : std::get<aten_step>(whole.steps[i]).results) {
      known.insert(name);
      if (!name.empty() && later.contains(name)) part.outputs.push_back(name);
    }
  }
  auto checked = check_program(std::move(part));
  if (!checked) return std::nullopt;
  task alone;
  alone.reference = std::move(*checked);
  alone.inputs.resize(alone.reference.text.inputs.size());
  return alone;
}

class table_builder {
 public:
  table_builder(const task& t, std::span<const double> step_us, const std::optional<device_data>& device)
      : task_(t), step_us_(step_us), device_(device) {}

  time_table build() {
    result_.total_us = std::accumulate(step_us_.begin(), step_us_.end(), 0.0);
    if (task_.origin) add_level(tree_of(task_.origin->modules));
    std::ranges::stable_sort(rows_, std::greater{}, [](const auto& r) { return r.front().us; });
    double shown = 0;
    for (std::size_t i = 0; i < rows_.size() && i < most_rows; ++i) {
      shown += rows_[i].front().us;
      result_.modules.insert(result_.modules.end(), rows_[i].begin(), rows_[i].end());
    }
    result_.other_us = result_.total_us - shown;
    add_operators();
    return std::move(result_);
  }

 private:
  using group = std::vector<const call_node*>;  // alike

  double us_of(const module_call& call) const {
    const auto first = step_us_.begin() + call.first;
    return std::accumulate(first, first + call.count, 0.0);
  }

  static std::vector<group> groups_of(const std::vector<call_node>& siblings) {
    std::vector<group> groups;
    std::map<int64_t, std::size_t> known;
    for (const auto& n : siblings) {
      const int64_t leader = n.call->like >= 0 ? n.call->like : static_cast<int64_t>(n.place);
      const auto [found, is_new] = known.try_emplace(leader, groups.size());
      if (is_new) groups.emplace_back();
      groups[found->second].push_back(&n);
    }
    return groups;
  }

  time_row row_of(const group& g) const {
    const module_call& call = *g.front()->call;
    time_row row{.name = call.path, .kind = call.kind, .calls = static_cast<int64_t>(g.size()), .steps = call.count};
    for (const auto* n : g)
      row.us += us_of(*n->call);
    if (!device_) return row;
    if (const auto part = alone(task_, call))
      row.floor_us = roofline_of(work_of(*part), *device_).device_us() * static_cast<double>(g.size());
    return row;
  }

  void add_level(const std::vector<call_node>& siblings) {
    for (const auto& g : groups_of(siblings)) {
      const call_node& one = *g.front();
      time_row row = row_of(g);
      const double share = row.us / result_.total_us;
      if (g.size() == 1 && share > most_of_it && !one.inside.empty()) {
        add_level(one.inside);
        continue;
      }
      auto& rows = rows_.emplace_back();
      rows.push_back(row);
      if (share > much_of_it) add_inside(g, rows);
    }
  }

  // What alike modules have in them is alike, too.
  void add_inside(const group& g, std::vector<time_row>& rows) const {
    std::vector<time_row> inside;
    for (const auto& of_first : groups_of(g.front()->inside)) {
      group all;
      for (const auto* n : g)
        for (const auto* member : of_first)
          all.push_back(&n->inside[static_cast<std::size_t>(member - g.front()->inside.data())]);
      inside.push_back(row_of(all));
      inside.back().is_inside = true;
    }
    std::ranges::stable_sort(inside, std::greater{}, &time_row::us);
    rows.insert(rows.end(), inside.begin(), inside.end());
  }

  void add_operators() {
    std::map<std::string, time_row> by_name;
    const auto& steps = task_.reference.text.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto& name = std::get<aten_step>(steps[i]).op;
      auto& row = by_name.try_emplace(name, time_row{.name = name, .kind = "", .calls = 0, .steps = 1}).first->second;
      ++row.calls;
      row.us += step_us_[i];
    }
    for (const auto& [name, row] : by_name)
      result_.operators.push_back(row);
    std::ranges::stable_sort(result_.operators, std::greater{}, &time_row::us);
  }

  const task& task_;
  std::span<const double> step_us_;
  const std::optional<device_data>& device_;
  time_table result_;
  std::vector<std::vector<time_row>> rows_;  // each with those inside it
};

std::string share_text(double us, double total_us) {
  return fmt::format("{:.0f}%", total_us > 0 ? 100 * us / total_us : 0.0);
}

}  // namespace

time_table time_table_of(const task& t, std::span<const double> step_us, const std::optional<device_data>& device) {
  return table_builder(t, step_us, device).build();
}

const time_row* longest_repeated(const time_table& times) {
  const time_row* found = nullptr;
  for (const auto& row : times.modules)
    if (!row.is_inside && row.calls > 1 && row.us > times.total_us / 3 && (found == nullptr || row.us > found->us))
      found = &row;
  return found;
}

std::string print_times(const time_table& times, const terminal& t) {
  const bool floors = std::ranges::any_of(times.modules, [](const auto& r) { return r.floor_us > 0; });
  std::vector<column> columns{{.title = "module", .least_width = 16}, {.title = "class", .least_width = 8, .drop = 2},
                              {.title = "alike", .right = true},      {.title = "steps", .right = true, .drop = 1},
                              {.title = "time", .right = true},       {.title = "share", .right = true}};
  if (floors) columns.push_back({.title = "floor", .right = true});
  table modules(columns);
  for (const auto& r : times.modules) {
    std::vector<std::string> cells{(r.is_inside ? "  " : "") + r.name,
                                   r.kind,
                                   r.calls > 1 ? std::to_string(r.calls) : "",
                                   std::to_string(r.steps),
                                   format_time(r.us),
                                   share_text(r.us, times.total_us)};
    if (floors) cells.push_back(format_time(r.floor_us));
    modules.add(std::move(cells));
  }
  if (!times.modules.empty() && times.other_us > 0) {
    std::vector<std::string> cells{
        "others", "", "", "", format_time(times.other_us), share_text(times.other_us, times.total_us)};
    if (floors) cells.emplace_back("");
    modules.add(std::move(cells));
  }
  constexpr std::size_t most_operators = 6;
  table operators({{.title = "operator", .least_width = 16},
                   {.title = "steps", .right = true},
                   {.title = "time", .right = true},
                   {.title = "share", .right = true}});
  for (std::size_t i = 0; i < times.operators.size() && i < most_operators; ++i) {
    const auto& r = times.operators[i];
    operators.add({r.name, std::to_string(r.calls), format_time(r.us), share_text(r.us, times.total_us)});
  }
  return (modules.empty() ? "" : modules.text(t) + "\n") + operators.text(t);
}

}  // namespace cudal1::cli
