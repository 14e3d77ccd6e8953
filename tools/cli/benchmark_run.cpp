#include "tools/cli/benchmark_run.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/durable_file.hpp"
#include "config/base/stopwatch.hpp"
#include "config/base/text_file.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"
#include "tools/cli/evaluator_results.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/own_command.hpp"

namespace cudal1::cli {

namespace {

namespace fs = std::filesystem;

using words = std::vector<std::string>;

// What the paper compares with; on a CPU graphs do not exist, and compiling is slow.
words usual_kinds(bool on_gpu) {
  return on_gpu ? words{"eager", "compile", "reduce-overhead", "graph"} : words{"eager"};
}

class benchmark {
 public:
  benchmark(std::string folder, benchmark_state state, evaluator_request evaluator, const context& c)
      : folder_(std::move(folder)), state_(std::move(state)), evaluator_(std::move(evaluator)), c_(c) {}

  expected<int> run() {
    CUDAL1_CHECK(save());
    CUDAL1_TRY(const bool imported, step("import", import_words(), {exit_code::negative}));
    if (!imported) return end();
    CUDAL1_TRY(const bool searched, search());
    if (!searched) return end();
    CUDAL1_TRY(const auto experiment, record());
    const bool on_gpu = experiment.device != "cpu";
    const words kinds = state_.request.kinds.empty() ? usual_kinds(on_gpu) : state_.request.kinds;
    words baseline{"baseline", "--experiment", experiment.id, "--kinds", fmt::format("{}", fmt::join(kinds, ","))};
    add_settings(baseline);
    CUDAL1_TRY(const bool measured, step("baseline", std::move(baseline), {exit_code::negative}));
    if (!measured) return end();
    CUDAL1_TRY(const bool exported, export_files(experiment, on_gpu));
    if (!exported) return end();
    CUDAL1_TRY(const bool evaluated, state_.request.definitions ? write_solutions() : evaluate_files(experiment));
    if (!evaluated) return end();
    return reports(experiment, kinds);
  }

 private:
  bool is_done(const std::string& name) const { return std::ranges::count(state_.done, name) > 0; }

  expected<void> save() const {
    return write_durably({.path = folder_ + "/bench.json"}, to_json(state_).text(2) + "\n");
  }

  void say(const std::string& text) const {
    if (!c_.quiet) c_.err.print(text);
  }

  // Runs a command of this program on our data folder.
  expected<int> command(words w) const {
    w = with_data(std::move(w));
    if (c_.quiet) w.emplace_back("--quiet");
    say(c_.err.bold("$ " + command_text(w)) + "\n");
    return run_own_command(w);
  }

  // False if it has ended without success; `fine`: other exit codes with which the next step may begin.
  expected<bool> step(const std::string& name, words w, const std::vector<int>& fine) {
    if (is_done(name)) return true;
    const stopwatch watch;
    CUDAL1_TRY(exit_, command(std::move(w)));
    if (exit_ != exit_code::success && std::ranges::count(fine, exit_) == 0) return false;
    say(fmt::format("{}: {}\n\n", name, format_clock(watch.ms() / 1000)));
    state_.done.push_back(name);
    CUDAL1_CHECK(save());
    return true;
  }

  // Of a step that has failed, or was interrupted.
  expected<int> end() const {
    note(c_, fmt::format("what is done is kept in {}; the same command goes on", folder_));
    return exit_;
  }

  void add_settings(words& w) const {
    for (const auto& setting : state_.request.settings)
      w.insert(w.end(), {"--set", setting});
  }

  words import_words() const {
    const auto& r = state_.request;
    words w{"tasks", "import"};
    w.insert(w.end(), r.sources.begin(), r.sources.end());
    w.insert(w.end(), {"--out", folder_ + "/tasks"});
    if (r.level > 0) w.insert(w.end(), {"--level", std::to_string(r.level)});
    if (!r.only.empty()) w.insert(w.end(), {"--only", fmt::format("{}", fmt::join(r.only, ","))});
    if (r.confined) w.emplace_back("--confined");
    return w;
  }

  expected<std::vector<experiment_record>> experiments() const {
    if (!store_exists(c_)) return std::vector<experiment_record>();
    CUDAL1_TRY(const auto reader, open_for_reading(c_));
    return reader->experiments();
  }

  // The one that leads, of those that the search has begun.
  expected<void> find_experiment() {
    CUDAL1_TRY(const auto all, experiments());
    for (const auto& e : all)
      if (state_.experiment.empty() && e.lead.empty() && e.policy != hand_policy &&
          keys::experiment_number(e.id) > keys::experiment_number(state_.before))
        state_.experiment = e.id;
    return save();
  }

  expected<experiment_record> record() const {
    CUDAL1_TRY(const auto reader, open_for_reading(c_));
    return reader->get_experiment(state_.experiment);
  }

  expected<bool> search() {
    if (is_done("search")) return true;
    const auto& r = state_.request;
    if (state_.experiment.empty() && !state_.before.empty()) CUDAL1_CHECK(find_experiment());  // it was killed
    words w{"run"};
    if (!state_.experiment.empty()) {
      w.insert(w.end(), {"--resume", state_.experiment});
    } else {
      CUDAL1_TRY(const auto all, experiments());
      state_.before = "e0";
      for (const auto& e : all)
        if (keys::experiment_number(e.id) > keys::experiment_number(state_.before)) state_.before = e.id;
      CUDAL1_CHECK(save());
      w.insert(w.end(), {"--tasks", folder_ + "/tasks", "--evaluations", std::to_string(r.evaluations)});
      if (!r.device.empty()) w.insert(w.end(), {"--device", r.device});
      if (!r.policy.empty()) w.insert(w.end(), {"--policy", r.policy});
      if (!r.time.empty()) w.insert(w.end(), {"--time", r.time});
    }
    w.insert(w.end(), {"--against", "program"});
    add_settings(w);
    auto ended = step("search", std::move(w), {});
    CUDAL1_CHECK(find_experiment());
    if (ended && *ended && state_.experiment.empty())
      return fail(errc::infrastructure, "the search left no experiment in {}", c_.data);
    return ended;
  }

  expected<bool> export_files(const experiment_record& experiment, bool on_gpu) {
    if (!state_.request.exports) return true;
    if (!on_gpu) {
      note(c_, "no files with ModelNew: kernels that were searched on cpu are no CUDA files that could be checked");
      return true;
    }
    return step("export",
                {"export", folder_ + "/submission", "--experiment", experiment.id, "--format", "kernelbench", "--all",
                 "--force"},
                {exit_code::negative});
  }

  // KernelBench's own evaluator, where there are files and a checkout.
  expected<bool> evaluate_files(const experiment_record& experiment) {
    if (!is_done("export") || is_done("evaluator")) return true;
    if (evaluator_.kernelbench.empty()) {
      note(c_,
           "KernelBench's own evaluator was left out: `git clone https://github.com/ScalingIntelligence/KernelBench`, "
           "then the same command with --kernelbench KernelBench");
      return true;
    }
    if (!has_files()) {
      note(c_, fmt::format("KernelBench's own evaluator has nothing to evaluate: {}/submission has no file; its "
                           "README.md says why",
                           folder_));
      return true;
    }
    CUDAL1_TRY(const auto devices, read_device_list(experiment.device));
    const auto device = name_on_machine(devices.front());
    words w{"bench",
            "evaluator",
            folder_ + "/submission",
            "--kernelbench",
            evaluator_.kernelbench,
            "--device",
            traits_of(device).is_accelerator && index_of_device(device) < 0 ? device + ":0" : device};
    if (!evaluator_.timeout.empty()) w.insert(w.end(), {"--timeout", evaluator_.timeout});
    return step("evaluator", std::move(w), {exit_code::negative});
  }

  // The exported files as solutions, which the sets' own packages check and run where they are installed.
  expected<bool> write_solutions() {
    if (!is_done("export") || !has_files()) return true;
    words w{"bench", "solutions", folder_ + "/submission"};
    for (const auto& source : state_.request.sources)
      w.insert(w.end(), {"--definitions", source});
    if (!evaluator_.timeout.empty()) w.insert(w.end(), {"--timeout", evaluator_.timeout});
    return step("solutions", std::move(w), {exit_code::negative});
  }

  // Whether the export has written any.
  bool has_files() const {
    std::error_code problem;
    for (fs::recursive_directory_iterator entry(folder_ + "/submission", problem), end; entry != end && !problem;
         entry.increment(problem))
      if (entry->path().filename().string().ends_with("_kernel.py")) return true;
    return false;
  }

  std::string evaluator_file() const {
    std::error_code problem;
    const auto file = folder_ + "/submission/evaluator.json";
    return fs::exists(file, problem) ? file : "";
  }

  expected<int> reports(const experiment_record& experiment, const words& kinds) const {
    int worst = exit_code::success;
    for (const auto& kind : kinds) {
      const words report{"report", "--experiment", experiment.id, "--against", kind};
      CUDAL1_TRY(const int shown, command(report));
      auto as_json = report;
      as_json.emplace_back("--json");
      CUDAL1_TRY(const int written, run_own_command(with_data(as_json), fmt::format("{}/{}.json", folder_, kind)));
      worst = std::max({worst, shown, written});
    }
    words page{"report", "--experiment", experiment.id, "--html", folder_ + "/report.html"};
    const auto evaluated = evaluator_file();
    if (!evaluated.empty()) {
      page.insert(page.end(), {"--evaluator", evaluated});
      CUDAL1_TRY(const auto results, read_evaluator_results(evaluated));
      c_.out.print(wrap(evaluator_sentence(results), c_.out.width, 0) + "\n");
    }
    CUDAL1_TRY(const int paged, command(page));
    worst = std::max(worst, paged);
    c_.out.print(fmt::format("Kept in {}: report.html, tasks/, {}{}{}{}.json.\n", folder_,
                             is_done("export") ? "submission/ (checked files with ModelNew), " : "",
                             is_done("solutions") ? "submission/solutions/, " : "",
                             evaluated.empty() ? "" : "submission/evaluator.json, ", fmt::join(kinds, ".json, ")));
    return worst;
  }

  words with_data(words w) const {
    w.insert(w.end(), {"--data", c_.data});
    return w;
  }

  const std::string folder_;
  benchmark_state state_;
  const evaluator_request evaluator_;
  const context& c_;
  int exit_ = exit_code::success;
};

// What was done before, if it was for the same request.
expected<benchmark_state> state_of(const benchmark_request& r, const std::string& folder) {
  std::error_code problem;
  const std::string path = folder + "/bench.json";
  if (!fs::exists(path, problem)) {
    if (fs::exists(folder, problem) && !fs::is_empty(folder, problem))
      return fail(errc::invalid_argument, "{} has other files; give another folder with --out", folder);
    fs::create_directories(folder, problem);
    if (problem) return fail(errc::io_error, "cannot create {}: {}", folder, problem.message());
    return benchmark_state{r, {}, "", ""};
  }
  CUDAL1_TRY(const std::string text, read_text_file(path));
  auto state = from_text<benchmark_state>(text);
  if (!state) return fail_in(path, std::move(state).error());
  if (to_json(state->request) != to_json(r))
    return fail(errc::invalid_argument,
                "{} is of a run with other sources or options; repeat that command ({} has them), or give another "
                "folder with --out",
                folder, path);
  return std::move(*state);
}

}  // namespace

expected<int> run_benchmark(const benchmark_request& r, const evaluator_request& evaluator, const std::string& folder,
                            const context& c) {
  CUDAL1_TRY(auto state, state_of(r, folder));
  return benchmark(folder, std::move(state), evaluator, c).run();
}

}  // namespace cudal1::cli
