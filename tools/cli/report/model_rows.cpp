#include "tools/cli/report/model_rows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/frequent_reasons.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

// What one model reached on one task.
struct task_result {
  bool correct = false, faster = false;
  double best = 1;
};

struct model_results {
  model_row row;
  std::map<std::string, task_result> tasks;  // by id
  std::map<std::string, int64_t> reasons;    // kinds of them
};

void add(model_results& to, const verdict& v) {
  ++to.row.evaluations;
  ++to.row.outcomes[enum_name(v.result)];
  if (v.result != outcome::correct) {
    ++to.reasons[kind_of_reason(v.reason)];
    return;
  }
  ++to.row.correct;
  auto& t = to.tasks[v.task];
  t.correct = true;
  if (!v.confirmed) return;
  t.faster = t.faster || v.score_interval.low > 1;
  t.best = std::max(t.best, v.score);
  to.row.best = std::max(to.row.best, v.score);
}

model_row finished(model_results r) {
  double logs = 0;
  for (const auto& [id, t] : r.tasks) {
    r.row.success += t.correct ? 1 : 0;
    r.row.faster += t.faster ? 1 : 0;
    logs += std::log(t.best);
  }
  r.row.reasons = frequent_reasons(r.reasons);
  r.row.tasks = static_cast<int64_t>(r.tasks.size());
  if (!r.tasks.empty()) r.row.geometric_mean = std::exp(logs / static_cast<double>(r.tasks.size()));
  return r.row;
}

}  // namespace

expected<std::vector<model_row>> models_of(store& s, const experiment_record& e) {
  std::vector<model_results> all;
  if (e.models.empty()) return std::vector<model_row>();
  CUDAL1_TRY(const auto groups, s.groups_of_experiment(e.id));
  std::map<std::pair<std::string, std::string>, std::size_t> author;  // of a variant of a task: place in `all`
  for (const auto& g : groups) {
    auto found = std::ranges::find_if(all, [&](const auto& m) { return m.row.model == g.model; });
    if (found == all.end()) {
      all.emplace_back().row.model = g.model;
      found = std::prev(all.end());
    }
    ++found->row.prompts;
    found->row.cost.add(g.cost);
    found->tasks.try_emplace(g.task);
    CUDAL1_TRY(const auto variants, s.variants_of_group(g.id));
    for (const auto& id : variants)
      author.try_emplace({g.task, id}, static_cast<std::size_t>(found - all.begin()));
  }
  for (const auto& task : e.tasks) {
    CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(task, e.id));
    for (const auto& v : verdicts)
      if (const auto by = author.find({task, v.variant}); by != author.end()) add(all[by->second], v);
  }
  std::vector<model_row> rows;
  for (auto& m : all)
    rows.push_back(finished(std::move(m)));
  return rows;
}

namespace {

// Of a path its last part.
std::string short_name(const std::string& model) {
  return model.starts_with('/') ? model.substr(model.rfind('/') + 1) : model;
}

// Tokens of answers a second, while they were written; of a local model, of all that were written side by side.
std::string pace_of(const answer_cost& c) {
  const double seconds = c.seconds - c.prompt_seconds;
  return seconds > 0 ? fmt::format("{:.3g}", static_cast<double>(c.answer_tokens) / seconds) : "-";
}

// Why answers failed.
std::string reasons_text(const search_report& r) {
  std::string text;
  for (const auto& m : r.models) {
    if (m.reasons.empty()) continue;
    text += fmt::format("{} failed, and the most frequent reasons:\n", short_name(m.model));
    for (const auto& reason : m.reasons)
      text += fmt::format("  {}\n", reason);
  }
  return text;
}

// What local models took, a sentence each.
std::string local_models_text(const search_report& r) {
  std::string text;
  for (const auto& m : r.models) {
    const auto& c = m.cost;
    if (c.model_bytes == 0) continue;
    constexpr double mebibyte = 1 << 20;
    text += fmt::format(
        "{}: prompts of {} tokens took {:.1f} s, answers of {} tokens {:.1f} s ({} a second{}); weights {:.0f} MiB, "
        "keys and values {:.0f} MiB\n",
        short_name(m.model), c.prompt_tokens, c.prompt_seconds, c.answer_tokens, c.seconds - c.prompt_seconds,
        pace_of(c), c.cached > 0 ? fmt::format("; {} of {} answers were kept from then", c.cached, c.answers) : "",
        static_cast<double>(c.model_bytes) / mebibyte, static_cast<double>(c.cache_bytes) / mebibyte);
  }
  return text;
}

}  // namespace

std::string print_models(const search_report& r, const terminal& t) {
  if (r.models.empty()) return "";
  table rows({{.title = "model", .least_width = 12},
              {.title = "tasks", .right = true},
              {.title = "verified", .right = true},
              {.title = "faster", .right = true},
              {.title = "geo. mean", .right = true},
              {.title = "best", .right = true, .drop = 2},
              {.title = "evals", .right = true},
              {.title = "correct", .right = true},
              {.title = "tokens in", .right = true, .drop = 1},
              {.title = "tokens out", .right = true},
              {.title = "a second", .right = true, .drop = 2},
              {.title = "cost", .right = true},
              {.title = "failed", .least_width = 12, .drop = 3}});
  for (const auto& m : r.models)
    rows.add({short_name(m.model), std::to_string(m.tasks), std::to_string(m.success), std::to_string(m.faster),
              format_speedup(m.geometric_mean), m.best > 0 ? format_speedup(m.best) : "-",
              std::to_string(m.evaluations), std::to_string(m.correct), std::to_string(m.cost.prompt_tokens),
              std::to_string(m.cost.answer_tokens), pace_of(m.cost), fmt::format("{:.4g}", m.cost.money),
              format_failures(m.outcomes)});
  return rows.text(t) + reasons_text(r) + local_models_text(r);
}

}  // namespace cudal1::cli
