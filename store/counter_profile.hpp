// What Nsight Compute read of a variant's kernels: kept by `cudal1 profile`, shown by `show`, reports and prompts. A
// file for each variant and environment in DATA/profiles, so that a profile can be taken while a node writes the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// What warps wait for while they issue nothing.
struct warp_stall {
  std::string reason;  // as Nsight Compute names it: "long_scoreboard"
  std::string words;   // "data from global or local memory"
  std::string advice;  // what to try
  double share = 0;    // of the time of resident warps, 0..1
};
BOOST_DESCRIBE_STRUCT(warp_stall, (), (reason, words, advice, share))

// The launches of one kernel with one grid and block in one call, weighted by their times. Not read: none. Percentages
// are of the device's peak: memory, caches and pipes while the kernel runs, occupancy of the most resident warps.
struct kernel_counters {
  std::string kernel, grid, block;
  int64_t launches = 0;
  double us = 0;                                            // of all of them
  double share = 0;                                         // of the time of all kernels, 0..1
  std::optional<double> occupancy_pct, most_occupancy_pct;  // achieved; possible with its registers, memory and block
  std::vector<std::string> limited_by;                      // what sets the possible one; empty where that is 100%
  std::optional<double> dram_pct, l2_pct, tensor_pct, fma_pct;
  std::optional<double> waves;  // grids of resident blocks that the launch is
  std::optional<double> registers, shared_bytes, spill_requests;
  std::string near_roof, roof_advice;  // the peak that it is close to ("DRAM"), and what to try there; "" for none
  std::vector<warp_stall> stalls;      // the largest first, at most three
};
BOOST_DESCRIBE_STRUCT(kernel_counters, (),
                      (kernel, grid, block, launches, us, share, occupancy_pct, most_occupancy_pct, limited_by,
                       dram_pct, l2_pct, tensor_pct, fma_pct, waves, registers, shared_bytes, spill_requests, near_roof,
                       roof_advice, stalls))

struct counter_profile {
  std::string variant, environment;  // ids
  std::string model, tool;           // "NVIDIA H200", "2025.3.1.0"
  int64_t time_unix_ms = 0;
  std::vector<kernel_counters> kernels;  // the longest first
};
BOOST_DESCRIBE_STRUCT(counter_profile, (), (variant, environment, model, tool, time_unix_ms, kernels))

inline std::string profile_folder(const std::string& data) {
  return data + "/profiles";
}
// In place of an earlier one of that variant and environment. On disk when this returns. errc::io_error.
expected<void> keep_counters(const std::string& folder, const counter_profile& p);
// None if none was kept. errc::io_error; errc::corrupt, with advice, if the file cannot be read.
expected<std::optional<counter_profile>> kept_counters(const std::string& folder, const std::string& variant,
                                                       const std::string& environment);

}  // namespace cudal1
