#include "tools/cli/arms/arm_report.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "tools/cli/frequent_reasons.hpp"

namespace cudal1::cli {

namespace {

void count_class(const arm_verdict& v, arm_row& to) {
  if (!v.is_readable) to.readable.reset();
  if (to.readable) *to.readable += *v.is_readable;
  const bool is_legal = v.result != outcome::invalid;
  to.legal += is_legal;
  to.compiled += is_legal && v.result != outcome::compile_error && v.result != outcome::compile_timeout;
}

class row_maker {
 public:
  row_maker(const experiment_plan& plan, const comparison_head& head, const arm_records& records)
      : plan_(plan), head_(head), records_(records) {}

  // Cells in the order of tasks and seeds; one without answers is left out.
  std::vector<cell_scores> cells_of(const plan_arm& arm, answer_form form, arm_row& to) const {
    std::vector<cell_scores> out;
    std::map<std::string, int64_t> reasons;
    std::set<std::string> programs;
    double prompts = 0, answers = 0;
    int64_t texts = 0;
    for (const auto& task : head_.held_out) {
      arm_task of_task{task, 0, 0, 0};
      for (const uint64_t seed : plan_.seeds) {
        cell_scores cell{task, seed, {}, arm.search != arm_search::none};
        to.planned += plan_.answers;
        for (int64_t i = 0; i < plan_.answers; ++i) {
          const answer_key key{form, arm.name, task, seed, i};
          const auto found = records_.verdicts().find(key);
          if (found == records_.verdicts().end()) continue;
          const arm_verdict& v = found->second;
          cell.scores.push_back(v.score);
          const bool is_correct = v.score > 0;
          to.correct += is_correct;
          count_class(v, to);
          to.copies += is_correct && v.is_copy;
          to.on_device += v.is_measured;
          if (is_correct) programs.insert(v.program);
          of_task.best = std::max(of_task.best, v.score);
          ++to.outcomes[v.doubt.empty() ? enum_name(v.result) : "doubted"];
          if (!v.hack.empty()) ++to.hacks[v.hack];
          if (!is_correct) ++reasons[kind_of_reason(v.doubt.empty() ? v.reason : v.doubt)];
          if (const auto text = records_.answers().find(key); text != records_.answers().end()) {
            prompts += static_cast<double>(text->second.prompt_tokens);
            answers += static_cast<double>(text->second.answer_tokens);
            ++texts;
          }
        }
        to.answers += cell.answers();
        of_task.answers += cell.answers();
        of_task.correct += cell.correct();
        if (!cell.scores.empty()) out.push_back(std::move(cell));
      }
      to.tasks.push_back(of_task);
    }
    to.programs = std::ssize(programs);
    to.reasons = frequent_reasons(reasons);
    if (texts > 0) {
      to.prompt_tokens = prompts / static_cast<double>(texts);
      to.answer_tokens = answers / static_cast<double>(texts);
    }
    return out;
  }

  void add_form(answer_form form, std::vector<arm_row>& to) const {
    std::optional<std::vector<cell_scores>> first;
    for (const auto& arm : plan_.arms) {
      if (arm.search != arm_search::none && form != answer_form::schedule) continue;
      arm_row row;
      row.form = form;
      row.arm = arm.name;
      const auto cells = cells_of(arm, form, row);
      row.mean = mean_over(cells, mean_score);
      for (const int64_t k : plan_.samples) {
        const auto best = [k](const cell_scores& c) { return log_best_within(c, k); };
        arm_at at{k, mean_over(cells, [k](const cell_scores& c) { return correct_within(c, k); }), {}};
        // Without a correct answer the reference alone is there: that is no evidence of anything.
        if (row.correct > 0)
          if (const auto found = mean_over(cells, best)) at.best = exponential(*found);
        row.at.push_back(at);
        if (!first || k != plan_.samples.back() || row.correct == 0) continue;
        row.mean_difference = difference_over(cells, *first, mean_score);
        if (const auto found = difference_over(cells, *first, best)) row.best_ratio = exponential(*found);
      }
      if (!first) first = cells;
      to.push_back(std::move(row));
    }
  }

 private:
  const experiment_plan& plan_;
  const comparison_head& head_;
  const arm_records& records_;
};

template <class Of, class Value>
std::set<std::string> distinct(const Of& all, const Value& value) {
  std::set<std::string> out;
  for (const auto& each : all)
    if (auto v = value(each); !v.empty()) out.insert(std::move(v));
  return out;
}

std::vector<std::string> deviations_of(const comparison_report& r, const arm_records& records) {
  std::vector<std::string> out;
  for (const auto& row : r.rows)
    if (row.answers < row.planned)
      out.push_back(
          fmt::format("{}, {}: {} of {} answers are judged", enum_name(row.form), row.arm, row.answers, row.planned));
  const auto classes = distinct(records.verdicts(), [](const auto& v) { return v.second.environment_class; });
  if (classes.size() > 1)
    out.push_back(fmt::format("measured in {} classes of environments: {}", classes.size(), fmt::join(classes, "; ")));
  const auto devices = distinct(r.runs, [](const arm_run& run) { return run.device; });
  if (devices.size() > 1)
    out.push_back(fmt::format("answers were generated on {}: rounding differs, and with it the draws",
                              fmt::join(devices, " and ")));
  const auto versions = distinct(r.runs, [](const arm_run& run) { return run.version; });
  if (versions.size() > 1) out.push_back(fmt::format("several versions of cudal1: {}", fmt::join(versions, ", ")));
  for (const auto& run : r.runs)
    if (!run.settings.empty())
      out.push_back(fmt::format("run {} had settings beside the plan: {}", run.number, fmt::join(run.settings, ", ")));
  int64_t left_out = 0;
  for (const auto& [key, a] : records.answers())
    left_out += a.left_out > 0;
  if (left_out > 0)
    out.push_back(
        fmt::format("{} prompts have fewer earlier variants than planned: too few were measured, or they did "
                    "not fit the tokens of a prompt",
                    left_out));
  return out;
}

}  // namespace

comparison_report report_of(const experiment_plan& plan, const comparison_head& head, const arm_records& records) {
  comparison_report out;
  out.head = head;
  out.name = plan.name;
  out.runs = records.runs();
  const row_maker maker(plan, head, records);
  for (const auto form : plan.forms)
    maker.add_form(form, out.rows);
  for (const auto& p : records.phases()) {
    auto& sum = out.time[p.name];
    sum.name = p.name;
    sum.seconds += p.seconds;
    sum.prompt_tokens += p.prompt_tokens;
    sum.answer_tokens += p.answer_tokens;
    sum.evaluations += p.evaluations;
    sum.device_ms += p.device_ms;
  }
  out.is_complete = std::ranges::all_of(out.rows, [](const arm_row& r) { return r.answers == r.planned; });
  out.deviations = deviations_of(out, records);
  return out;
}

expected<comparison_report> read_comparison(const std::string& folder) {
  const auto text = read_text_file(folder + "/comparison.json"), plan_text = read_text_file(folder + "/plan.toml");
  if (!text || !plan_text)
    return fail(errc::not_found,
                "{} has no comparison.json and plan.toml: name the folder of a `cudal1 compare --plan`", folder);
  CUDAL1_TRY(const auto head, from_text<comparison_head>(*text));
  CUDAL1_TRY(const auto plan, read_plan(*plan_text, folder + "/plan.toml"));
  if (plan.sha256 != head.plan)
    return fail(errc::corrupt, "{}/plan.toml has the SHA-256 {}, but the comparison was begun with the plan {}", folder,
                plan.sha256, head.plan);
  CUDAL1_TRY(const auto records, arm_records::read(folder));
  return report_of(plan, head, records);
}

}  // namespace cudal1::cli
