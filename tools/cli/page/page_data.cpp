#include "tools/cli/page/page_data.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "config/base/wall_clock.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

// More correct variants of a task are not looked at for their moves.
constexpr std::size_t most_variants_of_a_task = 2000;
constexpr std::size_t most_hacks_read = 10000;  // of a class

expected<base_groups> groups_against(store& s, search_report r, const std::string& base) {
  CUDAL1_CHECK(compare_with_base(s, r, base));
  base_groups out{base, {}, {}};
  for (const auto& row : r.tasks)
    if (const auto t = speedup_of_row(row); t.measured) out.speedups.push_back(std::max(1.0, t.speedup));
  std::ranges::sort(out.speedups);
  if (!out.speedups.empty()) out.groups = groups_of(r);
  return out;
}

expected<void> read_bases(store& s, page_data& page) {
  auto names = against_names();
  std::stable_partition(names.begin(), names.end(), [](const std::string& n) { return n == against_program; });
  for (const auto& name : names) {
    CUDAL1_TRY(auto groups, groups_against(s, page.report, name));
    if (!groups.speedups.empty()) page.bases.push_back(std::move(groups));
  }
  return {};
}

// Verdicts of replay devices are reported with their experiments only.
expected<void> read_experiments(store& s, page_data& page, const std::string& experiment) {
  if (!experiment.empty()) {
    CUDAL1_TRY(page.experiment, s.get_experiment(experiment));
    page.experiments = {*page.experiment};
    return {};
  }
  CUDAL1_TRY(page.experiments, s.experiments());
  std::erase_if(page.experiments, [](const experiment_record& e) {
    return e.policy == hand_policy || e.device.starts_with(replay_prefix);
  });
  return {};
}

expected<void> read_curves(store& s, page_data& page) {
  // The newest ones.
  constexpr std::size_t most = 6;
  const auto first = page.experiments.size() > most ? page.experiments.size() - most : 0;
  for (auto i = first; i < page.experiments.size(); ++i) {
    const auto& e = page.experiments[i];
    std::vector<std::vector<best_so_far>> curves;
    int64_t longest = 0;
    for (const auto& task : e.tasks) {
      CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(task, e.id));
      if (verdicts.empty()) continue;
      longest = std::max<int64_t>(longest, std::ssize(verdicts));
      curves.push_back(best_curve(verdicts));
    }
    if (!curves.empty()) page.curves.push_back({fmt::format("{} ({})", e.id, e.policy), mean_curve(curves), longest});
  }
  return {};
}

struct newest_failure {
  failure_class kind;
  int64_t time_unix_ms = 0;
};

class task_reader {
 public:
  task_reader(store& s, page_data& page, const std::string& experiment)
      : store_(s), page_(page), experiment_(experiment) {}

  expected<void> read(const best_row& row) {
    task_page t;
    t.row = row;
    CUDAL1_CHECK(read_verdicts(t));
    CUDAL1_CHECK(read_best(t));
    CUDAL1_CHECK(read_baselines(t));
    CUDAL1_TRY(const task_record record, store_.get_task(row.task));
    t.summary = record.summary;
    const auto parsed = read_task(record.text, record.profile);
    if (parsed && parsed->origin) t.origin = origin_text(*parsed->origin);
    page_.tasks.push_back(std::move(t));
    return {};
  }

  void finish() {
    page_.techniques = techniques_of(tried_);
    for (auto& [name, newest] : failures_)
      page_.failures.push_back(std::move(newest.kind));
    std::ranges::stable_sort(page_.failures, std::greater{}, &failure_class::count);
  }

 private:
  expected<void> read_verdicts(task_page& t) {
    CUDAL1_TRY(auto verdicts, store_.verdicts_of_task(t.row.task, experiment_));
    t.curve = best_curve(verdicts);
    std::set<std::string> seen;
    for (auto v = verdicts.rbegin(); v != verdicts.rend(); ++v) {
      ++t.outcomes[enum_name(v->result)];
      if (v->result != outcome::correct) count_failure(*v, t.row.name);
      if (seen.size() < most_variants_of_a_task && seen.insert(v->variant).second)
        CUDAL1_CHECK(count_moves(*v, v->variant == t.row.variant));
    }
    return {};
  }

  expected<void> count_moves(const verdict& v, bool is_best) {
    const auto record = store_.get_variant(v.variant);
    if (!record && record.error().code == errc::not_found) return {};  // pruned
    CUDAL1_CHECK(record);
    tried_.push_back({v.task, record->schedule, v.result, v.score, is_best});
    return {};
  }

  void count_failure(const verdict& v, const std::string& task) {
    auto& newest = failures_[enum_name(v.result)];
    ++newest.kind.count;
    if (newest.kind.count > 1 && v.time_unix_ms <= newest.time_unix_ms) return;
    newest.time_unix_ms = v.time_unix_ms;
    newest.kind = {enum_name(v.result), newest.kind.count, task, v.variant, v.reason};
  }

  expected<void> read_best(task_page& t) {
    const auto& id = !t.row.variant.empty() ? t.row.variant : t.row.unconfirmed ? t.row.unconfirmed->variant : "";
    if (id.empty()) return {};
    CUDAL1_TRY(t.variant, store_.get_variant(id));
    CUDAL1_TRY(t.result, counting_verdict(store_, t.row.task, id));
    CUDAL1_TRY(t.lineage, lineage_of(store_, *t.variant));
    return {};
  }

  expected<void> read_baselines(task_page& t) {
    CUDAL1_TRY(const auto all, store_.baselines_of_task(t.row.task));
    for (const auto kind : baseline_kinds)
      for (auto b = all.rbegin(); b != all.rend(); ++b)
        if (b->kind == kind && b->environment_id == t.row.environment_id) {
          t.baselines.push_back(*b);
          break;
        }
    return {};
  }

  store& store_;
  page_data& page_;
  std::string experiment_;
  std::vector<tried_variant> tried_;
  std::map<std::string, newest_failure> failures_;
};

}  // namespace

expected<page_data> read_page(store& s, const std::string& experiment, const std::string& against) {
  page_data page;
  page.now_unix_ms = unix_ms();
  CUDAL1_TRY(page.report, experiment.empty() ? report_everything(s) : report_experiment(s, experiment));
  CUDAL1_CHECK(read_experiments(s, page, experiment));
  CUDAL1_CHECK(read_bases(s, page));
  CUDAL1_CHECK(compare_with_base_or_usual(s, page.report, against));
  CUDAL1_CHECK(read_curves(s, page));
  task_reader reader(s, page, experiment);
  for (const auto& row : page.report.tasks)
    CUDAL1_CHECK(reader.read(row));
  reader.finish();
  CUDAL1_TRY(page.hacks, hacks_by_class(s, most_hacks_read));
  for (auto& c : page.hacks) {
    std::erase_if(c.cases, [&](const hack_case& h) { return !experiment.empty() && h.experiment != experiment; });
    if (c.cases.size() > most_hacks_of_a_class) c.cases.resize(most_hacks_of_a_class);
  }
  std::erase_if(page.hacks, [](const hacks_of_class& c) { return c.cases.empty(); });
  return page;
}

}  // namespace cudal1::cli
