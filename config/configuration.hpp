// Everything that can be configured. A key's type, default, range, unit and meaning stand in its declaration below, and
// nowhere else: values are checked against them, and `cudal1 config` prints them.
//
// Precedence, later wins: the defaults below; the file (cudal1.toml: $CUDAL1_CONFIG, else DATA/cudal1.toml where it
// exists); the environment (CUDAL1_SECTION_KEY, upper case, as in CUDAL1_TIMING_TARGET_HALF_WIDTH); flags (--set
// section.key=value). Unknown sections and keys are errors. Where a GPU wants another default than `cpu`, its key says
// so (gpu_configuration); whatever the other layers set holds for all kinds of device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/key.hpp"

namespace cudal1 {

struct verification_options {
  static constexpr std::string_view about = "Correctness. Calibrated on the built-in tasks, on `cpu`.";

  int64_t declared_draws = key(
      5, {1, 64, "draws"}, "Draws of a task's inputs that every variant is checked on; KernelBench has five.", gpu(6));
  double error_factor_strict =
      key(32.0, {1, 1e4, "times"}, "How much larger than strict float32 eager's own error a variant's error may be.");
  double error_floor_float32 = key(5e-6, {0, 1e-2, "relative RMS error"}, "Error that is always granted to float32.");
  double error_floor_half =
      key(1e-2, {0, 0.1, "relative RMS error"}, "Error that is always granted to float16, bfloat16.");
  double call_limit_ms = key(2000.0, {1, 6e5, "ms"}, "A call that takes longer is a hang.", gpu(1000));
  int64_t memory_limit_mb = key(2048, {16, 1 << 20, "MiB"}, "Memory of the tensors of one runner.");
};
BOOST_DESCRIBE_STRUCT(verification_options, (),
                      (declared_draws, error_factor_strict, error_floor_float32, error_floor_half, call_limit_ms,
                       memory_limit_mb))

// The defaults of `cpu` are calibrated so that on a shared machine with 10-15% of noise a call a right variant is
// hardly ever called unmeasurable, and costs about 1 s screened and 3-4 s confirmed. On a GPU one process times both
// sides, on a clock that nothing else disturbs. A fork is then two loads, which cost as much as some pairs: few forks
// of many pairs. The draws that a screening is timed on are those of the check.
struct profiling_options {
  static constexpr std::string_view about =
      "Timing. A fork is a fresh pair of processes, a pair is one call of the reference and one of the variant. Half "
      "widths are those of the 95% interval of the score, relative to it. A variant is screened first; what may be a "
      "new best is refined.";

  int64_t screening_forks = key(3, {1, 100, "forks"}, "Forks of a screening.", gpu(2));
  int64_t screening_pairs = key(4, {1, 100, "pairs"}, "Pairs in each fork of a screening.", gpu(5));
  double screening_half_width =
      key(0.15, {1e-3, 10, "half width"},
          "Forks are added to a screening while a variant that may be a new best is known less well.", gpu(0.03));
  int64_t max_screening_forks = key(9, {1, 1000, "forks"}, "A screening has no more forks.", gpu(4));
  int64_t refinement_forks =
      key(3, {1, 100, "forks"}, "Forks that are added to a possible best until it is measured well enough.", gpu(2));
  int64_t refinement_pairs = key(6, {1, 100, "pairs"}, "Pairs in each of those forks.", gpu(7));
  double target_half_width = key(0.02, {1e-4, 0.5, "half width"}, "How well a possible best is measured.", gpu(0.01));
  double decided_half_width =
      key(0.05, {1e-4, 0.5, "half width"}, "Well enough where the interval leaves out the old best.", gpu(0.03));
  int64_t max_forks = key(12, {1, 1000, "forks"}, "A possible best is measured on at most this many.", gpu(14));
  // On a GPU: of calls of many milliseconds; others end long before.
  double max_seconds =
      key(3.0, {0.1, 3600, "s"}, "No fork of a variant is begun after this long, screening included.", gpu(1));
  double confirmed_limit =
      key(0.25, {1e-3, 10, "half width"},
          "A best that is known less well is not confirmed; one far ahead may have twice as much.", gpu(0.1));
  double screened_limit = key(0.6, {1e-3, 10, "half width"},
                              "Any other correct variant that is known less well is unmeasurable.", gpu(0.3));
  double fork_bias = key(0.02, {1e-5, 0.5, "of the score"},
                         "Error of a fork that the forks of one measurement cannot tell.", gpu(0.004));
  // On a GPU a renewed pool costs as much as some evaluations.
  double least_gain =
      key(0.0, {0, 0.5, "of the score"},
          "A variant whose screening does not leave out the best is refined where it looks faster by this.", gpu(0.02));
};
BOOST_DESCRIBE_STRUCT(profiling_options, (),
                      (screening_forks, screening_pairs, screening_half_width, max_screening_forks, refinement_forks,
                       refinement_pairs, target_half_width, decided_half_width, max_forks, max_seconds, confirmed_limit,
                       screened_limit, fork_bias, least_gain))

struct device_options {
  static constexpr std::string_view about = "The devices and their processes.";

  std::string devices =
      key("auto", "\"auto\": all GPUs, or cpu where there is none. Else a list, as in \"cpu,cuda:0\".");
  int64_t threads = key(1, {1, 1024, "threads"}, "Threads of a timed call on `cpu`.");
  int64_t timing_core =
      key(-1, {-1, 4095, ""}, "Number of the core that `cpu` is timed on; -1: the last one that this process may use.");
  int64_t cores_per_gpu =
      key(4, {0, 64, "cores"}, "Cores near each GPU that are kept free of compiling: what is timed takes a fast one.");
  int64_t flush_mb = key(0, {0, 1 << 14, "MiB"},
                         "Memory that is read before each timed call, so that caches are cold. 0: on `cpu` 1.25 times "
                         "the last-level cache, at most 64; on a GPU what its L2 asks for.");
  int64_t gpu_memory_limit_mb =
      key(0, {0, 1 << 20, "MiB"},
          "Memory of a runner's tensors on a GPU, in place of verification.memory_limit_mb. 0: a sixth of the GPU's "
          "memory, and 16 GiB at the least.");
  bool allow_weak_confinement = key(false, "Runs untrusted code although the system refuses a required confinement.");
};
BOOST_DESCRIBE_STRUCT(device_options, (),
                      (devices, threads, timing_core, cores_per_gpu, flush_mb, gpu_memory_limit_mb,
                       allow_weak_confinement))

struct compiler_options {
  static constexpr std::string_view about = "The compilation of variants.";

  std::string command = key("", "Path of the host compiler; \"\" finds c++, g++ or clang++.");
  int64_t workers = key(0, {0, 1024, "processes"}, "Compilations at once. 0: one for each core that is not timing.");
  double time_limit_s = key(20.0, {0.5, 3600, "s"}, "Time of one compilation.");
  int64_t memory_limit_mb = key(2048, {128, 1 << 20, "MiB"}, "Memory of one compilation.");
  int64_t cache_mb = key(1024, {1, 1 << 24, "MiB"}, "Size of the compiled objects that are kept in DATA/cache.");
};
BOOST_DESCRIBE_STRUCT(compiler_options, (), (command, workers, time_limit_s, memory_limit_mb, cache_mb))

struct search_options {
  static constexpr std::string_view about = "Experiments.";

  std::string policy = key("evolutionary", "What writes the variants: random, evolutionary or learned.");
  int64_t evaluations_per_task = key(24, {1, 1e9, "evaluations"}, "Budget of a task.");
  double time_limit_s = key(0.0, {0, 1e9, "s"}, "Active time of an experiment; 0: no limit.");
  // On a GPU an evaluation of a small task takes 13 ms, and the pool that it needs, with all expected outputs, several
  // times that.
  int64_t in_a_row =
      key(1, {1, 1024, "evaluations"},
          "Evaluations of one task before the next one's turn, for which its pool of draws is made.", gpu(6));
  int64_t group_size = key(8, {2, 1024, "variants"}, "Scored variants of one task that make one policy update.");
  int64_t exemplars = key(16, {0, 1024, "variants"}, "Earlier variants that a policy is shown.");
};
BOOST_DESCRIBE_STRUCT(search_options, (), (policy, evaluations_per_task, time_limit_s, in_a_row, group_size, exemplars))

struct configuration {
  verification_options verification;
  profiling_options timing;
  device_options device;
  compiler_options compiler;
  search_options search;
};
BOOST_DESCRIBE_STRUCT(configuration, (), (verification, timing, device, compiler, search))

// The defaults on a GPU, where a key has another one there.
configuration gpu_configuration();
// Applies a TOML text on top of `c`. `origin` is named in errors ("cudal1.toml"), which say line, key and range.
expected<void> apply_toml(configuration& c, std::string_view text, const std::string& origin);
// Applies "section.key=value".
expected<void> apply_setting(configuration& c, std::string_view setting, const std::string& origin);
// All four layers, the first being `defaults`: those of a kind of device. `environment` as NAME=value; settings come
// from flags. A file that was named and is not there is an error; `default_file` may be missing.
expected<configuration> load_configuration(const std::optional<std::string>& file, const std::string& default_file,
                                           const std::vector<std::string>& environment,
                                           const std::vector<std::string>& settings, configuration defaults = {});
// The configuration as a TOML text that apply_toml reads back, with every key's meaning, range and default. A key with
// the default of `cpu` is commented out, so that a GPU keeps its own.
std::string print_configuration(const configuration& c);

}  // namespace cudal1
