// Convolutions over tensors whose channels are contiguous in memory (NHWC), for which libraries have faster kernels
// than for channels that are not. What comes before and after them has to follow, or to be copied into another order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The steps that with_channels_last takes: convolutions over two or three dimensions, with more than one channel.
std::vector<int> convolutions_with_channels(const checked_program& p);

// Whether libraries convolve these channels on tensor cores in either order in memory: four or more at once, and any in
// a transposed convolution. Others, such as the three of an image, are convolved in float32 in the task's own order,
// but perhaps in TF32 in this one: up to 1.8 times as fast on an H200, and less exact than the task. Those that take
// each channel alone count if there are four or more: they keep the order of their neighbours.
bool convolves_by_fours(const operator_call& convolution);

// The task with the channels last in the memory of what these steps, some of convolutions_with_channels, read and make.
// Weights and values that are not in that order are copied into it. Elementwise operators, pools, norms, reductions and
// views take values as they are; before other operators, and at outputs, copies restore the task's order. It has more
// steps than the task: the same results under the same names where their order in memory is the same.
// errc::unsupported with the reason where a step cannot follow.
expected<std::shared_ptr<const task>> with_channels_last(const task& t, std::span<const int> convolutions);

}  // namespace cudal1
