#include "tools/kernelbench/export_kernelbench.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/device/compute_capability.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "tools/baseline/thread_pool.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t k_most_variants = 4;  // of a task that are tried
constexpr std::size_t k_ranked = 64;        // among which the fastest without kernels of its own is looked for
constexpr std::size_t k_digits = 8;         // of an id in a name

// One that may become a task's file, best first.
struct candidate {
  kernelbench::exported_variant variant;
  bool is_reference = false;
  std::optional<eager_comparison> eager;
  double speedup = 1;
  interval speedup_interval{1, 1};
  double reference_us = 0, best_us = 0;
};

struct exported_task {
  task t;
  exported_model line;
  std::vector<candidate> candidates;
  std::string problem, quoted;  // the source, and as the file has it
  std::string text;             // of the file that was taken; "" where none was
};

const environment* environment_of(const search_report& r, const std::string& id) {
  const auto found =
      std::find_if(r.environments.begin(), r.environments.end(), [&](const auto& e) { return e.id == id; });
  return found == r.environments.end() ? nullptr : &*found;
}

std::optional<eager_comparison> over_eager(const best_row& row) {
  if (!row.against || !row.against->problem.empty() || !(row.against->speedup > 0)) return std::nullopt;
  const auto& a = *row.against;
  return eager_comparison{a.speedup,           a.speedup_interval, a.base_us, a.variant_us,    a.base_device_us,
                          a.variant_device_us, a.pace_us,          a.beside,  a.environment_id};
}

std::string measured(const candidate& c, const environment* where) {
  if (c.reference_us <= 0 || where == nullptr) return "";
  const std::string beside = c.eager ? fmt::format("; {:.2f}x over PyTorch's eager mode, {:.1f} us to {:.1f} us",
                                                   c.eager->speedup, c.eager->eager_us, c.eager->variant_us)
                                     : "";
  return fmt::format(
      "{:.2f}x [{:.2f}, {:.2f}] over the task's own program, {:.1f} us to {:.1f} us a call{}, on {} ({})", c.speedup,
      c.speedup_interval.low, c.speedup_interval.high, c.reference_us, c.best_us, beside, where->device, where->model);
}

candidate best_of(const best_row& row) {
  candidate c;
  c.variant.explanation = row.explanation;
  c.eager = over_eager(row);
  c.speedup = row.speedup;
  c.speedup_interval = row.speedup_interval;
  c.reference_us = row.reference_us;
  c.best_us = row.best_us;
  return c;
}

candidate next_best(const store::ranked& found) {
  candidate c;
  c.variant.id = found.variant.id;
  c.variant.program = found.variant.program;
  c.variant.explanation = found.variant.explanation;
  c.speedup = found.result.score;
  c.speedup_interval = found.result.score_interval;
  c.reference_us = found.result.reference_us;
  c.best_us = found.result.variant_us;
  return c;
}

candidate reference_of(const task& t, const best_row& row) {
  candidate c;
  if (row.is_reference) c = best_of(row);
  c.is_reference = true;
  c.variant.id = t.reference.id;
  c.variant.program = print_program(t.reference.text);
  c.reference_us = c.best_us = row.reference_us;
  return c;
}

// The best one first, then the next ones that are confirmed and faster than the reference, then the reference.
expected<std::vector<candidate>> candidates_of(store& s, const search_report& r, const task& t, const best_row& row,
                                               const kernelbench_request& request, const environment* where) {
  std::vector<candidate> all;
  if (!row.is_reference) {
    CUDAL1_TRY(auto variant, s.get_variant(row.variant));
    all.push_back(best_of(row));
    all.back().variant.id = variant.id;
    all.back().variant.program = std::move(variant.program);
    CUDAL1_TRY(const auto others, s.best(row.task, k_ranked, store::ranking::confirmed, r.experiment));
    bool has_library_only = false;  // which most often gives eager's bits
    for (const auto& other : others) {
      if (other.variant.id == row.variant || other.variant.id == t.reference.id || other.result.score <= 1) continue;
      CUDAL1_TRY(const bool library_only, kernelbench::is_library_only(other.variant.program));
      if (all.size() >= k_most_variants && (has_library_only || !library_only)) continue;
      all.push_back(next_best(other));
      has_library_only = has_library_only || library_only;
    }
  }
  if (request.which == exported_tasks::all) all.push_back(reference_of(t, row));
  for (auto& c : all) {
    c.variant.measured = measured(c, where);
    if (where != nullptr) c.variant.capability = compute_capability_of(where->details);
    c.variant.needed_gradients = request.needed_gradients;
    if (where != nullptr && is_for_cpu(where->device) && !request.for_cpu)
      c.variant.warning = fmt::format("searched on {}; {}", where->device, k_about_cpu);
  }
  return all;
}

// quote_source.py with a text. Any Python will do.
expected<std::string> ask_quoting(const char* what, const std::string& text) {
  CUDAL1_TRY(const auto script, python_script("quote_source.py"));
  CUDAL1_TRY(const auto folder, private_folder::create());
  const auto file = folder.path() + "/text";
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) return fail(errc::io_error, "cannot write {}", file);
  const auto python = find_python();
  CUDAL1_TRY(const auto answer, run_python(python ? *python : "python3", script, {what, file}));
  if (answer.code != 0) return fail(errc::infrastructure, "{} {} ended with exit code {}", script, what, answer.code);
  return answer.out;
}

expected<std::vector<std::string>> refused_words(const std::string& text) {
  CUDAL1_TRY(const auto answer, ask_quoting("rules", text));
  CUDAL1_TRY(const auto document, json::parse(answer));
  std::vector<std::string> words;
  CUDAL1_CHECK(from_json(document, words, "quote_source.py's answer"));
  return words;
}

expected<exported_task> prepared_task(store& s, const search_report& r, const best_row& row,
                                      const kernelbench_request& request) {
  CUDAL1_TRY(const auto record, s.get_task(row.task));
  CUDAL1_TRY(auto t, read_task(record.text, record.profile));
  exported_task e;
  const auto* where = environment_of(r, row.environment_id);
  e.line.task = row.name;
  e.line.id = row.task;
  e.line.device = where != nullptr ? where->device : r.device;
  CUDAL1_TRY(e.candidates, candidates_of(s, r, t, row, request, where));
  e.t = std::move(t);
  if (e.t.origin) {
    e.line.level = e.t.origin->level.value_or(0);
    e.line.problem = e.t.origin->problem.value_or(0);
    e.line.code_sha256 = std::filesystem::path(e.t.origin->source).stem().string();
  }
  return e;
}

// Puts the candidate into the index's line.
expected<void> take(exported_task& e, const candidate& c, std::string text) {
  auto& line = e.line;
  line.variant = c.variant.id;
  line.eager = c.eager;
  line.speedup = c.speedup;
  line.speedup_interval = c.speedup_interval;
  line.reference_us = c.reference_us;
  line.best_us = c.best_us;
  line.explanation = c.variant.explanation;
  CUDAL1_TRY(line.library_only, kernelbench::is_library_only(c.variant.program));
  CUDAL1_TRY(line.refused_words, refused_words(text));
  const double stored_us = c.eager ? c.eager->variant_us : c.best_us;
  if (line.check && stored_us > 0 && line.check->exported_us > 0)
    line.python_call_ratio = line.check->exported_us / stored_us;
  e.text = std::move(text);
  return {};
}

// "" where the file is right or nothing is checked; errors are of the machine.
expected<std::string> problem_of_file(exported_task& e, const candidate& c, const std::string& text,
                                      file_checker* checker) {
  if (checker == nullptr) return std::string();
  if (!traits_of(e.line.device).is_accelerator) {
    CUDAL1_TRY(const bool runs_here, kernelbench::is_library_only(c.variant.program));
    if (!runs_here)
      return fmt::format(
          "its kernels, which were searched on {}, are exported as CUDA's and cannot be checked there: use --no-check, "
          "or search on a GPU",
          e.line.device);
  }
  CUDAL1_TRY(auto found, checker->check({kernelbench::file_name(e.t), text, e.problem, e.line.device, e.line.level > 0,
                                         c.eager ? c.eager->pace_us : 0}));
  auto problem = found.problem;
  e.line.check = std::move(found);
  return problem;
}

// Of a right file that is further from eager than KernelBench allows, since eager is so from itself.
std::string why_not_strict(const file_check_result& check) {
  return fmt::format(
      "right, since eager is as noisy ({}), but its output differs from eager's by up to {:.3g} times the tolerance: "
      "KernelBench's evaluator would refuse it",
      fmt::join(check.ill_conditioned, ", "), std::max(check.excess, check.row_excess));
}

// Why no candidate became the task's file. One reason of all (that nothing can be checked here) is said once.
std::string why_nothing(const std::vector<failed_candidate>& failed) {
  if (failed.empty()) return "nothing to export";
  if (std::ranges::all_of(failed, [&](const auto& f) { return f.problem == failed[0].problem; }))
    return failed[0].problem;
  return fmt::format("none of {} variants is right; the best: {}", failed.size(), failed[0].problem);
}

// The first candidate whose file can be made and is right; one that KernelBench's evaluator accepts before one that is
// right by eager's own noise alone.
expected<void> choose(exported_task& e, const kernelbench_request& request, file_checker* checker) {
  const auto blobs = request.data + "/blobs";
  auto problem = kernelbench::problem_source(e.t, blobs);
  if (!problem) {
    e.line.note = problem.error().message;
    return {};
  }
  e.problem = std::move(*problem);
  CUDAL1_TRY(e.quoted, ask_quoting("quote", e.problem));
  struct loose_file {
    candidate* of;
    std::string text;
    file_check_result check;
    std::size_t failed_before = 0;
  };
  std::optional<loose_file> loose;
  for (auto& c : e.candidates) {
    c.variant.source = e.quoted;
    auto text = kernelbench::model_file(e.t, c.variant, blobs);
    std::string why = text ? "" : text.error().message;
    e.line.check.reset();
    if (text) {
      CUDAL1_TRY(why, problem_of_file(e, c, *text, checker));
    }
    if (why.empty() && (!e.line.check || e.line.check->strict)) return take(e, c, std::move(*text));
    if (why.empty()) {
      why = why_not_strict(*e.line.check);
      if (!loose) loose = {&c, std::move(*text), *e.line.check, e.line.failed.size()};
    }
    e.line.failed.push_back({c.variant.id, std::move(why)});
  }
  e.line.check.reset();
  if (loose) {
    e.line.failed.resize(loose->failed_before);
    e.line.check = std::move(loose->check);
    return take(e, *loose->of, std::move(loose->text));
  }
  e.line.note = why_nothing(e.line.failed);
  return {};
}

expected<void> choose_all(std::vector<exported_task>& tasks, const kernelbench_request& request) {
  std::unique_ptr<file_checker> checker;
  for (const auto& e : tasks) {
    if (!request.check || e.candidates.empty() || !e.t.origin) continue;
    if (!checker) {
      CUDAL1_TRY(checker, file_checker::create({.data = request.data, .check_limit_s = request.check_limit_s}));
    }
    CUDAL1_CHECK(checker->prepare(e.line.device));
  }
  thread_pool pool(request.check ? std::max(1U, std::thread::hardware_concurrency() / 2) : 1);
  std::mutex reporting;
  return pool.for_each(
      tasks.size(), [] { return false; },
      [&](std::size_t, std::size_t i) -> expected<void> {
        auto& e = tasks[i];
        if (e.candidates.empty()) return {};
        CUDAL1_CHECK(choose(e, request, checker.get()));
        const std::lock_guard lock(reporting);
        if (checker && request.progress)
          request.progress(fmt::format("{}: {}", e.line.task, e.text.empty() ? "not exported" : "checked"));
        return {};
      });
}

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

void add_run_files(kernelbench_files& made) {
  std::set<std::string> done;
  for (const auto& m : made.index.tasks) {
    if (!m.file.starts_with("runs/")) continue;
    const auto run = std::filesystem::path(m.file).parent_path().filename().string();
    if (!done.insert(run).second) continue;
    made.files.push_back({"runs/" + run + "/generation_config.yaml", generation_config(run, m.level)});
    for (const auto& [name, layout] :
         {std::pair{"eval_results.json", results_layout::main}, std::pair{"eval_results_v0.json", results_layout::v0}})
      if (auto text = eval_results(made.index, run, layout); !text.empty())
        made.files.push_back({fmt::format("runs/{}/{}", run, name), std::move(text)});
  }
}

void add_model(kernelbench_files& made, exported_task& e, std::set<std::string>& taken) {
  if (e.candidates.empty()) {
    e.line.note = "the reference itself is the best";
    ++made.without;
  } else if (e.text.empty()) {
    made.refusals.push_back(fmt::format("{}: {}", e.line.task, e.line.note));
  } else {
    e.line.file = place_of(e, taken);
    taken.insert(e.line.file);
    e.line.problem_file = problem_place(e.line.file);
    made.files.push_back({e.line.file, std::move(e.text)});
    made.files.push_back({e.line.problem_file, std::move(e.problem)});
    ++made.models;
  }
  made.index.tasks.push_back(std::move(e.line));
}

}  // namespace

expected<kernelbench_files> make_kernelbench_files(store& s, const search_report& r,
                                                   const kernelbench_request& request) {
  search_report compared = r;
  CUDAL1_CHECK(compare_with_base(s, compared, "eager"));
  std::vector<exported_task> tasks;
  for (const auto& row : compared.tasks) {
    CUDAL1_TRY(auto e, prepared_task(s, compared, row, request));
    tasks.push_back(std::move(e));
  }
  CUDAL1_CHECK(choose_all(tasks, request));
  kernelbench_files made;
  made.index.checked = request.check;
  made.index.for_cpu = request.for_cpu;
  made.index.device = compared.device;
  made.index.environments = compared.environments;
  std::set<std::string> taken;
  for (auto& e : tasks)
    add_model(made, e, taken);
  for (const auto& [name, text] : kernelbench::support_files())
    made.files.push_back({std::string(name), std::string(text)});
  add_run_files(made);
  made.files.push_back({"index.json", to_json(made.index).text(2) + "\n"});
  made.files.push_back({"README.md", export_readme(made.index)});
  return made;
}

}  // namespace cudal1::cli
