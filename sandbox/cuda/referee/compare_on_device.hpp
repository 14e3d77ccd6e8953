// Compares outputs with expected outputs, and computes fingerprints, on the device: each in one pass over memory, and
// with the same result every time.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/base/hash.hpp"
#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"
#include "sandbox/referee/referee_backend.hpp"

namespace cudal1 {

// Contiguous tensors of one shape. `exact` is float64 if `type` is floating, else of `type`.
struct compared_tensors {
  dtype type = dtype::float32;
  int64_t elements = 0;
  const void *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// How the expected values of one output differ among themselves; computed once per draw.
struct expected_statistics {
  int64_t outside = 0, outside_loose = 0;  // the exact output against eager as shipped
  double size = 0, deviation = 0;          // of the exact output: root mean square, standard deviation
  double error = 0, signal_error = 0;      // of eager as shipped
  double strict_error = 0, strict_signal_error = 0;
  int64_t strict_outside = 0;  // strict float32 eager against eager as shipped
};

// Comparisons and fingerprints are enqueued and collected together: the memory that they read must not change before
// collect(), which waits once and fetches a few bytes of each.
class output_comparer {
 public:
  explicit output_comparer(referee_device& device) : device_(device) {}
  static constexpr std::size_t max_started = 4096;  // before a collect()

  // Each returns the number under which its result is available after collect().
  expected<std::size_t> start_compare(const compared_tensors& output, const tolerances& allowed,
                                      bool with_reference = false);
  expected<std::size_t> start_hash(const tensor_type& type, const void* data, uint64_t key, std::size_t output);
  expected<void> collect();
  // All of output_check but the name and the type problem, equal to compare_output()'s on the CPU.
  output_check compared(std::size_t started, const compared_tensors& output,
                        const expected_statistics& statistics) const;
  fingerprint hashed(std::size_t started) const;

  // `strict`: eager without TensorFloat-32; null if eager does not use it.
  expected<expected_statistics> statistics_of(dtype type, int64_t elements, const void* eager, const void* strict,
                                              const void* exact, const tolerances& allowed);

 private:
  struct totals;
  totals totals_of(std::size_t started) const;
  // The number and the address of a new record on the device.
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
