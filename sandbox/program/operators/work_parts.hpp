// Parts of work.cpp, in files of their own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/operators/work.hpp"

namespace cudal1::work_parts {

// The operator's name without namespace and overload: "conv2d", "add".
std::string_view base_name(const aten_step& s);
bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names);

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
std::vector<window> windows_of(const aten_step& s, const operator_call& call, const tensor_type& result);
double touched_share(const std::vector<window>& windows);

bool is_convolution(const aten_step& s);
bool is_transposed(const aten_step& s, const operator_call& call);
bool is_product(const aten_step& s);      // of matrices; attention and convolutions included
bool is_contraction(const aten_step& s);  // other products: einsum, tensordot and the like
bool is_recurrent(const aten_step& s);    // layers and cells

double contraction_flops(const aten_step& s, const operator_call& call, const tensor_type& result);
double recurrent_flops(const operator_call& call);

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
