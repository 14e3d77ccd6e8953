#include "sandbox/cuda/referee/compare_on_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "sandbox/cuda/referee/comparison_kernels.hpp"
#include "sandbox/cuda/referee/without_exceptions.hpp"

namespace cudal1 {
namespace {

constexpr int64_t most_blocks = 2048, elements_of_thread = 8;
constexpr int64_t record_stride = 16;  // doubles; a fingerprint takes the first two
static_assert(record_fields <= record_stride);

int64_t whole(double count) {
  return static_cast<int64_t>(count);
}

}  // namespace

// The totals over all blocks. An index is -1 if there is no such element.
struct output_comparer::totals {
  double of[record_fields] = {};

  double operator[](comparison_field f) const { return of[f]; }
  double mean(comparison_field f) const { return of[f] / std::max(of[field_count], 1.0); }
  double root_mean(comparison_field f) const { return std::sqrt(mean(f)); }
};

expected<std::pair<std::size_t, double*>> output_comparer::new_record() {
  return without_exceptions("comparing", [&]() -> expected<std::pair<std::size_t, double*>> {
    const auto options = at::TensorOptions().device(device_.where()).dtype(at::kDouble);
    if (!records_.defined()) {
      block_sums_ = at::empty({most_blocks * static_cast<int64_t>(comparison_fields)}, options);
      records_ = at::zeros({static_cast<int64_t>(max_started), record_stride}, options);
    }
    if (started_ >= max_started)
      return fail(errc::infrastructure, "more than {} comparisons are waiting to be collected", max_started);
    base_.resize(started_ + 1);
    double* const at = records_.mutable_data_ptr<double>() + static_cast<int64_t>(started_) * record_stride;
    return std::pair(started_++, at);
  });
}

expected<std::size_t> output_comparer::start(const compared_tensors& t, const tolerances& allowed,
                                             eager_deviation eager) {
  CUDAL1_TRY(auto record, new_record());
  tolerances within = allowed;
  compared_tensors operands = t;
  int type = static_cast<int>(t.type), with_reference = eager == eager_deviation::counted ? 1 : 0,
      eager_alone = within.eager_alone ? 1 : 0;
  long long elements = t.elements;
  void* sums = block_sums_.mutable_data_ptr();
  void* arguments[] = {&operands.value,
                       &operands.eager,
                       &operands.exact,
                       &type,
                       &elements,
                       &within.close.absolute,
                       &within.close.relative,
                       &within.loose.absolute,
                       &within.loose.relative,
                       &eager_alone,
                       &with_reference,
                       &sums};
  const int64_t each = referee_kernel_threads * elements_of_thread;
  int blocks = static_cast<int>(std::clamp<int64_t>((t.elements + each - 1) / each, 1, most_blocks));
  CUDAL1_CHECK(device_.launch("compare", static_cast<unsigned>(blocks), arguments));
  void* more[] = {&sums, &blocks, &operands.value, &operands.eager, &type, &record.second};
  CUDAL1_CHECK(device_.launch("add_up", 1, more));
  return record.first;
}

expected<std::size_t> output_comparer::start_hash(const tensor_type& type, const void* data, uint64_t key,
                                                  std::size_t output) {
  CUDAL1_TRY(auto record, new_record());
  hash_launch h = hash_of_output(type, data, key, output);
  base_[record.first] = h.base;
  if (h.blocks == 0) return record.first;
  void* arguments[] = {&h.tensor, &h.first_secret, &h.second_secret, &record.second};
  CUDAL1_CHECK(device_.launch("hash_tensor", h.blocks, arguments));
  return record.first;
}

expected<void> output_comparer::collect() {
  collected_.clear();
  collected_base_ = std::exchange(base_, {});
  const auto count = static_cast<int64_t>(std::exchange(started_, 0));
  if (count == 0) return {};
  return without_exceptions("comparing", [&]() -> expected<void> {
    const at::Tensor used = records_.narrow(0, 0, count), host = used.to(at::kCPU, false, true);
    const double* const first = host.const_data_ptr<double>();
    collected_.assign(first, first + count * record_stride);
    used.zero_();  // fingerprints are added to their records
    return {};
  });
}

fingerprint output_comparer::hashed(std::size_t started) const {
  uint64_t added[2];
  std::memcpy(added, &collected_.at(started * record_stride), sizeof added);
  fingerprint sum = collected_base_.at(started);
  return sum += {added[0], added[1]};
}

output_comparer::totals output_comparer::totals_of(std::size_t started) const {
  totals all;
  std::copy_n(&collected_.at(started * record_stride), record_fields, all.of);
  return all;
}

expected<expected_statistics> output_comparer::statistics_of(const compared_tensors& output, const void* strict,
                                                             draw_kind kind, const tolerances& plan) {
  compared_tensors shipped = output, without = output;
  shipped.value = output.eager;
  without.value = strict;
  // The size decides what is allowed, and where that is not what it was at first, the pass is made again.
  tolerances allowed = tolerances_on(kind, output.type, 1, plan);
  for (;;) {
    CUDAL1_TRY(const auto of_shipped, start(shipped, allowed, eager_deviation::counted));
    std::size_t of_strict = of_shipped;
    if (strict != nullptr) {
      CUDAL1_TRY(of_strict, start(without, allowed, eager_deviation::not_counted));
    }
    CUDAL1_CHECK(collect());
    const totals all = totals_of(of_shipped), of_strict_one = totals_of(of_strict);
    expected_statistics f = cudal1::statistics_of({.count = all[field_count],
                                                   .eager_error = all[field_eager_error],
                                                   .squares = all[field_exact_squares],
                                                   .sum = all[field_exact_sum]});
    f.allowed = tolerances_on(kind, output.type, f.size, plan);
    if (f.allowed != allowed) {
      allowed = f.allowed;
      continue;
    }
    f.outside = whole(all[field_reference_outside]);
    f.outside_loose = whole(all[field_outside_loose]);
    if (strict == nullptr) return f;
    f.strict_error = relative_error(of_strict_one.root_mean(field_value_error), f.size);
    f.strict_signal_error = relative_error(of_strict_one.root_mean(field_value_error), f.deviation);
    f.strict_outside = whole(of_strict_one[field_outside]) + whole(of_strict_one[field_mismatches]);
    return f;
  }
}

output_check output_comparer::compared(std::size_t started, const compared_tensors& output,
                                       const expected_statistics& statistics) const {
  const totals all = totals_of(started);
  output_check check;
  check.elements = output.elements;
  check.mask_mismatches = whole(all[field_mismatches]);
  check.outside = whole(all[field_outside]);
  check.outside_eager = whole(all[field_outside_loose]);
  check.max_absolute = all[field_largest];
  check.error = relative_error(all.root_mean(field_value_error), statistics.size);
  check.signal_error = relative_error(all.root_mean(field_value_error), statistics.deviation);
  statistics.describe(output.type, check);
  const bool classes = check.mask_mismatches > 0;
  check.worst_index = whole(all[classes ? field_mismatch_index : field_excess_index]);
  if (all[field_excess_index] >= 0) check.max_excess = all[field_excess];
  if (check.worst_index >= 0) {
    check.worst_value = all[field_worst_value];
    check.worst_expected = all[field_worst_expected];
  }
  return check;
}

}  // namespace cudal1
