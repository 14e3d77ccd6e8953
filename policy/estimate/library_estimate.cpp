#include "policy/estimate/library_estimate.hpp"

#include <algorithm>
#include <cmath>

#include "policy/estimate/convolution_estimate.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

// Chosen on two thirds of the tasks of a recorded space of an H100.
constexpr double k_kernel = 2, k_product = 3;      // microseconds of a kernel that has little to do
constexpr double k_plain_kernels = 1.3;            // memory's time of the library's kernels, to that of the best
constexpr double k_tile = 64, k_least_part = 512;  // rows and columns of a block's tile of a product; k of a part

// Elements of windows that ATen's pools go through in a microsecond on a multiprocessor: a thread computes the place of
// each in 64 bits and does not read ahead. Measured for maxima of volumes on an H200.
constexpr double k_pooled_elements = 6e3;

// A permuting copy: what neighbouring threads write contiguously they read from lines of their own. Measured on an
// H200: 2.0 times as long where the channels become the last dimension, 2.7 where they have been.
constexpr double k_permuted_copy = 2.5;
// ATen's convolutions of single channels, on a multiprocessor: outputs, and taps of their windows, in a microsecond.
// Measured on an H200.
constexpr double k_single_channel_outputs = 800, k_single_channel_taps = 16400;
// Of a recurrent layer's step: cuDNN's kernels on the device, where none waits for the host (H200: 2.7 to 3.9).
constexpr double k_cell = 2.7;
constexpr double k_inner_gap = 1;  // microseconds between the kernels of an operator, as in a graph

// How often an operator goes through its operands and results, and how many kernels it runs.
struct library_kernels {
  double passes = 1, count = 1;
};

library_kernels kernels_of(const operator_record& r) {
  if (r.traits.rows && r.traits.rows->form == row_form::log_sum_exp) return {6, 6};      // made of other operators
  if (r.traits.rows && r.traits.rows->form == row_form::triplet_margin) return {2, 10};  // the same
  switch (r.kind) {
    case operator_kind::normalization:
      return {4, 2};  // statistics have a kernel of their own
    case operator_kind::scan:
      return {4, 1};
    case operator_kind::loss:
    case operator_kind::sort:
      return {2, 2};
    default:
      return {};
  }
}

// Microseconds of all operations at the rates that were reached.
double arithmetic_us(const task_flops& f, const arithmetic_rates& r) {
  double out = 0;
  for (const auto& [flops, rate] :
       {std::pair{f.float64, r.float64}, {f.float32, r.float32}, {f.tf32, r.tf32}, {f.half, r.half}})
    if (flops > 0 && rate > 0) out += flops / (rate * 1e6);
  return out;
}

// Blocks of a product compute tiles in waves. In a plain product with few tiles they share k.
double whole_waves(const operator_call& call, const tensor_type& result, double flops, double processors) {
  if (result.dim() < 1 || result.numel() == 0) return 1;
  const auto columns = static_cast<double>(result.shape.back());
  const double rows = result.dim() > 1 ? static_cast<double>(result.shape[result.shape.size() - 2]) : 1;
  const double batches = static_cast<double>(result.numel()) / (rows * columns);
  const double k = flops / (2 * static_cast<double>(result.numel()));
  const double tiles = batches * std::ceil(rows / k_tile) * std::ceil(columns / k_tile);
  double parts = 1;
  if (work_parts::operands_of(call).size() == 2)
    parts = std::max(1.0, std::min(std::floor(processors / tiles), std::floor(k / k_least_part)));
  const double waves = std::ceil(tiles * parts / processors);
  return waves * processors / parts * k_tile * k_tile / static_cast<double>(result.numel());
}

// cuDNN's convolutions know no bias, which ATen adds in a kernel of its own except with a ReLU.
double bias_us(const operator_call& call, const tensor_type& result, const device_data& gpu) {
  const bool may_add =
      work_parts::convolved_operand(call) != nullptr && work_parts::tensor_of(call, "input") != nullptr;
  if (!may_add || work_parts::tensor_of(call, "bias") == nullptr) return 0;
  return k_kernel + k_plain_kernels * memory_us({2 * static_cast<double>(result.bytes()), 0}, gpu);
}

// The elements of all windows of a pool, at the rate of instructions.
double windows_us(const operator_call& call, const tensor_type& result, const device_data& gpu) {
  if (work_parts::traits_of(call).pooled_dimensions == 0) return 0;
  double elements = static_cast<double>(result.numel());
  for (const auto& w : work_parts::windows_of(call, result))
    elements *= static_cast<double>(w.kernel);
  return elements / (k_pooled_elements * static_cast<double>(gpu.multiprocessors));
}

// The contiguous one of the dimensions with several elements.
int innermost(const tensor_type& t) {
  int out = -1;
  for (int d = 0; d < t.dim(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (t.shape[at] > 1 && t.strides[at] != 0 && (out < 0 || t.strides[at] <= t.strides[static_cast<std::size_t>(out)]))
      out = d;
  }
  return out;
}

// Whether it has its result's elements in another order than an operand, element by element.
bool permutes(const operator_call& call, const tensor_type& result) {
  const operator_kind kind = work_parts::record_of(call).kind;
  const tensor_type* from = work_parts::tensor_of(call, "self");
  return (kind == operator_kind::copy || kind == operator_kind::pointwise) && from != nullptr &&
         from->shape == result.shape && innermost(*from) != innermost(result);
}

// The time of a convolution that takes each channel alone; 0 for others.
double single_channels_us(const operator_call& call, const tensor_type& result, const device_data& gpu) {
  const auto* const weight = work_parts::tensor_of(call, "weight");
  if (work_parts::convolved_operand(call) == nullptr || weight == nullptr || weight->dim() < 4) return 0;
  if (weight->shape[1] != 1 || work_parts::is_transposed(call) || work_parts::integer_of(call, "groups", 1) == 1)
    return 0;
  const auto outputs = static_cast<double>(result.numel());
  const double taps = outputs * static_cast<double>(weight->numel()) / static_cast<double>(weight->shape[0]);
  return (outputs / k_single_channel_outputs + taps / k_single_channel_taps) / static_cast<double>(gpu.multiprocessors);
}

}  // namespace

double recurrent_cells(const operator_call& call) {
  const auto* const input = work_parts::tensor_of(call, "input");
  if (work_parts::traits_of(call).cudnn_cell < 0 || input == nullptr || input->dim() != 3) return 0;
  const auto is = [&](std::string_view flag) {
    const auto* value = work_parts::argument<scalar_value>(call, flag);
    return value != nullptr && std::holds_alternative<bool>(*value) && std::get<bool>(*value);
  };
  const int64_t directions = is("bidirectional") ? 2 : 1;
  return static_cast<double>(input->shape[is("batch_first") ? 1 : 0] * directions *
                             work_parts::integer_of(call, "num_layers", 1));
}

bool runs_kernels(const operator_call& call) {
  const operator_kind kind = work_parts::record_of(call).kind;
  return kind != operator_kind::view && kind != operator_kind::list;
}

double library_us(const aten_step& s, const operator_call& call, const tensor_type& result, const step_traffic& t,
                  const device_data& gpu) {
  if (!runs_kernels(call)) return 0;
  const auto& record = work_parts::record_of(call);
  const task_flops flops = work_parts::flops_of_step(s, call, result);
  if (flops.total() > 0) {
    double arithmetic = arithmetic_us(flops, gpu.reached_tflops);
    const double single = single_channels_us(call, result, gpu);
    if (record.kind == operator_kind::convolution && single == 0)
      return convolution_us(call, result, {arithmetic, memory_us(t, gpu), flops.total(), flops.float32 == 0}, gpu) +
             bias_us(call, result, gpu);
    if (record.kind == operator_kind::product)
      arithmetic *= whole_waves(call, result, flops.total(), static_cast<double>(gpu.multiprocessors));
    return k_product + std::max({arithmetic, single, memory_us(t, gpu), k_cell * recurrent_cells(call)}) +
           bias_us(call, result, gpu);
  }
  const library_kernels how = kernels_of(record);
  const double memory = how.passes * (permutes(call, result) ? k_permuted_copy : k_plain_kernels) * memory_us(t, gpu);
  return k_kernel * how.count + k_inner_gap * (how.count - 1) + std::max(memory, windows_us(call, result, gpu));
}

}  // namespace cudal1
