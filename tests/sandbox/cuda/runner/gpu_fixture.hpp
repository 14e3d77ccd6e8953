// A GPU with the runner's allocator in this process, made once; tests are skipped if there is none.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sandbox/cuda/runner/resident.hpp"
#include "sandbox/cuda/runner/runner_device.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Tensors of a task as the referee would give them: in memory that is mapped for reading.
struct given_memory {
  unique_fd file;
  device_mapping mapped;
  std::vector<tensor_view> views;
};

class gpu_test : public testing::Test {
 protected:
  void SetUp() override;
  static runner_device& device() { return *device_; }

  // Values from that seed, by the task's specification where that matters (integers), else normal ones.
  static given_memory draw(const std::vector<tensor_declaration>& declared, const std::vector<input_spec>& specs,
                           uint64_t seed);
  static std::vector<tensor_view> at_other_addresses(const given_memory& g, device_mapping& keeper);
  // Machine code for this GPU, of one kernel and what stands before it.
  static std::string cubin_of(std::string_view source, std::string_view head = "");
  // Loads a program and gives it weights.
  static std::unique_ptr<resident> load(const program& p, const given_memory& weights, std::string_view object = "");
  // One call: its outputs' bytes. `difference`: the largest, as float32, relative to the largest element.
  static std::vector<std::string> outputs_of(resident& r, const given_memory& inputs, uint64_t seed);
  static double difference(const std::string& a, const std::string& b);
  // Compares the output of a program without weights on three draws, its steps one by one with one graph, which is
  // returned. `largest`: the difference that is allowed.
  static std::unique_ptr<resident> expect_the_same_as_a_graph(const program& p, double largest);
  // Microseconds of a call without poison and flush, on rotating inputs: median of 1,000.
  static double cost(resident& r, const std::vector<given_memory>& draws);
  static double median(std::vector<double> values);
  static void ready(resident& r, const given_memory& inputs);

  static std::unique_ptr<runner_device> device_;
};

program with_graph(program p);

}  // namespace cudal1
