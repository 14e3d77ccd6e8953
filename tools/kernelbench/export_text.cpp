#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/device/device_type.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/kernelbench/export_index.hpp"

namespace cudal1::cli {

namespace {

constexpr double k_same_call_time = 0.1;    // differences above it are said
constexpr double k_excessive_speedup = 10;  // as KernelBench's evaluator flags it

bool has_file(const exported_model& m) {
  return !m.file.empty();
}

std::string eager_text(const exported_model& m) {
  return m.eager ? format_speedup(m.eager->speedup) + (m.eager->beside ? "" : "*") : "-";
}

std::string remarks(const exported_model& m) {
  std::vector<std::string> all;
  const auto add = [&](std::string text) {
    if (!text.empty()) all.push_back(std::move(text));
  };
  if (m.library_only) add("library-only");
  add(call_time_note(m));
  add(conditioning_note(m));
  if (m.check && !m.check->strict) add("KernelBench's evaluator refuses it at 1e-4");
  for (const auto& words : m.refused_words)
    add(words);
  if (!m.failed.empty())
    add(fmt::format("{} failed the check", format_count(static_cast<int64_t>(m.failed.size()), "better variant")));
  if (m.check)
    for (const auto& note : m.check->notes)
      add(note);
  return fmt::format("{}", fmt::join(all, "; "));
}

constexpr const char* k_introduction =
    "Each `*_kernel.py` holds a problem's code and a `ModelNew(Model)` with the same parameters, whose forward is one "
    "program of CUDA kernels and calls of PyTorch's operators. It needs PyTorch, a C++ compiler and nvcc "
    "(`CUDA_HOME`), "
    "and builds when it is imported: for the architecture that it was measured on whatever TORCH_CUDA_ARCH_LIST says, "
    "with NVRTC's optimisation flags; another GPU's own where it runs on one. `problems/` has the problems' own "
    "files.\n\n"
    "`runs/RUN/` is a run's folder of KernelBench, one for each level: `runs_dir=.../runs run_name=RUN level=L`. "
    "`eval_results.json` (where a GPU checked the files) is laid out as KernelBench's main reads it, "
    "`eval_results_v0.json` as v0 does; delete it to have the files evaluated again.\n\n"
    "`python check.py` checks and times all of them; `python check.py --help` says more.\n\n";

constexpr const char* k_columns =
    "*Over eager* is against PyTorch's eager mode, as `cudal1 baseline` measured it (a star: not beside the program; "
    "`-`: not measured); what a call from Python takes beside the device counts for both. *Over program* is against "
    "the task's own program, both called from C++. *Checked* is the speedup over eager in the check of the file, from "
    "Python. *library-only*: all steps are calls of PyTorch's libraries, so that the file has no `__global__`, which "
    "KernelBench's static checker asks for.\n\n";

std::string check_text(const exported_model& m) {
  if (!m.check) return "unchecked";
  return m.check->speedup > 0 ? format_speedup(m.check->speedup) : "correct";
}

json result_record(const exported_model& m) {
  const auto& c = *m.check;
  json::object metadata{{"hardware", c.hardware},
                        {"device", c.device},
                        {"correctness_trials", fmt::format("({} / {})", c.passed_draws, c.draws)}};
  const auto mean = [](const std::optional<json>& stats) {
    const json* value = stats ? stats->find("mean") : nullptr;
    return value == nullptr ? -1.0 : value->is_int() ? static_cast<double>(value->as_int()) : value->as_double();
  };
  const double runtime = mean(c.runtime_stats), reference = mean(c.ref_runtime_stats);
  if (runtime > 0 && reference / runtime > k_excessive_speedup) metadata.emplace_back("excessive_speedup", true);
  return json::make_object({{"sample_id", 0},
                            {"compiled", true},
                            {"correctness", c.passed_draws == c.draws},
                            {"metadata", json(std::move(metadata))},
                            {"runtime", runtime},
                            {"runtime_stats", *c.runtime_stats}});
}

}  // namespace

bool is_for_cpu(const std::string& device) {
  return !device.empty() && !traits_of(device).is_accelerator;
}

std::string call_time_note(const exported_model& m) {
  if (!m.check || m.python_call_ratio <= 0 || std::abs(m.python_call_ratio - 1) <= k_same_call_time) return "";
  return fmt::format("{:.1f} us a call from Python, {:.2f} times the stored", m.check->exported_us,
                     m.python_call_ratio);
}

std::string conditioning_note(const exported_model& m) {
  if (!m.check || m.check->ill_conditioned.empty()) return "";
  std::vector<std::string> evidence;
  for (const auto& n : m.check->noise)
    if (n.excess > 1) evidence.push_back(fmt::format("{} {:.2g} ({:.2g} times)", n.algorithm, n.difference, n.excess));
  return fmt::format("ill-conditioned: eager itself misses 1e-4: {}", fmt::join(evidence, ", "));
}

std::vector<std::string> warnings_of(const kernelbench_index& index) {
  std::vector<std::string> all;
  if (!index.complete)
    all.emplace_back("interrupted: tasks are missing; the same `cudal1 export` into this folder goes on");
  if (!index.checked) all.emplace_back("unchecked (--no-check): no file was built, run or compared with its problem");
  int64_t on_host = 0;
  for (const auto& m : index.tasks)
    if (has_file(m) && is_for_cpu(m.device)) ++on_host;
  if (on_host > 0 && !index.for_cpu)
    all.push_back(fmt::format("{} searched on cpu; {} (--for-cpu: that is what they are for)",
                              format_count(on_host, "file"), k_about_cpu));
  return all;
}

std::string export_readme(const kernelbench_index& index) {
  std::string text = "# Kernels for KernelBench\n\n";
  for (const auto& warning : warnings_of(index))
    text += fmt::format("**Warning:** {}.\n\n", warning);
  for (const auto& e : index.environments)
    text += describe_device(e) + "\n\n";
  for (const auto& e : index.environments)
    if (const auto about = timing_remark(e.device); !about.empty()) {
      text += about + "\n\n";
      break;
    }
  text += k_introduction;
  if (index.checked)
    text +=
        "Every file was checked as KernelBench does before it was written: built, five draws of its seeds at 1e-4 "
        "(half types: 1e-2) in "
        "training mode (more only where eager differs from itself by more), five calls in a row, other weights.\n\n";
  text += k_columns;
  text += "| task | file | over eager | over program | checked | remarks |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const auto& t : index.tasks)
    if (has_file(t))
      text += fmt::format("| {} | `{}` | {} | {} | {} | {} |\n", t.task, t.file, eager_text(t),
                          format_speedup(t.speedup, t.speedup_interval), check_text(t), remarks(t));
  std::string without;
  for (const auto& t : index.tasks) {
    if (!has_file(t)) without += fmt::format("- {}: {}\n", t.task, t.note);
    for (const auto& f : t.failed)
      without += fmt::format("- {}: variant {}: {}\n", t.task, f.variant.substr(0, 12), f.problem);
  }
  return text + (without.empty() ? "" : "\nWithout a file, and variants that failed the check:\n\n" + without);
}

std::string generation_config(const std::string& run, int64_t level) {
  return fmt::format(
      "backend: cuda\ncheck_kernel: true\ndataset_name: ScalingIntelligence/KernelBench\ndataset_src: local\n"
      "level: {}\nmax_tokens: null\nmodel_name: cudal1\nnum_samples: 1\nnum_workers: 1\nprecision: fp32\n"
      "prompt_option: null\nrun_name: {}\nserver_type: null\nstore_type: local\nsubset:\n- null\n- null\n"
      "temperature: 0.0\nverbose: false\n",
      level, run);
}

std::string eval_results(const kernelbench_index& index, const std::string& run, results_layout layout) {
  std::map<int64_t, json> records;
  for (const auto& m : index.tasks)
    if (m.file.starts_with("runs/" + run + "/") && m.check && m.check->runtime_stats)
      records.emplace(m.problem, result_record(m));
  if (records.empty()) return "";
  json::object all;
  for (auto& [problem, record] : records)
    all.emplace_back(std::to_string(problem),
                     layout == results_layout::main ? json(json::array{std::move(record)}) : std::move(record));
  return json(std::move(all)).text(2) + "\n";
}

}  // namespace cudal1::cli
