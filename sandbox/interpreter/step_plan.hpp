// The result of load() for a checked program: slots for values, and steps with operators and kernels resolved. For the
// .cpp files of this folder only: it includes ATen.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/interpreter/kernel_library.hpp"
#include "sandbox/interpreter/lane_plan.hpp"

namespace cudal1 {

inline constexpr int no_slot = -1;

struct boxed_argument {
  int slot = no_slot;      // of a tensor
  std::vector<int> slots;  // of a list of tensors, if `is_list`
  bool is_list = false;
  bool optional_items = false;     // of the list: no_slot is null
  std::vector<at::Tensor> packed;  // of the list: copies that replace the slots' values
  c10::IValue constant;            // any other argument
};

struct aten_plan {
  c10::OperatorHandle op;
  std::vector<boxed_argument> arguments;
  std::vector<int> results;  // slots; no_slot for an unused result
  std::vector<operator_result> types;
  bool gives_list = false;      // one list of tensors, and a result for each
  bool needs_relayout = false;  // the layout of the results depends on the device
  std::string precision;        // of products and convolutions: "" for LibTorch's default, "float32", "tf32"
};

struct alloc_plan {
  int slot = no_slot;
  tensor_type type;
  at::ScalarType element;
};

// A parameter that is a tensor map: `value` is that of the memory at `of`.
struct mapped_parameter {
  std::size_t parameter = 0;
  int slot = no_slot;
  tensor_map map;
  tensor_type type;
  const void* of = nullptr;
  tensor_map_value value{};
};

// The kernel's parameters: `pointers[i]` is &values[i], or that of a map's value. Values that are tensors' addresses,
// and the maps of tensors that have moved, are set before each launch.
struct launch_plan {
  kernel_launch what;
  std::vector<std::pair<std::size_t, int>> tensors;  // parameter, slot; without those that are mapped
  std::vector<mapped_parameter> maps;
  std::vector<uint64_t> values;
  std::vector<void*> pointers;
};

struct step_plan {
  std::string label;  // "step 2 (launch row_scale)"
  std::variant<alloc_plan, launch_plan, aten_plan> what;
  std::vector<int> last_used;  // slots to release after this step
  bool makes_output = false;   // whether an output's memory is allocated in this step
  laned_step lane;             // if the plan has several lanes
};

struct program_plan {
  std::map<std::string, int> slots;
  std::vector<int> inputs, weights, outputs;
  std::vector<step_plan> setup, steps;
  std::vector<int> temporaries;  // slots set by a call: all but inputs, weights and the results of setup
  int lanes = 1, events = 0;     // of the steps; setup has one lane
};

expected<program_plan> plan_program(const checked_program& p, const kernel_library* kernels,
                                    const interpreter_options& options);

}  // namespace cudal1
