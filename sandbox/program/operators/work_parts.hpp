// What the estimates of work share, over the traits of the operators' records.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1::work_parts {

// Of the step's operator; of a kernel's step, those of an operator of which nothing is known.
const operator_record& record_of(const operator_call& call);
inline const operator_traits& traits_of(const operator_call& call) {
  return record_of(call).traits;
}

// By the schema's name; null where there is none, or where it is not a T.
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

// The values that a step reads, each as often as it stands there.
std::vector<std::string> operands_of(const operator_call& call);

// Along one dimension, how many of its elements a window of `kernel` taps ever meets, and how many pairs of a position
// and a tap lie inside.
struct window {
  int64_t size = 0, positions = 0;  // of the dimension; of the window
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  int64_t touched() const;
  int64_t pairs() const;
};
// Of a convolution (of `input`, not transposed) or a pooling step; empty for other operators.
std::vector<window> windows_of(const operator_call& call, const tensor_type& result);
double touched_share(const std::vector<window>& windows);

bool is_transposed(const operator_call& call);  // a convolution

// Which steps' products something cheaper may stand for: their results only go, by linear steps, into sums, means or
// other products (GEMM and row sum as GEMV; (A B) x as A (B x)).
std::set<std::size_t> avoidable_products(const checked_program& p);

// FLOPs of products and convolutions. `read_share`: of each value's elements, how many anybody reads.
task_flops flops_of(const task& t, const std::map<std::string, double>& read_share,
                    const std::set<std::size_t>& avoidable);

// The inputs of which an output needs every element, by a rule that is sound: along one path of steps nothing can
// cancel (needed_inputs.cpp). With the share of them that is touched (1, or a window's).
std::map<std::string, double> needed_inputs(const task& t);

}  // namespace cudal1::work_parts
