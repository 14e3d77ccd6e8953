// Outputs against answers, and fingerprints, on the device where they lie: one pass over memory each, the same figures
// every time.
#pragma once

#include <ATen/core/Tensor.h>

#include "config/base/hash.hpp"
#include "sandbox/cuda/referee/device.hpp"
#include "sandbox/evaluation.hpp"

namespace cudal1 {

struct tolerances {
  tolerance close, loose{1e-2, 1e-2};
  bool operator==(const tolerances& o) const {
    return close.absolute == o.close.absolute && close.relative == o.close.relative &&
           loose.absolute == o.loose.absolute && loose.relative == o.loose.relative;
  }
};

// Contiguous tensors of one shape. `exact` is float64 where `type` is floating, else of `type`.
struct compared_tensors {
  dtype type = dtype::float32;
  int64_t elements = 0;
  const void *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// What one output's answers are among themselves: computed once a draw.
struct answer_figures {
  int64_t outside = 0, outside_loose = 0;  // the exact answer against eager as shipped
  double size = 0, deviation = 0;          // of the exact answer: root mean square, standard deviation
  double error = 0, signal_error = 0;      // of eager as shipped
  double strict_error = 0, strict_signal_error = 0;
  int64_t strict_outside = 0;  // strict float32 eager against eager as shipped
};

class output_comparer {
 public:
  explicit output_comparer(referee_device& device) : device_(device) {}

  // `strict`: eager without TensorFloat-32; null where that is what eager is.
  expected<answer_figures> figures_of(dtype type, int64_t elements, const void* eager, const void* strict,
                                      const void* exact, const tolerances& allowed);
  // All of output_check but the name and the type problem, as compare_output() has it on the CPU.
  expected<output_check> compare(const compared_tensors& output, const answer_figures& answers,
                                 const tolerances& allowed);
  // A hash of that memory, keyed by `secret`.
  expected<fingerprint> hash(const void* data, int64_t bytes, uint64_t secret);

 private:
  struct totals;
  expected<totals> add_up(const compared_tensors& t, const tolerances& allowed, bool with_reference);
  expected<at::Tensor> run(const char* kernel, int64_t items, int64_t figures_of_block, void** arguments, void** last);
  expected<double> element(dtype type, const void* data, int64_t index);

  referee_device& device_;
  at::Tensor figures_;  // on the device, of all blocks
};

}  // namespace cudal1
