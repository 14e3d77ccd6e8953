// The GPUs of this machine as the driver's management library (NVML, loaded at run time) reports them. Nothing here
// creates a CUDA context or needs CUDA's libraries, so a node can query without occupying a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

struct gpu_description {
  int index = 0;  // N of "cuda:N": in the order of the PCI bus, or of CUDA_VISIBLE_DEVICES if it is set
  std::string uuid, name, driver, pci_bus;
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
  std::vector<int> near_cores;  // CPU cores close to it; empty if the system does not report them

  // What programs are compiled for: from 9.0 on with the architecture's specific instructions ("sm_90a"), else "sm_80"
  // and similar.
  std::string architecture() const;
};
BOOST_DESCRIBE_STRUCT(gpu_description, (), (index, uuid, name, driver, pci_bus, major, minor, memory_bytes, near_cores))

// The GPUs that CUDA_VISIBLE_DEVICES shows, or all without it. A process that is to use one of them sets the variable
// to its uuid: NVML and CUDA may number them differently. Empty without a driver or a GPU. Errors: infrastructure (a
// driver that does not respond), unsupported (the variable names a part of a GPU).
expected<std::vector<gpu_description>> find_gpus();

// The conditions that can invalidate a timing.
struct gpu_condition {
  int sm_clock_mhz = 0, max_sm_clock_mhz = 0;
  bool throttled = false;     // by heat or power, not because it is idle
  bool at_power_cap = false;  // throttled by the power limit alone, which its work reaches
  std::string throttle_reasons;
  std::vector<int> processes;          // with a context on it; ids outside of namespaces if visible
  int64_t uncorrected_ecc_errors = 0;  // since the driver was loaded; -1 if not counted
  int64_t xid_errors = 0;              // of the GPU or its driver, since the watch began; -1 if not available
  int64_t program_xid_errors = 0;      // the same for those that faulty kernels cause (of any process)
  bool is_partitioned = false;         // its MIG mode is on
};
BOOST_DESCRIBE_STRUCT(gpu_condition, (),
                      (sm_clock_mhz, max_sm_clock_mhz, throttled, at_power_cap, throttle_reasons, processes,
                       uncorrected_ecc_errors, xid_errors, program_xid_errors, is_partitioned))

// Judges throttling from the conditions before and after a batch of timed calls: why the samples are dropped, or what
// is noted with them; "" for neither. Work that always reaches the power limit cannot be measured otherwise: with no
// tries left, that is noted and the samples are kept.
struct throttle_judgement {
  std::string dropped, noted;
};
throttle_judgement judge_throttling(const gpu_condition& before, const gpu_condition& after, int tries_left);

// Why nothing can be measured on a GPU whose MIG mode is on, and what to do.
std::string describe_partitioning(int index);

// What has befallen a GPU since `at_start`, or "" each: `broken` by an error, `used` by processes that were not there
// then and are not `ours`. The latter is known only if the driver shows this machine's process ids (in a container it
// may show others): if it lists the first of ours.
struct gpu_disturbance {
  std::string broken, used;
};
gpu_disturbance disturbance_since(const gpu_condition& at_start, const gpu_condition& now,
                                  const std::vector<int>& ours);
// The processes with a context on the GPU that are not `ours`, and as text: "process 4711 (python3), process 4712".
std::vector<int> processes_of_others(const gpu_condition& seen, const std::vector<int>& ours);
std::string describe_processes(const std::vector<int>& pids);

// Watches one GPU. Not thread-safe; a query takes well under a millisecond.
class gpu_watch {
 public:
  // Errors: not_found (no driver), infrastructure (the driver has no such GPU).
  static expected<gpu_watch> open(const std::string& uuid);
  gpu_watch(gpu_watch&&) noexcept;
  gpu_watch& operator=(gpu_watch&&) noexcept;
  ~gpu_watch();
  expected<gpu_condition> condition();
  // Percent of the last sampling period (up to a second) in which a kernel ran; 0 if the driver does not say.
  int utilisation() const;

 private:
  struct state;
  explicit gpu_watch(state* s) : state_(s) {}
  state* state_ = nullptr;
};

}  // namespace cudal1
