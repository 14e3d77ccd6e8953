#include "policy/estimate/convolution_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "policy/graph/channels_last.hpp"
#include "sandbox/program/operators/strides.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

// Fitted to all 254 distinct convolutions of 64 tasks on an H200 (cuDNN 9.19, replayed, with the channels last and not,
// and by phases): the standard deviation of the logarithm of measured to estimated times is 0.16 to 0.3, and 0.7 where
// they are transposed.
constexpr double k_kernel = 3;                    // microseconds of a kernel that has little to do
constexpr double k_rows = 64, k_columns = 128;    // of a block's tile
constexpr double k_channels = 16, k_inputs = 32;  // channels are rounded up to these; the input's of a transposed one
constexpr double k_least_part = 512;              // of the sum, where blocks share a tile
constexpr double k_images = 0.75, k_volumes = 0.45;  // transposed, of the rate of large products
constexpr double k_memory = 1.6;                     // memory's time, to that of the best kernels
constexpr double k_grouped = 3.2, k_spread = 3;      // in groups; transposed, with holes between weights
constexpr double k_few = 1.3;                        // of few channels, not last
constexpr double k_copies = 8;                       // microseconds of two kernels and their gaps

// A convolution as a product: [rows, sum] by [sum, columns], once for each group.
struct implicit_product {
  double rows = 1, columns = 1, sum = 1, groups = 1;
};

implicit_product product_of(const operator_call& call, const tensor_type& result, const tensor_type& weight) {
  implicit_product out;
  out.groups = static_cast<double>(work_parts::integer_of(call, "groups", 1));
  out.rows = static_cast<double>(result.numel()) / static_cast<double>(std::max<int64_t>(1, result.shape[1]));
  out.columns = static_cast<double>(result.shape[1]) / out.groups;
  const bool transposed = work_parts::is_transposed(call);
  const double channels =
      transposed ? static_cast<double>(weight.shape[0]) / out.groups : static_cast<double>(weight.shape[1]);
  const double unit = transposed ? k_inputs : k_channels;
  out.sum = std::ceil(channels / unit) * unit;
  for (const auto& w : work_parts::windows_of(call, result))
    out.sum *= static_cast<double>(w.kernel) / static_cast<double>(transposed ? w.stride : 1);
  return out;
}

// Operations of all tiles in whole waves. Where there are few, blocks share the sum.
double operations_in_waves(const implicit_product& p, double processors) {
  const double tiles = p.groups * std::ceil(p.rows / k_rows) * std::ceil(p.columns / k_columns);
  const double parts = std::max(1.0, std::min(std::floor(processors / tiles), std::floor(p.sum / k_least_part)));
  return std::ceil(tiles / processors) * processors * 2 * k_rows * k_columns * p.sum / parts;
}

bool spreads_weights(const operator_call& call, const tensor_type& result) {
  return std::ranges::any_of(work_parts::windows_of(call, result),
                             [](const auto& w) { return w.stride > 1 && w.dilation > 1; });
}

bool is_of_elements(const operator_call& call, const tensor_type& result) {
  return std::ranges::all_of(work_parts::windows_of(call, result), [](const auto& w) { return w.kernel == 1; });
}

}  // namespace

double convolution_us(const operator_call& call, const tensor_type& result, const convolution_times& t,
                      const device_data& gpu) {
  const auto *input = work_parts::convolved_operand(call), *weight = work_parts::tensor_of(call, "weight");
  if (input == nullptr || weight == nullptr || result.numel() == 0) return k_kernel + std::max(t.ideal_us, t.memory_us);
  const bool transposed = work_parts::is_transposed(call);
  const implicit_product product = product_of(call, result, *weight);
  double arithmetic = t.ideal_us * operations_in_waves(product, static_cast<double>(gpu.multiprocessors)) / t.flops;
  if (transposed) arithmetic /= weight->dim() > 4 ? k_volumes : k_images;
  if (product.groups > 1) arithmetic *= k_grouped;
  if (transposed && spreads_weights(call, result)) arithmetic *= k_spread;
  const double alone = k_kernel + std::max(arithmetic, k_memory * t.memory_us);
  const bool is_last = weight->dim() < 4 || rules::suggested_format(result) != rules::format::contiguous;
  if (is_last || is_of_elements(call, result) || !t.on_tensor_cores) return alone;
  // cuDNN's kernels on tensor cores have the channels last, so that others' operands and results are copied.
  if (!convolves_by_fours(call)) return k_few * alone;
  return alone + k_copies + 2 * static_cast<double>(input->bytes() + result.bytes()) / (gpu.reached_gb_per_s * 1e3);
}

}  // namespace cudal1
