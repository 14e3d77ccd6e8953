// The GPUs of this machine as the driver's management library (NVML, loaded at run time) tells them: nothing here
// creates a CUDA context or needs CUDA's libraries, so that a node may ask without touching a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct gpu_description {
  int index = 0;  // N of "cuda:N": the PCI bus's order, or that of CUDA_VISIBLE_DEVICES where it is set
  std::string uuid, name, driver, pci_bus;
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
  std::vector<int> near_cores;  // CPU cores that are close to it; empty where the system does not say

  // What programs are compiled for: "sm_90a" from 9.0 on (with the instructions of that one architecture), else
  // "sm_80" and its like.
  std::string architecture() const;
};
BOOST_DESCRIBE_STRUCT(gpu_description, (), (index, uuid, name, driver, pci_bus, major, minor, memory_bytes, near_cores))

// Those that CUDA_VISIBLE_DEVICES shows, all without it. A process that is to use one of them sets the variable to its
// uuid: NVML and CUDA may count differently. Empty where there is no driver or no GPU; errc::infrastructure where there
// is one that does not answer, errc::unsupported where the variable names a part of a GPU.
expected<std::vector<gpu_description>> find_gpus();

// What would make a timing of this moment worthless.
struct gpu_condition {
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0;
  bool throttled = false;     // by heat or power, not by idleness
  bool at_power_cap = false;  // throttled by that alone: its work takes all the power that it may
  std::string throttle_reasons;
  std::vector<int> processes;          // that have a context on it, by their ids outside of namespaces where visible
  int64_t uncorrected_ecc_errors = 0;  // since the driver was loaded; -1 where not counted
  int64_t xid_errors = 0;              // of the GPU or its driver, since this is watched; -1 where it cannot be
  int64_t program_xid_errors = 0;      // the same of those that a faulty kernel causes (any process's)
};
BOOST_DESCRIBE_STRUCT(gpu_condition, (),
                      (sm_clock_mhz, max_sm_clock_mhz, throttled, at_power_cap, throttle_reasons, processes,
                       uncorrected_ecc_errors, xid_errors, program_xid_errors))

// What two looks at a GPU, round a batch of timed calls, say of its throttling: why the samples are worth nothing, or
// what is to be noted beside them; "" for neither. What takes all the power that the GPU may have is never
// measured in another way: with no tries left, that is noted and the samples are kept.
struct throttle_judgement {
  std::string dropped, noted;
};
throttle_judgement judge_throttling(const gpu_condition& before, const gpu_condition& after, int tries_left);

// Watches one GPU. Not thread-safe; cheap to ask (well under a millisecond).
class gpu_watch {
 public:
  // errc::not_found where there is no driver, errc::infrastructure where it knows no such GPU.
  static expected<gpu_watch> open(const std::string& uuid);
  gpu_watch(gpu_watch&&) noexcept;
  gpu_watch& operator=(gpu_watch&&) noexcept;
  ~gpu_watch();
  expected<gpu_condition> condition();

 private:
  struct state;
  explicit gpu_watch(state* s) : state_(s) {}
  state* state_ = nullptr;
};

}  // namespace cudal1
