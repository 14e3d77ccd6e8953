// Outputs against expected ones, and fingerprints, on the device where they lie: one pass over memory each, the same
// figures every time.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/base/hash.hpp"
#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"
#include "sandbox/referee/referee_backend.hpp"

namespace cudal1 {

// Contiguous tensors of one shape. `exact` is float64 where `type` is floating, else of `type`.
struct compared_tensors {
  dtype type = dtype::float32;
  int64_t elements = 0;
  const void *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// What one output's expected values are among themselves: computed once a draw.
struct expected_statistics {
  int64_t outside = 0, outside_loose = 0;  // the exact output against eager as shipped
  double size = 0, deviation = 0;          // of the exact output: root mean square, standard deviation
  double error = 0, signal_error = 0;      // of eager as shipped
  double strict_error = 0, strict_signal_error = 0;
  int64_t strict_outside = 0;  // strict float32 eager against eager as shipped
};

// Comparisons and fingerprints are enqueued, many at a time, and looked at together: what they read must stay as it is
// until collect(), which waits once and fetches some bytes of each.
class output_comparer {
 public:
  explicit output_comparer(referee_device& device) : device_(device) {}
  static constexpr std::size_t most_started = 4096;  // before a collect()

  // Each gives the number under which collect() leaves what came of it.
  expected<std::size_t> start_compare(const compared_tensors& output, const tolerances& allowed,
                                      bool with_reference = false);
  expected<std::size_t> start_hash(const tensor_type& type, const void* data, uint64_t key, std::size_t output);
  expected<void> collect();
  // All of output_check but the name and the type problem, as compare_output() has it on the CPU.
  output_check compared(std::size_t started, const compared_tensors& output,
                        const expected_statistics& statistics) const;
  fingerprint hashed(std::size_t started) const;

  // `strict`: eager without TensorFloat-32; null where that is what eager is.
  expected<expected_statistics> statistics_of(dtype type, int64_t elements, const void* eager, const void* strict,
                                              const void* exact, const tolerances& allowed);

 private:
  struct totals;
  totals totals_of(std::size_t started) const;
  // The number and the place of a new record on the device.
  expected<std::pair<std::size_t, double*>> new_record();

  referee_device& device_;
  at::Tensor figures_;             // on the device, of all blocks of the comparison in progress
  at::Tensor records_;             // on the device, of those that were started
  std::size_t started_ = 0;        // since the last collect()
  std::vector<fingerprint> base_;  // of the same
  std::vector<double> collected_;
  std::vector<fingerprint> collected_base_;
};

}  // namespace cudal1
