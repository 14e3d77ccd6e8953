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

// Whether libraries convolve faster with the channels last. On tensor cores they take four channels or more in either
// order, and copy them to this one; a few channels, such as the three of an image, they convolve in it only (1.3 to 1.8
// times as fast on an H200), except where the windows have one element. Those that take each channel alone count if
// there are four or more: they are as fast or faster, and keep the order of their neighbours.
bool convolves_faster_last(const operator_call& convolution);
// Of these, whether they copy operands and results that are in another order.
bool convolves_by_fours(const operator_call& convolution);

// The task with the channels last in the memory of what these steps, some of convolutions_with_channels, read and make.
// Weights and values that are not in that order are copied into it. Elementwise operators, pools, norms, reductions and
// views take values as they are; before other operators, and at outputs, copies restore the task's order. It has more
// steps than the task: the same results under the same names where their order in memory is the same.
// errc::unsupported with the reason where a step cannot follow.
expected<std::shared_ptr<const task>> with_channels_last(const task& t, std::span<const int> convolutions);

}  // namespace cudal1
