#include "tools/kernelbench/export_kernelbench.hpp"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <poll.h>

#include "config/base/describe.hpp"
#include "config/base/stopwatch.hpp"
#include "tools/baseline/thread_pool.hpp"
#include "tools/cli/format.hpp"
#include "tools/kernelbench/export_candidates.hpp"
#include "tools/kernelbench/file_check.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_digits = 8;  // of an id in a name

// runs/cudal1_level1/level_1_problem_23_sample_0_kernel.py; models/NAME_kernel.py of the user's own models. Another
// version of a problem, or of a model, goes to a folder of its own.
std::string place_of(const exported_task& e, const std::set<std::string>& taken) {
  const auto name = kernelbench::file_name(e.t);
  const auto folder = e.line.level > 0 ? fmt::format("runs/cudal1_level{}", e.line.level) : std::string("models");
  const auto usual = folder + "/" + name;
  return taken.contains(usual) ? fmt::format("{}_{}/{}", folder, e.line.id.substr(0, k_digits), name) : usual;
}

// problems/cudal1_level1/level_1_problem_23.py
std::string problem_place(const std::string& file) {
  const std::filesystem::path path(file);
  auto stem = path.stem().string();
  for (const std::string_view ending : {"_kernel", "_sample_0"})
    if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  return fmt::format("problems/{}/{}.py", path.parent_path().filename().string(), stem);
}

bool is_readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return fd >= 0 && ::poll(&p, 1, 0) > 0;
}

// An export under way: its files, and an index of those that are done.
class model_export {
 public:
  model_export(const search_report& r, const kernelbench_request& request, std::vector<exported_task> tasks)
      : request_(request), tasks_(std::move(tasks)), done_(tasks_.size()) {
    made_.index.checked = request.check;
    made_.index.for_cpu = request.for_cpu;
    made_.index.complete = false;
    made_.index.device = r.device;
    made_.index.environments = r.environments;
    std::set<std::string> taken;
    for (const auto& e : tasks_) {
      places_.push_back(e.candidates.empty() ? "" : place_of(e, taken));
      taken.insert(places_.back());
    }
  }

  expected<kernelbench_files> run() {
    CUDAL1_CHECK(choose_all());
    made_.index.complete = std::ranges::all_of(done_, [](bool d) { return d; });
    count();
    if (made_.models > 0) CUDAL1_CHECK(write_last());
    return std::move(made_);
  }

 private:
  bool is_stopped() const { return is_readable(request_.stop_fd); }

  expected<std::unique_ptr<file_checker>> make_checker() const {
    std::unique_ptr<file_checker> checker;
    for (const auto& e : tasks_) {
      if (!request_.check || e.candidates.empty() || !e.t.origin) continue;
      if (!checker) {
        CUDAL1_TRY(checker,
                   file_checker::create(
                       {.data = request_.data, .check_limit_s = request_.check_limit_s, .stop_fd = request_.stop_fd}));
      }
      CUDAL1_CHECK(checker->prepare(e.line.device));
    }
    return checker;
  }

  expected<void> choose_all() {
    auto checker = make_checker();
    if (!checker) return without_stop(tl::unexpected(checker.error()));
    thread_pool pool(request_.check ? std::min(file_checker::useful_threads(), tasks_.size()) : 1);
    return without_stop(pool.for_each(
        tasks_.size(), [this] { return is_stopped(); },
        [&](std::size_t, std::size_t i) -> expected<void> {
          auto& e = tasks_[i];
          if (!e.candidates.empty()) CUDAL1_CHECK(choose(e, request_, checker->get()));
          const std::lock_guard lock(finishing_);
          return finish(i);
        }));
  }

  // What was under way is left out, and not an error.
  expected<void> without_stop(expected<void> result) const {
    if (!result && result.error().code == errc::cancelled && is_stopped()) return {};
    return result;
  }

  // The task's file, and the index with it.
  expected<void> finish(std::size_t i) {
    auto& e = tasks_[i];
    done_[i] = true;
    if (!e.text.empty()) {
      e.line.file = places_[i];
      e.line.problem_file = problem_place(places_[i]);
      if (!std::exchange(has_support_, true))
        for (const auto& [name, text] : kernelbench::support_files())
          CUDAL1_CHECK(write({std::string(name), std::string(text)}));
      CUDAL1_CHECK(write({e.line.file, std::move(e.text)}));
      CUDAL1_CHECK(write({e.line.problem_file, std::move(e.problem)}));
      CUDAL1_CHECK(write_index());
    } else if (e.candidates.empty()) {
      e.line.note = "the reference itself is the best";
    }
    report(e);
    return {};
  }

  void report(const exported_task& e) {
    if (e.candidates.empty()) return;
    ++progress_.done;
    progress_.kept += e.kept ? 1 : 0;
    progress_.tasks = std::ranges::count_if(tasks_, [](const auto& t) { return !t.candidates.empty(); });
    progress_.elapsed_s = watch_.ms() / 1000;
    progress_.task = e.line.task;
    progress_.outcome = e.line.file.empty() ? "not exported" : "checked";
    if (request_.check && request_.progress) request_.progress(progress_);
  }

  // What is done, in the order of the tasks.
  void count() {
    made_.index.tasks.clear();
    made_.models = made_.without = 0;
    made_.refusals.clear();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const auto& e = tasks_[i];
      if (!done_[i]) continue;
      made_.index.tasks.push_back(e.line);
      if (e.candidates.empty())
        ++made_.without;
      else if (e.line.file.empty())
        made_.refusals.push_back(fmt::format("{}: {}", e.line.task, e.line.note));
      else
        ++made_.models;
    }
  }

  expected<void> write(const output_file& file) {
    CUDAL1_CHECK(request_.write(file));
    if (std::ranges::find(made_.names, file.name) == made_.names.end()) made_.names.push_back(file.name);
    return {};
  }

  expected<void> write_index() {
    count();
    return write({"index.json", to_json(made_.index).text(2) + "\n"});
  }

  expected<void> write_last() {
    std::set<std::string> runs;
    for (const auto& m : made_.index.tasks) {
      if (!m.file.starts_with("runs/")) continue;
      const auto run = std::filesystem::path(m.file).parent_path().filename().string();
      if (!runs.insert(run).second) continue;
      CUDAL1_CHECK(write({"runs/" + run + "/generation_config.yaml", generation_config(run, m.level)}));
      for (const auto& [name, layout] : {std::pair{"eval_results.json", results_layout::main},
                                         std::pair{"eval_results_v0.json", results_layout::v0}})
        if (auto text = eval_results(made_.index, run, layout); !text.empty())
          CUDAL1_CHECK(write({fmt::format("runs/{}/{}", run, name), std::move(text)}));
    }
    CUDAL1_CHECK(write({"README.md", export_readme(made_.index)}));
    return write_index();
  }

  const kernelbench_request& request_;
  std::vector<exported_task> tasks_;
  std::vector<std::string> places_;  // of each task's file
  std::mutex finishing_;             // of what follows
  std::vector<bool> done_;
  bool has_support_ = false;
  kernelbench_files made_;
  export_progress progress_;
  stopwatch watch_;
};

}  // namespace

std::string progress_text(const export_progress& p) {
  auto text = fmt::format("{} of {}", p.done, p.tasks);
  if (p.kept > 0) text += fmt::format(" ({} known before)", p.kept);
  text += fmt::format(", {}", format_clock(p.elapsed_s));
  // What was known took no time.
  if (const auto worked = p.done - p.kept; worked > 0 && p.done < p.tasks)
    text += fmt::format(", about {} left", format_clock(p.elapsed_s / static_cast<double>(worked) *
                                                        static_cast<double>(p.tasks - p.done)));
  return text;
}

std::string export_command(const std::vector<task>& tasks, const std::string& device) {
  const std::string programs = "cudal1 export DIR";
  if (std::ranges::none_of(tasks, [](const task& t) { return t.origin && t.is_whole_model(); })) return programs;
  return programs + " --format kernelbench" + (is_for_cpu(device) ? " --for-cpu" : "");
}

expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r,
                                                   const kernelbench_request& request) {
  search_report compared = r;
  CUDAL1_CHECK(compare_with_base(s, compared, "eager"));
  std::vector<exported_task> tasks;
  for (const auto& row : compared.tasks) {
    CUDAL1_TRY(auto e, prepared_task(s, compared, row, request));
    tasks.push_back(std::move(e));
  }
  return model_export(compared, request, std::move(tasks)).run();
}

}  // namespace cudal1::cli
