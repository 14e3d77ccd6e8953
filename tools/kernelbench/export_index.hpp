// The records of an export's index.json, and the texts that are made of them: README.md and what KernelBench's scripts
// read of a run's folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "tools/kernelbench/file_check_result.hpp"

namespace cudal1::cli {

// PyTorch's eager mode beside the variant, as `cudal1 baseline` measured them.
struct eager_comparison {
  double speedup = 0;
  interval speedup_interval;
  double eager_us = 0, variant_us = 0;
  double eager_device_us = 0, variant_device_us = 0;
  double pace_us = 0;          // how fast the host was (baseline_record::pace_us)
  bool beside = false;         // in the same minutes; else the variant's time is its verdict's
  std::string environment_id;  // that eager was measured in
};
BOOST_DESCRIBE_STRUCT(eager_comparison, (),
                      (speedup, speedup_interval, eager_us, variant_us, eager_device_us, variant_device_us, pace_us,
                       beside, environment_id))

// A variant that was not taken.
struct failed_candidate {
  std::string variant, problem;
};
BOOST_DESCRIBE_STRUCT(failed_candidate, (), (variant, problem))

// A task of index.json.
struct exported_model {
  std::string task, id;
  int64_t level = 0, problem = 0;  // of KernelBench; 0: a model of the user's own
  std::string code_sha256;         // of the problem's file: versions of KernelBench share levels and numbers
  std::string file;                // "" where there is none, and why is in `note`
  std::string problem_file;
  std::string variant;  // program id
  std::string note;
  bool library_only = false;               // no kernel of its own: KernelBench's static checker refuses the file
  std::vector<std::string> refused_words;  // what else the static checker refuses, which could not be removed
  std::optional<eager_comparison> eager;
  double speedup = 1;  // over the task's own program, as it was measured
  interval speedup_interval{1, 1};
  double reference_us = 0, best_us = 0;
  double python_call_ratio = 0;  // a call from Python in the check, over the stored call; 0: not measured
  std::string device;
  std::vector<std::string> explanation;
  std::optional<file_check_result> check;  // none: unchecked
  std::vector<failed_candidate> failed;    // better variants that failed the check
};
BOOST_DESCRIBE_STRUCT(exported_model, (),
                      (task, id, level, problem, code_sha256, file, problem_file, variant, note, library_only,
                       refused_words, eager, speedup, speedup_interval, reference_us, best_us, python_call_ratio,
                       device, explanation, check, failed))

struct kernelbench_index {
  int64_t format = 2;
  bool checked = false, for_cpu = false;
  bool complete = true;  // false: tasks are missing, since the export is under way or was interrupted
  std::string device;
  std::vector<environment> environments;
  std::vector<exported_model> tasks;
};
BOOST_DESCRIBE_STRUCT(kernelbench_index, (), (format, checked, for_cpu, complete, device, environments, tasks))

// "38.1 us from Python (1.27 times the stored 30.0 us)" where they differ by more than 10%, else "".
std::string call_time_note(const exported_model& m);
// "eager itself misses 1e-4: TF32 off 3.2 times, ..." of an ill-conditioned task, else "".
std::string conditioning_note(const exported_model& m);
bool is_for_cpu(const std::string& device);
constexpr const char* k_about_cpu =
    "made for a CPU and timed on one. KernelBench evaluates on a GPU, where it may be slower than eager; search with "
    "--device cuda:0 for it";

// What readers of the terminal and of README.md must know of the whole: unchecked files, files for `cpu`.
std::vector<std::string> warnings_of(const kernelbench_index& index);

std::string export_readme(const kernelbench_index& index);
std::string generation_config(const std::string& run, int64_t level);
// eval_results.json of KernelBench's main ({"P": [{...}]}) or of v0 ({"P": {...}}), of the checked files below
// runs/RUN/; "" where none was timed on a GPU.
enum class results_layout { main, v0 };
std::string eval_results(const kernelbench_index& index, const std::string& run, results_layout layout);

}  // namespace cudal1::cli
