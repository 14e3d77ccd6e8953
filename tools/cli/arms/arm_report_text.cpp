#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "tools/cli/arms/arm_report.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

constexpr const char* no_evidence = "no evidence";

std::string share_text(const std::optional<estimate_95>& e) {
  return e ? fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * e->value, 100 * e->low, 100 * e->high) : "-";
}
std::string score_text(const std::optional<estimate_95>& e) {
  return e ? fmt::format("{:.2f} [{:.2f}, {:.2f}]", e->value, e->low, e->high) : "-";
}

table scores(const comparison_report& r, answer_form form) {
  std::vector<column> columns = {{.title = "arm", .least_width = 18},
                                 {.title = "answers", .right = true, .drop = 3},
                                 {.title = "correct", .right = true},
                                 {.title = "copies", .right = true, .drop = 2},
                                 {.title = "distinct", .right = true, .drop = 4}};
  const auto row_of_form = std::ranges::find(r.rows, form, &arm_row::form);
  for (const auto& at : row_of_form->at)
    columns.push_back({.title = fmt::format("correct@{}", at.samples), .right = true});
  columns.push_back({.title = "mean score", .right = true, .drop = 1});
  for (const auto& at : row_of_form->at)
    columns.push_back({.title = fmt::format("best@{}", at.samples), .right = true});
  table out(std::move(columns));
  for (const auto& row : r.rows) {
    if (row.form != form) continue;
    std::vector<std::string> cells = {row.arm, std::to_string(row.answers), std::to_string(row.correct),
                                      std::to_string(row.copies), std::to_string(row.programs)};
    for (const auto& at : row.at)
      cells.push_back(share_text(at.correct));
    cells.push_back(row.correct == 0 ? no_evidence : score_text(row.mean));
    for (const auto& at : row.at)
      cells.push_back(row.correct == 0 ? no_evidence : score_text(at.best));
    out.add(std::move(cells));
  }
  return out;
}

table tasks(const comparison_report& r, answer_form form) {
  std::vector<column> columns = {{.title = "task", .least_width = 12}};
  for (const auto& row : r.rows)
    if (row.form == form) columns.push_back({.title = row.arm, .right = true, .least_width = 8});
  table out(std::move(columns));
  for (std::size_t i = 0; i < r.head.held_out.size(); ++i) {
    std::vector<std::string> cells = {r.head.held_out[i]};
    for (const auto& row : r.rows) {
      if (row.form != form) continue;
      const auto& t = row.tasks[i];
      cells.push_back(t.answers == 0   ? "-"
                      : t.correct == 0 ? no_evidence
                                       : fmt::format("{}/{} {:.2f}x", t.correct, t.answers, t.best));
    }
    out.add(std::move(cells));
  }
  return out;
}

table classes(const comparison_report& r, answer_form form) {
  table out({{.title = "arm", .least_width = 18},
             {.title = "answers", .right = true},
             {.title = "parse", .right = true},
             {.title = "legal", .right = true},
             {.title = "compile", .right = true},
             {.title = "correct", .right = true}});
  for (const auto& row : r.rows)
    if (row.form == form)
      out.add({row.arm, std::to_string(row.answers), row.readable ? std::to_string(*row.readable) : "-",
               std::to_string(row.legal), std::to_string(row.compiled), std::to_string(row.correct)});
  return out;
}

std::string failures(const comparison_report& r, answer_form form) {
  std::string text;
  for (const auto& row : r.rows) {
    if (row.form != form) continue;
    const auto failed = format_failures(row.outcomes);
    if (failed.empty()) continue;
    text += fmt::format("  {}: {}", row.arm, failed);
    std::vector<std::string> hacks;
    for (const auto& [kind, count] : row.hacks)
      hacks.push_back(fmt::format("{} {}", kind, count));
    text += fmt::format("; hack attempts: {}\n", hacks.empty() ? "none" : fmt::format("{}", fmt::join(hacks, ", ")));
    for (const auto& reason : row.reasons)
      text += fmt::format("    {}\n", reason);
  }
  return text.empty() ? "" : "failures, and the most frequent reasons:\n" + text;
}

std::string comparisons(const comparison_report& r, answer_form form) {
  std::string text, first;
  for (const auto& row : r.rows) {
    if (row.form != form) continue;
    if (first.empty()) first = row.arm;
    if (row.mean_difference && row.best_ratio)
      text += fmt::format("  {}: mean score {:+.3f} [{:+.3f}, {:+.3f}], best@{} times {}\n", row.arm,
                          row.mean_difference->value, row.mean_difference->low, row.mean_difference->high,
                          row.at.back().samples, score_text(row.best_ratio));
  }
  return text.empty() ? "" : fmt::format("against \"{}\", on the same tasks and seeds:\n{}", first, text);
}

std::string times(const comparison_report& r) {
  double all = 0;
  for (const auto& [name, p] : r.time)
    all += p.seconds;
  if (all <= 0) return "";
  std::vector<std::string> parts;
  for (const auto& [name, p] : r.time) {
    auto part = fmt::format("{} {} ({:.0f}%)", name, format_clock(p.seconds), 100 * p.seconds / all);
    if (p.answer_tokens > 0 && p.seconds > 0)
      part += fmt::format(", {:.0f} tokens a second in answers and {:.0f} in prompts",
                          static_cast<double>(p.answer_tokens) / p.seconds,
                          static_cast<double>(p.prompt_tokens) / p.seconds);
    if (p.evaluations > 0 && p.seconds > 0)
      part += fmt::format(", {:.2f} evaluations a second, the device busy for {:.0f}%",
                          static_cast<double>(p.evaluations) / p.seconds, p.device_ms / 10 / p.seconds);
    parts.push_back(std::move(part));
  }
  return fmt::format("time of {}: {}\n", format_count(std::ssize(r.runs), "run"), fmt::join(parts, "; "));
}

}  // namespace

std::string text_of(const comparison_report& r, const terminal& t) {
  std::string text = t.bold(fmt::format("Plan {} (SHA-256 {}), model {}", r.name, r.head.plan, r.head.model)) + "\n";
  const auto asked = fmt::format("{}", fmt::join(r.head.held_out, ", "));
  text += wrap(r.head.trained.empty()
                   ? "asked: " + asked
                   : fmt::format("held out, by operators: {}; trained on: {}", asked, fmt::join(r.head.trained, ", ")),
               t.width, 0) +
          "\n";
  for (const auto& run : r.runs)
    text += t.dim(fmt::format("run {} of {}: model on {}, measured on {} ({})", run.number,
                              format_date(run.time_unix_ms), run.device, run.measured_on, run.details)) +
            "\n";
  std::vector<answer_form> shown;
  for (const auto& row : r.rows) {
    if (std::ranges::count(shown, row.form) > 0) continue;
    shown.push_back(row.form);
    text += fmt::format("\nform {}\n", enum_name(row.form)) + scores(r, row.form).text(t) + "\n" +
            classes(r, row.form).text(t) + "\n" + tasks(r, row.form).text(t) + comparisons(r, row.form) +
            failures(r, row.form);
  }
  text += "\n" + times(r);
  text += wrap(
              "correct@k: probability that one of k answers is correct, unbiased from all of them; best@k: geometric "
              "mean over tasks of the best of k and the reference (1.00); mean score: failures count as 0. Intervals "
              "of 95% by resampling tasks and seeds. copies: correct answers that are a variant of their prompt. A "
              "search counts in its order.",
              t.width, 0) +
          "\n";
  if (r.deviations.empty()) return text + "Nothing deviated from the plan.\n";
  text += "Deviations from the plan:\n";
  for (const auto& d : r.deviations)
    text += wrap("- " + d, t.width, 2) + "\n";
  return text;
}

}  // namespace cudal1::cli
