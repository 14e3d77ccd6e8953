// What the work estimates share, based on the traits of the operators' records.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1::work_parts {

// The record of the step's operator; an empty record for the launch of a kernel.
const operator_record& record_of(const operator_call& call);
inline const operator_traits& traits_of(const operator_call& call) {
  return record_of(call).traits;
}

// The argument of that name; null where there is none, or where it is not a T.
template <class T>
const T* argument(const operator_call& call, std::string_view name) {
  if (call.op == nullptr) return nullptr;
  const auto& known = call.op->schema.arguments;
  for (std::size_t i = 0; i < known.size() && i < call.arguments.size(); ++i)
    if (known[i].name == name) return std::get_if<T>(&call.arguments[i]);
  return nullptr;
}
const tensor_type* tensor_of(const operator_call& call, std::string_view name);
// An integer; `otherwise` where there is none.
int64_t integer_of(const operator_call& call, std::string_view name, int64_t otherwise);

// The values that a step reads, each as often as it is an argument.
std::vector<std::string> operands_of(const operator_call& call);

// A window of `kernel` taps along one dimension: tap k of position i is at i * stride + k * dilation - padding, which
// need not be inside it. touched(): the number of elements that it covers in any position; pairs(): the number of pairs
// of a position and a tap inside the dimension.
struct window {
  int64_t size = 0, positions = 0;  // of the dimension; of the window
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t touched() const;
  int64_t pairs() const;
  bool operator==(const window&) const = default;
};
// The windows of a convolution (over `input`, or over the result if transposed) or pooling step; empty for other
// operators.
std::vector<window> windows_of(const operator_call& call, const tensor_type& result);
double touched_share(const std::vector<window>& windows);

bool is_transposed(const operator_call& call);  // a convolution
// What a convolution goes over; null for other operators.
const tensor_type* convolved_operand(const operator_call& call);

// The steps whose products cheaper ones may replace: their results only go, through linear steps, into sums, means or
// other products (GEMM and row sum as GEMV; (A B) x as A (B x)).
std::set<std::size_t> avoidable_products(const checked_program& p);

// FLOPs of products and convolutions. `read_share`: for each value, the share of its elements that is read.
task_flops flops_of(const task& t, const std::map<std::string, double>& read_share,
                    const std::set<std::size_t>& avoidable);

// FLOPs of one step, whose operands are read as a whole and have no structure.
task_flops flops_of_step(const aten_step& s, const operator_call& call, const tensor_type& result);

// For each input, the share of its elements that every correct program must read: 1, the share that windows touch, or 0
// where nothing is certain (needed_inputs.cpp).
std::map<std::string, double> needed_inputs(const task& t);

}  // namespace cudal1::work_parts
