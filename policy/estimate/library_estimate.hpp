// How long a call of the library takes on a GPU.
#pragma once

#include "policy/estimate/launch_estimate.hpp"
#include "sandbox/program/check.hpp"

namespace cudal1 {

// 0 for a view. `result`: the type of its first result.
double library_us(const aten_step& s, const operator_call& call, const tensor_type& result, const step_traffic& t,
                  const device_data& gpu);
bool runs_kernels(const operator_call& call);
// Steps of all recurrent layers and directions of a call; each has a few kernels. 0 for other operators.
double recurrent_cells(const operator_call& call);

}  // namespace cudal1
