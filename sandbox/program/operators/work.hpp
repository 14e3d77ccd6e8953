// The work that a task needs: bytes and arithmetic. There are two kinds of numbers, which must not be confused:
//
// - A bound: `least_bytes`. No correct program of the task moves fewer bytes when caches are cold; the auditor reports
//   a faster result as impossible. In doubt the bound is lower.
// - Estimates for reports: what a very good program does. Every tensor is moved once, and the arithmetic is that of
//   direct algorithms (not Winograd's or Strassen's). Work that algebra avoids is not counted: the zeros of a declared
//   structure, elements that nothing reads, products that only feed sums or other products. A program may do less.
#pragma once

#include <cstdint>

#include <boost/describe.hpp>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// Floating-point operations (a multiplication and an addition are two), by the unit that may execute them.
struct task_flops {
  double float64 = 0;
  double float32 = 0;  // strict: products, unless they ask for tf32
  double tf32 = 0;     // convolutions, which eager computes in TF32, unless they ask for float32
  double half = 0;     // float16 and bfloat16
  double total() const { return float64 + float32 + tf32 + half; }
};
BOOST_DESCRIBE_STRUCT(task_flops, (), (float64, float32, tf32, half))

struct task_work {
  int64_t input_bytes = 0, weight_bytes = 0, output_bytes = 0;  // estimates: each once, as far as it is accessed
  int64_t least_input_bytes = 0;   // bound: of the inputs of which every element must be read
  int64_t least_output_bytes = 0;  // bound: written, though perhaps only as far as the cache
  task_flops flops;                // estimate: of matrix products, attention and convolutions; others count as bytes
  int64_t bytes() const { return input_bytes + weight_bytes + output_bytes; }
  // The bound. Outputs may still be in a cache of `cache_bytes` when the call ends.
  int64_t least_bytes(int64_t cache_bytes = 0) const;
};
BOOST_DESCRIBE_STRUCT(task_work, (),
                      (input_bytes, weight_bytes, output_bytes, least_input_bytes, least_output_bytes, flops))

task_work work_of(const task& t);

// The share of a tensor's elements that its facts do not determine: 1/n for a diagonal matrix, about half for a
// triangular or symmetric one, half for one_hot (finding the 1 of a row takes half of the row on average).
double open_share(const tensor_type& type, const std::vector<fact>& facts);

}  // namespace cudal1
