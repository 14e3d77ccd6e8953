#include "sandbox/cuda/referee/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>

#include "sandbox/cuda/referee/kernels.hpp"
#include "sandbox/cuda/referee/tensors.hpp"

namespace cudal1 {
namespace {

constexpr int64_t most_blocks = 2048, elements_of_thread = 8;
constexpr double infinity = std::numeric_limits<double>::infinity();

double ratio(double numerator, double denominator) {
  if (numerator == 0) return 0;
  return denominator > 0 ? numerator / denominator : infinity;
}

int64_t whole(double count) {
  return static_cast<int64_t>(count);
}

}  // namespace

// Of all blocks. The places are -1 where there is none.
struct output_comparer::totals {
  double of[compare_figures] = {};

  double operator[](compare_figure f) const { return of[f]; }
  double mean(compare_figure f) const { return of[f] / std::max(of[figure_count], 1.0); }
  double root_mean(compare_figure f) const { return std::sqrt(mean(f)); }

  void add(const double* block) {
    for (std::size_t f = 0; f < figure_largest; ++f)
      of[f] += block[f];
    // Blocks interleave, so the lowest place decides among equals.
    const double at = block[figure_largest_index];
    if (block[figure_largest] > of[figure_largest] ||
        (block[figure_largest] == of[figure_largest] && at >= 0 && at < of[figure_largest_index])) {
      of[figure_largest] = block[figure_largest];
      of[figure_largest_index] = at;
    }
    const double mismatch = block[figure_mismatch_index];
    if (mismatch >= 0 && (of[figure_mismatch_index] < 0 || mismatch < of[figure_mismatch_index]))
      of[figure_mismatch_index] = mismatch;
  }
};

// Launches over `items`, with the buffer of figures as the last argument, and brings that to the host.
expected<at::Tensor> output_comparer::run(const char* kernel, int64_t items, int64_t figures_of_block, void** arguments,
                                          void** last) {
  const int64_t each = referee_kernel_threads * elements_of_thread;
  const int64_t blocks = std::clamp<int64_t>((items + each - 1) / each, 1, most_blocks);
  return without_exceptions("comparing", [&]() -> expected<at::Tensor> {
    if (!figures_.defined())
      figures_ = at::empty({most_blocks * static_cast<int64_t>(compare_figures)},
                           at::TensorOptions().device(device_.where()).dtype(at::kDouble));
    *last = figures_.mutable_data_ptr();
    CUDAL1_CHECK(device_.launch(kernel, static_cast<unsigned>(blocks), arguments));
    return figures_.narrow(0, 0, blocks * figures_of_block).view({blocks, figures_of_block}).to(at::kCPU, false, true);
  });
}

expected<output_comparer::totals> output_comparer::add_up(const compared_tensors& t, const tolerances& allowed,
                                                          bool with_reference) {
  totals all;
  all.of[figure_largest_index] = all.of[figure_mismatch_index] = -1;
  if (t.elements == 0) return all;
  // Integers and flags must be equal.
  tolerances within = is_floating(t.type) ? allowed : tolerances{{0, 0}, {0, 0}};
  compared_tensors operands = t;
  int type = static_cast<int>(t.type), reference = with_reference ? 1 : 0;
  long long elements = t.elements;
  void* figures = nullptr;
  void* arguments[] = {&operands.value,
                       &operands.eager,
                       &operands.exact,
                       &type,
                       &elements,
                       &within.close.absolute,
                       &within.close.relative,
                       &within.loose.absolute,
                       &within.loose.relative,
                       &reference,
                       &figures};
  CUDAL1_TRY(const auto blocks, run("compare", t.elements, compare_figures, arguments, &figures));
  for (int64_t b = 0; b < blocks.size(0); ++b)
    all.add(blocks.const_data_ptr<double>() + b * static_cast<int64_t>(compare_figures));
  return all;
}

expected<answer_figures> output_comparer::figures_of(dtype type, int64_t elements, const void* eager,
                                                     const void* strict, const void* exact, const tolerances& allowed) {
  CUDAL1_TRY(const totals shipped, add_up({type, elements, eager, eager, exact}, allowed, true));
  answer_figures f;
  f.outside = whole(shipped[figure_reference_outside]);
  f.outside_loose = whole(shipped[figure_reference_outside_loose]);
  const double mean = shipped.mean(figure_exact_sum), squares = shipped.mean(figure_exact_squares);
  f.size = std::sqrt(squares);
  f.deviation = std::sqrt(std::max(squares - mean * mean, 0.0));
  f.error = ratio(shipped.root_mean(figure_eager_error), f.size);
  f.signal_error = ratio(shipped.root_mean(figure_eager_error), f.deviation);
  if (strict == nullptr) {
    f.strict_error = f.error;
    f.strict_signal_error = f.signal_error;
    return f;
  }
  CUDAL1_TRY(const totals without, add_up({type, elements, strict, eager, exact}, allowed, false));
  f.strict_error = ratio(without.root_mean(figure_value_error), f.size);
  f.strict_signal_error = ratio(without.root_mean(figure_value_error), f.deviation);
  f.strict_outside = whole(without[figure_outside]) + whole(without[figure_mismatches]);
  return f;
}

expected<double> output_comparer::element(dtype type, const void* data, int64_t index) {
  return without_exceptions("comparing", [&]() -> expected<double> {
    auto* at = static_cast<std::byte*>(const_cast<void*>(data)) + index * size_of(type);
    // A bool of an untrusted process may hold any byte.
    const dtype read = type == dtype::bool_ ? dtype::uint8 : type;
    return tensor_over(contiguous(read, {1}), at, device_.where()).to(at::kCPU, false, true).item().toDouble();
  });
}

expected<output_check> output_comparer::compare(const compared_tensors& output, const answer_figures& answers,
                                                const tolerances& allowed) {
  CUDAL1_TRY(const totals all, add_up(output, allowed, false));
  output_check check;
  check.elements = output.elements;
  check.mask_mismatches = whole(all[figure_mismatches]);
  check.outside = whole(all[figure_outside]);
  check.outside_loose = whole(all[figure_outside_loose]);
  check.max_absolute = all[figure_largest];
  check.error = ratio(all.root_mean(figure_value_error), answers.size);
  check.signal_error = ratio(all.root_mean(figure_value_error), answers.deviation);
  check.reference_outside = answers.outside;
  check.reference_outside_loose = answers.outside_loose;
  check.reference_error = answers.error;
  check.reference_signal_error = answers.signal_error;
  check.strict_error = answers.strict_error;
  check.strict_signal_error = answers.strict_signal_error;
  check.strict_outside = answers.strict_outside;
  const bool classes = check.mask_mismatches > 0;
  check.worst_index = whole(all[classes ? figure_mismatch_index : figure_largest_index]);
  if (check.worst_index >= 0) {
    CUDAL1_TRY(check.worst_value, element(output.type, output.value, check.worst_index));
    CUDAL1_TRY(check.worst_expected, element(output.type, output.eager, check.worst_index));
  }
  return check;
}

expected<fingerprint> output_comparer::hash(const void* data, int64_t bytes, uint64_t secret) {
  fingerprint sum{secret ^ static_cast<uint64_t>(bytes), ~secret};
  if (bytes == 0) return sum;
  long long count = bytes;
  unsigned long long first = secret, second = ~secret * 0xbf58476d1ce4e5b9;
  void* figures = nullptr;
  void* arguments[] = {&data, &count, &first, &second, &figures};
  CUDAL1_TRY(const auto blocks, run("hash_words", (bytes + 7) / 8, 2, arguments, &figures));
  const auto* words = static_cast<const uint64_t*>(blocks.const_data_ptr());
  for (int64_t b = 0; b < blocks.size(0); ++b)
    sum = {sum.low + words[2 * b], sum.high + words[2 * b + 1]};
  return sum;
}

}  // namespace cudal1
