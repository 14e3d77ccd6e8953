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

// Comparisons and fingerprints are enqueued and collected together: the memory that they read must not change before
// collect(), which waits once and fetches a few bytes of each.
class output_comparer {
 public:
  explicit output_comparer(referee_device& device) : device_(device) {}
  static constexpr std::size_t max_started = 4096;  // before a collect()

  // Each returns the number under which its result is available after collect().
  expected<std::size_t> start_compare(const compared_tensors& output, const expected_statistics& statistics) {
    return start(output,
                 {statistics.within(output.type), kernelbench_tolerance(output.type), statistics.allowed.eager_alone},
                 eager_deviation::not_counted);
  }
  expected<std::size_t> start_hash(const tensor_type& type, const void* data, uint64_t key, std::size_t output);
  expected<void> collect();
  // All of output_check but the name and the type problem, equal to compare_output()'s on the CPU.
  output_check compared(std::size_t started, const compared_tensors& output,
                        const expected_statistics& statistics) const;
  fingerprint hashed(std::size_t started) const;

  // The statistics of the expected outputs of a draw of that kind, as expected_statistics_of() has it on the CPU.
  // `strict`: eager without TensorFloat-32; null if eager does not use it. `value` is not looked at.
  expected<expected_statistics> statistics_of(const compared_tensors& output, const void* strict, draw_kind kind,
                                              const tolerances& plan);

 private:
  struct totals;
  // Whether eager's own deviation from the exact output is counted too. `loose` of the tolerances is for it, or else
  // for the output's own deviation from eager alone.
  enum class eager_deviation { counted, not_counted };
  expected<std::size_t> start(const compared_tensors& output, const tolerances& allowed, eager_deviation eager);
  totals totals_of(std::size_t started) const;
  // The number and the address of a new record on the device.
  expected<std::pair<std::size_t, double*>> new_record();

  referee_device& device_;
  at::Tensor block_sums_;          // on the device, of all blocks of the comparison in progress
  at::Tensor records_;             // on the device, of those that were started
  std::size_t started_ = 0;        // since the last collect()
  std::vector<fingerprint> base_;  // of the started fingerprints
  std::vector<double> collected_;
  std::vector<fingerprint> collected_base_;
};

}  // namespace cudal1
