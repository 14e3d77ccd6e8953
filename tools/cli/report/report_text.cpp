#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/search_models.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

constexpr std::string_view reference_sentence = "the reference itself: nothing faster was confirmed";

bool is_unconfirmed(const best_row& row) {
  return row.is_reference && row.unconfirmed;
}

std::string moves_of(const best_row& row) {
  if (is_unconfirmed(row))
    return "not confirmed: " +
           (row.unconfirmed->schedule.empty() ? row.unconfirmed->origin : short_schedule(row.unconfirmed->schedule));
  if (row.is_reference && row.no_moves == "no move applies") return row.no_moves + ": a search cannot improve it";
  if (row.is_reference && !row.no_moves.empty()) return row.no_moves + ": nothing faster was confirmed";
  if (row.is_reference) return std::string(row.evaluations > 0 ? reference_sentence : "not evaluated yet");
  return row.schedule.empty() ? row.origin : short_schedule(row.schedule);
}

bool on_gpu(const search_report& r) {
  return std::any_of(r.environments.begin(), r.environments.end(),
                     [](const environment& e) { return traits_of(e.device).is_accelerator; });
}

// Behind the speedups of an ill-conditioned task, of one whose own program was timed in parts, and of one whose
// products may be in half precision.
std::string mark_of(const best_row& row) {
  return std::string(row.ill_conditioned.empty() ? "" : " †") + (row.reference_parts > 1 ? " ‡" : "") +
         (row.precision == "half" ? " ½" : "");
}

std::string unmarked_speedup_of(const best_row& row) {
  if (is_unconfirmed(row))
    return fmt::format("at least {}, not confirmed", format_speedup(row.unconfirmed->speedup_interval.low));
  if (row.is_reference) return row.reference_us > 0 ? "1.00x" : "-";
  return format_speedup(row.speedup, row.speedup_interval);
}

std::string speedup_of(const best_row& row) {
  return unmarked_speedup_of(row) + mark_of(row);
}

// The time of the task's own program over eager's where they are far apart; else "".
std::string program_of(const best_row& row) {
  const double program = row.against ? program_over_eager(*row.against, row.reference_us) : 0;
  return is_apart(program) ? format_speedup(program) : "";
}

bool has_apart_program(const search_report& r) {
  return std::ranges::any_of(r.tasks, [](const best_row& row) { return !program_of(row).empty(); });
}

// The variant's time by which the speedup over the base was computed: measured beside the base, called from Python.
std::string time_beside_base(const best_row& row) {
  return row.against->problem.empty() && row.against->variant_us > 0 ? format_time(row.against->variant_us) : "-";
}

std::string variant_of(const best_row& row) {
  const std::string& id = is_unconfirmed(row) ? row.unconfirmed->variant : row.variant;
  return id.empty() ? "-" : short_id(id);
}

// Whether the table has columns for a base other than the reference.
bool has_base(const search_report& r) {
  return !r.against.empty() && r.against != against_program;
}

// The order in which columns are left out on a narrow terminal, the highest first; the task, its variant, the best time
// and the speedups stay.
enum drop_order : int {
  drop_roof = 1,
  drop_floor,
  drop_evaluations,
  drop_base,
  drop_best_beside_base,
  drop_reference,
  drop_moves_of_gpu,
  drop_device,
  drop_reference_device,
  drop_program,
  drop_moves
};

// The first columns of every table.
std::vector<column> first_columns(const search_report& r, const std::string& speedup) {
  std::vector<column> columns = {{.title = "task", .least_width = 12, .cut_last = true}};
  if (has_base(r)) {
    columns.push_back({.title = "over " + r.against});
    columns.push_back({.title = r.against, .right = true, .drop = drop_base});
    columns.push_back({.title = "best with " + r.against, .right = true, .drop = drop_best_beside_base});
  }
  columns.insert(columns.end(), {{.title = "reference", .right = true, .drop = drop_reference},
                                 {.title = "best", .right = true},
                                 {.title = speedup}});
  if (has_apart_program(r)) columns.push_back({.title = "program/eager", .right = true, .drop = drop_program});
  return columns;
}

// Versions of a task have the same name, and are told apart by their ids.
std::string name_in(const search_report& r, const best_row& row) {
  constexpr std::size_t digits = 6;
  const bool is_alone = std::ranges::count(r.tasks, row.name, &best_row::name) < 2;
  return is_alone ? row.name : fmt::format("{} ({})", row.name, row.task.substr(0, digits));
}

std::vector<std::string> first_cells(const search_report& r, const best_row& row) {
  std::vector<std::string> cells = {name_in(r, row) + (row.uncompared.empty() ? "" : uncompared_mark)};
  if (has_base(r)) {
    cells.push_back(format_against(*row.against) + mark_of(row));
    cells.push_back(format_time(row.against->base_us));
    cells.push_back(time_beside_base(row));
  }
  cells.insert(cells.end(), {format_time(row.reference_us), format_time(row.best_us), speedup_of(row)});
  if (has_apart_program(r)) cells.push_back(program_of(row));
  return cells;
}

table table_of_cpu(const search_report& r) {
  std::vector<column> columns = first_columns(r, "speedup, 95% interval");
  columns.push_back({.title = "evals", .right = true, .drop = drop_evaluations});
  columns.push_back({.title = "variant"});
  columns.push_back({.title = "moves", .least_width = 16, .drop = drop_moves});
  table t(std::move(columns));
  for (const auto& row : r.tasks) {
    std::vector<std::string> cells = first_cells(r, row);
    cells.insert(cells.end(), {std::to_string(row.evaluations), variant_of(row), moves_of(row)});
    t.add(std::move(cells));
  }
  return t;
}

table table_of_gpu(const search_report& r) {
  std::vector<column> columns = first_columns(r, "speedup, 95%");
  if (has_base(r)) columns.push_back({.title = r.against + " dev.", .right = true, .drop = drop_reference_device});
  columns.insert(columns.end(), {{.title = "ref. dev.", .right = true, .drop = drop_reference_device},
                                 {.title = "best dev.", .right = true, .drop = drop_device},
                                 {.title = "floor", .right = true, .drop = drop_floor},
                                 {.title = "roof", .right = true, .drop = drop_roof},
                                 {.title = "evals", .right = true, .drop = drop_program},
                                 {.title = "variant"},
                                 {.title = "moves", .least_width = 14, .drop = drop_moves_of_gpu}});
  table t(std::move(columns));
  for (const auto& row : r.tasks) {
    std::vector<std::string> cells = first_cells(r, row);
    if (has_base(r)) cells.push_back(format_time(row.against->base_device_us));
    cells.insert(cells.end(), {format_time(row.reference_device_us), format_time(row.best_device_us),
                               format_time(row.floor_us), format_share(row.roof_us, row.best_device_us),
                               std::to_string(row.evaluations), variant_of(row), moves_of(row)});
    t.add(std::move(cells));
  }
  return t;
}

table table_of(const search_report& r) {
  return on_gpu(r) ? table_of_gpu(r) : table_of_cpu(r);
}

}  // namespace

std::string describe_device(const environment& e) {
  return e.details.empty() ? fmt::format("{}: {}", e.device, e.model)
                           : fmt::format("{}: {} ({})", e.device, e.model, e.details);
}

std::string timing_remark(const std::string& device) {
  return traits_of(device).remark;
}

std::string print_title(const search_report& r) {
  std::string text;
  if (!r.experiment.empty())
    text = fmt::format("Experiment {} ({}), policy {}, device {}", r.experiment, r.state, r.policy, device_of(r));
  else
    text = fmt::format("Best confirmed variants of {}{}", format_count(static_cast<int64_t>(r.tasks.size()), "task"),
                       r.device.empty() ? "" : ", device " + r.device);
  if (!r.search.empty()) {
    std::vector<std::string> all;
    for (const auto& m : r.search)
      all.push_back(fmt::format("{} on {}", m.experiment, m.model));
    text += fmt::format("\nOne search over several models: {}. Scores of two models are not comparable.",
                        fmt::join(all, ", "));
  }
  if (r.pruned_unix_ms > 0)
    text += fmt::format("\nIts records were pruned on {}: what follows is about the variants that were kept.",
                        format_date(r.pruned_unix_ms));
  for (const auto& e : r.environments)
    text += "\n" + describe_device(e);
  std::string about = timing_remark(r.device);
  for (const auto& e : r.environments)
    if (about.empty()) about = timing_remark(e.device);
  if (!about.empty()) text += "\n" + about;
  return text;
}

std::string print_table(const search_report& r, const terminal& t) {
  return table_of(r).text(t);
}

std::string markdown_table(const search_report& r) {
  return table_of(r).markdown();
}

namespace {

std::string print_successes(const search_report& r) {
  const auto reached = std::ranges::count_if(r.tasks, &best_row::is_reached);
  const auto not_reached = std::ssize(r.tasks) - reached;
  if (reached == 0 && not_reached > 0) return fmt::format("None of {} was reached", format_count(not_reached, "task"));
  const auto ahead =
      std::ranges::count_if(r.tasks, [](const best_row& row) { return !row.is_reference && !row.beats_reference; });
  const auto of = not_reached > 0
                      ? fmt::format("the {} evaluated ({} not reached)", format_count(reached, "task"), not_reached)
                      : format_count(reached, "task");
  std::string text = fmt::format("{} of {} beat the reference by more than their interval", r.beat_reference, of);
  if (ahead > 0) text += fmt::format(", {} more by less", ahead);
  return text + fmt::format("; geometric mean {}", format_speedup(r.geometric_mean));
}

}  // namespace

std::string print_unconfirmed(const search_report& r) {
  const auto alone = std::ranges::count_if(r.tasks, is_unconfirmed);
  const auto others =
      std::ranges::count_if(r.tasks, [](const auto& row) { return !row.is_reference && row.unconfirmed; });
  std::string text;
  if (alone > 0)
    text = fmt::format(
        "In {} a variant is faster by its whole interval, but was not confirmed (the host was too uneven, or the time "
        "was over): {} in the means.",
        format_count(alone, "task"), alone == 1 ? "it counts as 1" : "they count as 1");
  if (others > 0)
    text +=
        fmt::format("{}In {} another variant is faster than the best shown, but was not confirmed: it does not count.",
                    text.empty() ? "" : " ", format_count(others, "task"));
  if (!text.empty()) text += " `cudal1 best TASK` lists them.";
  return text;
}

std::string print_ill_conditioned(const search_report& r) {
  if (r.ill_conditioned == 0) return "";
  std::string text = fmt::format(
      "† {} ill-conditioned: PyTorch's own result in float32 is further than 1e-2 from the exact one, and differs as "
      "much "
      "with another algorithm or order of sums. A variant is as accurate there, but need not agree with PyTorch within "
      "any tolerance.",
      r.ill_conditioned == 1 ? "1 task is" : fmt::format("{} tasks are", r.ill_conditioned));
  std::vector<std::string> means;
  if (r.geometric_mean_of_others) means.push_back(format_speedup(*r.geometric_mean_of_others));
  if (has_base(r) && r.over_of_others && r.over_of_others->measured > 0)
    means.push_back(fmt::format("{} over {}", format_speedup(r.over_of_others->geometric_mean), r.against));
  if (means.empty()) return text + " There are no other tasks.";
  return text + fmt::format(" Without {} the geometric mean is {}.", r.ill_conditioned == 1 ? "it" : "them",
                            fmt::join(means, ", and "));
}

std::string print_in_parts(const search_report& r) {
  if (r.in_parts == 0) return "";
  return fmt::format(
      "‡ {}: the task's own program needs more memory than a runner has. It was timed in parts of its batch, so the "
      "speedup is not one over a call of PyTorch as a whole, which was not timed. `cudal1 best TASK` says in how many "
      "parts.",
      format_count(r.in_parts, "task"));
}

const char* const half_precision_legend =
    "½ held to --precision half: float32 products of operands in float16 or TF32 are accepted, with an error against "
    "float64 of up to 2^-10 of the output's size, times the root of the number of products. Such speedups are in no "
    "table and no mean with others.";

std::string print_in_half_precision(const search_report& r) {
  if (r.in_half_precision == 0) return "";
  return half_precision_legend;
}

std::string print_summary(const search_report& r) {
  std::string text = print_successes(r);
  if (r.gap_closed) text += fmt::format("; {:.0f}% of the log gap to the floor is closed", 100 * *r.gap_closed);
  text += ".";
  for (const auto& remark :
       {print_ill_conditioned(r), print_in_parts(r), print_in_half_precision(r), print_unconfirmed(r)})
    if (!remark.empty()) text += "\n" + remark;
  text += "\n" + format_count(r.evaluations, "evaluation");
  if (r.evaluations_per_s > 0)
    text += fmt::format(" in {} ({} a second)", format_clock(r.active_s), format_number(r.evaluations_per_s));
  if (r.reused > 0) text += fmt::format("; {} reused from other experiments", r.reused);
  const auto failures = format_failures(r.outcomes);
  text += failures.empty() ? "; none failed" : "; failed: " + failures;
  if (r.infrastructure_faults > 0)
    text += "; " + format_count(r.infrastructure_faults, "attempt") + " lost and repeated";
  if (r.unrecorded > 0)
    text += "; " + format_count(r.unrecorded, "proposal") + " not recorded, and returned to the budget";
  text += ".";
  if (!r.last_unmeasurable.empty()) text += fmt::format("\nunmeasurable, the last: {}.", r.last_unmeasurable);
  for (const auto& row : r.tasks)
    if (!row.remark.empty()) text += fmt::format("\n{}: {}.", row.name, row.remark);
  for (const auto& row : r.tasks)
    if (!row.uncompared.empty())
      text += fmt::format(
          "\n{} is uncompared: nothing has shown that it computes what its model does, so that a speedup over eager "
          "may "
          "be one of another function. Why: {}.",
          row.name, row.uncompared);
  if (r.move_failures > 0)
    text += fmt::format(
        "\n{} a bug of cudal1; `cudal1 failures{}` lists {}.",
        r.move_failures == 1 ? "1 failed variant shows" : fmt::format("{} failed variants show", r.move_failures),
        r.experiment.empty() ? "" : " --experiment " + r.experiment, r.move_failures == 1 ? "it" : "them");
  return text;
}

std::string print_legend(const search_report& r) {
  if (!on_gpu(r)) return "";
  std::string text =
      "reference, best: call time, by the host's clock around a call and its synchronisation. ref. dev., best dev.: "
      "time on the device alone. floor: the call time that the task's memory traffic, its arithmetic and the cost of a "
      "call allow on that device (an estimate). roof: the floor without the cost of a call, as a share of best dev.";
  for (const auto& model : r.unknown_models)
    text += fmt::format(
        "\nNo floors for {}: its specifications are not known. Put a file of them into a folder that CUDAL1_DEVICES "
        "names.",
        model);
  return text;
}

std::string print_report(const search_report& r, const terminal& t) {
  std::string text;
  for (const auto& line : split_lines(print_title(r)))
    text += (text.empty() ? t.bold(line) : t.dim(wrap(line, t.width, 0))) + "\n";
  text += "\n" + print_table(r, t) + "\n";
  for (const auto& line : split_lines(print_summary(r)))
    text += wrap(line, t.width, 0) + "\n";
  for (const auto& line : split_lines(print_against(r)))
    text += wrap(line, t.width, 0) + "\n";
  if (const auto models = print_models(r, t); !models.empty()) text += "\n" + models;
  if (const auto assembled = print_assembled(r, t); !assembled.empty()) text += "\n" + assembled;
  if (const auto stages = print_stages(r, t); !stages.empty()) text += "\n" + stages;
  for (const auto& line : split_lines(print_legend(r)))
    text += t.dim(wrap(line, t.width, 0)) + "\n";
  return text;
}

}  // namespace cudal1::cli
