// Estimates of the library's convolutions.
#pragma once

#include "config/device_data.hpp"
#include "sandbox/program/operators/work.hpp"

namespace cudal1 {

// Microseconds of a convolution of several channels, with what the library copies around it. `ideal_us`: of its
// arithmetic at the rate that large products reach; `memory_us`: of its operands and result; `flops`: of the task.
struct convolution_times {
  double ideal_us = 0, memory_us = 0, flops = 0;
  bool on_tensor_cores = true;  // else in float32
};
double convolution_us(const operator_call& call, const tensor_type& result, const convolution_times& t,
                      const device_data& gpu);

}  // namespace cudal1
