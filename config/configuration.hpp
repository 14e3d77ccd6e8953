// Everything that can be configured, with its default: the one place where these numbers stand.
//
// Precedence, later wins: the defaults below; the file (cudal1.toml: $CUDAL1_CONFIG, else DATA/cudal1.toml where it
// exists); the environment (CUDAL1_SECTION_KEY, upper case, as in CUDAL1_TIMING_TARGET_HALF_WIDTH); flags (--set
// section.key=value). Unknown sections and keys are errors, and values are checked against the ranges in
// configuration.cpp. Where a GPU wants another default than `cpu`, default_configuration() says so; whatever the other
// layers set holds for both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// Correctness (MEASURING: gates 1-5). Calibrated on the built-in tasks, on `cpu`.
struct verification_options {
  int64_t declared_draws = 5;         // gate 2: KernelBench's five
  double error_factor_strict = 32;    // gate 3: a variant may have this many times strict float32 eager's own error
  double error_floor_float32 = 5e-6;  // gate 3: relative RMS error that is always granted to float32
  double error_floor_half = 1e-2;     // and to float16, bfloat16
  double call_limit_ms = 2000;        // a call that takes longer is a hang
  int64_t memory_limit_mb = 2048;     // of the tensors of one runner
};
BOOST_DESCRIBE_STRUCT(verification_options, (),
                      (declared_draws, error_factor_strict, error_floor_float32, error_floor_half, call_limit_ms,
                       memory_limit_mb))

// Time. A fork is a fresh pair of processes, a pair is one call of the reference and one of the variant. Half widths
// are those of the 95% interval, relative to the score. Calibrated so that on a shared machine with 10-15% of noise a
// call a right variant is hardly ever called unmeasurable, and costs about 1 s screened and 3-4 s confirmed.
struct profiling_options {
  int64_t screening_forks = 3;
  int64_t screening_pairs = 4;         // in each fork
  double screening_half_width = 0.15;  // forks are added while a variant that may be a new best is known less well
  int64_t max_screening_forks = 9;     // but no more than this
  int64_t refinement_forks = 3;        // added to a would-be best until it is measured well enough
  int64_t refinement_pairs = 6;
  double target_half_width = 0.02;   // of a would-be best
  double decided_half_width = 0.05;  // enough where the interval leaves out the old best
  int64_t max_forks = 12;            // a would-be best is measured on at most this many
  double max_seconds = 3;            // and no batch is begun after this long, screening included
  double confirmed_limit = 0.25;     // half width above which a best is not confirmed; twice that for one far ahead
  double screened_limit = 0.6;       // and above which any other right variant is unmeasurable
  double fork_bias = 0.02;           // what a fork is off by, as far as the forks of a measurement cannot tell
  double least_gain = 0;             // a would-be best whose screening does not leave out the best looks faster by this
};
BOOST_DESCRIBE_STRUCT(profiling_options, (),
                      (screening_forks, screening_pairs, screening_half_width, max_screening_forks, refinement_forks,
                       refinement_pairs, target_half_width, decided_half_width, max_forks, max_seconds, confirmed_limit,
                       screened_limit, fork_bias, least_gain))

// The device's processes.
struct device_options {
  std::string devices = "auto";  // all GPUs, or cpu where there is none; or a list, as in "cpu,cuda:0"
  int64_t threads = 1;           // of a timed call on `cpu`
  int64_t timing_core = -1;      // of `cpu`; -1: the last core that this process may use
  int64_t cores_per_gpu = 4;     // near it, kept free of compiling: what is timed takes one that is fast
  int64_t flush_mb = 0;          // 0: 1.25 times the last-level cache, at most 64; on a GPU what its L2 asks for
  // Of a runner's tensors on a GPU, in place of verification.memory_limit_mb. 0: a sixth of the GPU's memory, and
  // 16 GiB at the least.
  int64_t gpu_memory_limit_mb = 0;
  bool allow_weak_confinement = false;  // run untrusted code although the system refuses a required confinement
};
BOOST_DESCRIBE_STRUCT(device_options, (),
                      (devices, threads, timing_core, cores_per_gpu, flush_mb, gpu_memory_limit_mb,
                       allow_weak_confinement))

struct compiler_options {
  std::string command;       // "" finds c++, g++ or clang++ on the path
  int64_t workers = 0;       // 0: one for each core that is not timing, at least one
  double time_limit_s = 20;  // of one compilation
  int64_t memory_limit_mb = 2048;
  int64_t cache_mb = 1024;  // of compiled objects, DATA/cache
};
BOOST_DESCRIBE_STRUCT(compiler_options, (), (command, workers, time_limit_s, memory_limit_mb, cache_mb))

struct search_options {
  std::string policy = "evolutionary";  // random, evolutionary, learned
  int64_t evaluations_per_task = 24;
  double time_limit_s = 0;  // of active time; 0: none
  int64_t in_a_row = 1;     // of one task before the next one's turn: its pool of draws is made for all of them
  int64_t group_size = 8;   // scored variants of one task that make one policy update
  int64_t exemplars = 16;   // earlier variants that a policy is shown
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

// The defaults for devices of a kind: "cpu" or "cuda" (a task's profile).
configuration default_configuration(std::string_view kind);
// Applies a TOML text on top of `c`. `origin` is named in errors ("cudal1.toml"), which say line, key and range.
expected<void> apply_toml(configuration& c, std::string_view text, const std::string& origin);
// Applies "section.key=value".
expected<void> apply_setting(configuration& c, std::string_view setting, const std::string& origin);
// All four layers, the defaults being those of `kind`. `environment` as NAME=value; settings come from flags. A file
// that was named and is not there is an error; `default_file` may be missing.
expected<configuration> load_configuration(const std::optional<std::string>& file, const std::string& default_file,
                                           const std::vector<std::string>& environment,
                                           const std::vector<std::string>& settings, std::string_view kind = "cpu");
// The configuration as a commented TOML text that apply_toml reads back.
std::string print_configuration(const configuration& c);

}  // namespace cudal1
