// The fragments of exported files (tools/kernelbench/runtime) that capture graphs and check tensors are this file's,
// too. They are C++ without a namespace, of one file alone, and named here as they are there.
#define PROGRAM_CUDA
#define PROGRAM_LANES

#include "tools/package_runtime/packaged_program.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <boost/json.hpp>
#include <torch/version.h>

#include "tools/kernelbench/runtime/common.hpp"
#include "tools/kernelbench/runtime/product_precision.hpp"
#include "tools/package_runtime/package_json.hpp"
// Behind those.
#include "sandbox/cuda/runtime/graph_bindings.hpp"
#include "sandbox/cuda/runtime/lane_streams.hpp"
#include "sandbox/cuda/runtime/rebound_graph.hpp"
#include "sandbox/cuda/runtime/tensor_maps.hpp"

using cudal1::captured_graph;
using cudal1::captured_place;
using cudal1::check_runtime;
using cudal1::graph_bindings;
using cudal1::lane_streams;
using cudal1::map_of;
using cudal1::order_event;
using cudal1::rebound_graph;

#include "tools/kernelbench/runtime/apart_memory.hpp"
#include "tools/kernelbench/runtime/lanes.hpp"
#include "tools/kernelbench/runtime/mapped_tensors.hpp"

namespace cudal1::package {
namespace {

namespace json = boost::json;

constexpr int no_slot = -1;
constexpr std::size_t message_bytes = 2048;
constexpr uintptr_t alignment = 16;         // for vector loads of kernels
constexpr uintptr_t graph_alignment = 256;  // libraries may choose their kernels by alignment

// ---- plans ----------------------------------------------------------------------------------------------------------

struct named_type {
  std::string name;
  tensor_type type{};       // its name points to `name`
  int memory_of = no_slot;  // the slot whose memory it is in; its own if it is no view
};

struct alloc_plan {
  int slot = no_slot;
};

struct launch_argument {
  int slot = no_slot;        // of a tensor, or:
  uint64_t bits = 0;         // a number's
  std::vector<int64_t> box;  // of a tensor that is passed as a map
  int64_t swizzle = 0;
};

struct launch_plan {
  std::string name;
  const void* kernel = nullptr;
  std::array<int64_t, 3> grid{}, block{};
  int64_t shared_bytes = 0;
  launch_options options;
  std::vector<launch_argument> arguments;
};

struct operator_argument {
  int slot = no_slot;
  std::vector<int> slots;  // of a list
  bool is_list = false, optional_items = false;
  c10::IValue constant;
};

struct operator_plan {
  std::optional<c10::OperatorHandle> op;
  std::vector<operator_argument> arguments;
  std::vector<int> results;  // no_slot for one that nothing reads
  bool gives_list = false, needs_relayout = false;
  std::string precision;
};

struct step_plan {
  std::string label;
  std::variant<alloc_plan, launch_plan, operator_plan> what;
  bool makes_output = false;
  std::vector<int> last_used;
  int lane = no_slot, event = no_slot;
  std::vector<int> waits;
};

int64_t integer(const json::value& v) {
  return v.to_number<int64_t>();
}

int whole(const json::value& v) {
  return v.to_number<int>();
}

std::array<int64_t, 3> sizes(const json::value& v) {
  const auto& all = v.as_array();
  return {integer(all.at(0)), integer(all.at(1)), integer(all.at(2))};
}

}  // namespace

struct program_state {
  std::string name;
  std::vector<named_type> values;
  std::vector<int> inputs, weights, kept, outputs;
  std::vector<int> temporaries;  // all that is neither a weight nor kept: a call's own
  std::vector<bool> cloned;      // of outputs: in memory that something else uses, and the caller's is its own
  std::vector<step_plan> setup, steps;
  int lanes = 1, events = 0;
  at::Device device{at::kCPU};
  processor_kernels processor;
  std::vector<cudaLibrary_t> libraries;
  std::unique_ptr<lane_streams> streams;
  std::mutex turn;

  program_state() = default;
  program_state(const program_state&) = delete;
  program_state& operator=(const program_state&) = delete;
  ~program_state() {
    for (auto* const library : libraries)
      (void)cudaLibraryUnload(library);
  }
};

namespace {

// The values of one call, or of all calls of a graph.
struct values {
  program_state* program = nullptr;
  at::Device device{at::kCPU};
  apart_memory* apart = nullptr;
  lane_streams* lanes = nullptr;
  std::vector<at::Tensor> at;  // by slots

  explicit values(program_state& p) : program(&p), device(p.device), lanes(p.streams.get()), at(p.values.size()) {}
};

const tensor_type& type_of(const program_state& p, int slot) {
  return p.values[static_cast<std::size_t>(slot)].type;
}

at::Tensor& tensor_at(values& v, int slot) {
  return v.at[static_cast<std::size_t>(slot)];
}

// ---- steps ----------------------------------------------------------------------------------------------------------

struct alignas(64) map_bytes {
  std::array<std::byte, 192> bytes;
};

void check_processor(int problem, const std::string& what, const char* said) {
  if (problem != 0) fail(what + ": " + said);
}

map_bytes map_on(const values& v, const launch_argument& a, const at::Tensor& t) {
  map_bytes map{};
  if (v.device.is_cuda()) {
    const auto made = mapped(t, a.box, a.swizzle);
    static_assert(sizeof made <= sizeof map);
    std::memcpy(&map, &made, sizeof made);
    return map;
  }
  std::array<char, message_bytes> said{};
  check_processor(v.program->processor.map(v.program->processor.library, static_cast<int>(t.dim()), t.sizes().data(),
                                           t.strides().data(), a.box.data(), static_cast<int64_t>(t.element_size()),
                                           a.swizzle, t.const_data_ptr(), &map, said.data(), said.size()),
                  "a tensor map", said.data());
  return map;
}

void run_launch(values& v, const launch_plan& launch) {
  const auto count = launch.arguments.size();
  std::vector<uint64_t> words(count);
  std::vector<void*> pointers(count);
  std::vector<map_bytes> maps;
  maps.reserve(count);  // pointers to them stay
  for (std::size_t i = 0; i < count; ++i) {
    const auto& a = launch.arguments[i];
    pointers[i] = &words[i];
    if (a.slot == no_slot) {
      words[i] = a.bits;
    } else if (const auto& t = tensor_at(v, a.slot); a.box.empty()) {
      words[i] = reinterpret_cast<uintptr_t>(t.const_data_ptr());
    } else {
      maps.push_back(map_on(v, a, t));
      pointers[i] = &maps.back();
    }
  }
  if (v.device.is_cuda()) {
    const auto d = [](const std::array<int64_t, 3>& n) {
      return dim3(static_cast<unsigned>(n[0]), static_cast<unsigned>(n[1]), static_cast<unsigned>(n[2]));
    };
    check_runtime(cudal1::launch_kernel(launch.kernel, d(launch.grid), d(launch.block), pointers.data(),
                                        static_cast<std::size_t>(launch.shared_bytes),
                                        c10::cuda::getCurrentCUDAStream(), launch.options),
                  launch.name.c_str());
    return;
  }
  std::array<int64_t, 7> listed{};
  std::copy(launch.grid.begin(), launch.grid.end(), listed.begin());
  std::copy(launch.block.begin(), launch.block.end(), listed.begin() + 3);
  listed[6] = launch.shared_bytes;
  std::array<char, message_bytes> said{};
  const auto& processor = v.program->processor;
  check_processor(processor.launch(processor.library, launch.kernel, listed.data(), launch.options.cooperative ? 1 : 0,
                                   pointers.data(), at::get_num_threads(), said.data(), said.size()),
                  "launch of " + launch.name, said.data());
}

c10::IValue boxed(values& v, const operator_argument& a) {
  if (a.slot != no_slot) return tensor_at(v, a.slot);
  if (!a.is_list) return a.constant;
  if (a.optional_items) {
    c10::List<std::optional<at::Tensor>> list;
    for (const int slot : a.slots)
      list.push_back(slot == no_slot ? std::optional<at::Tensor>() : tensor_at(v, slot));
    return list;
  }
  c10::List<at::Tensor> list;
  for (const int slot : a.slots)
    list.push_back(tensor_at(v, slot));
  return list;
}

void run_operator(values& v, const operator_plan& what) {
  std::vector<c10::IValue> stack;
  stack.reserve(what.arguments.size());
  for (const auto& a : what.arguments)
    stack.push_back(boxed(v, a));
  {
    std::optional<product_precision> precision;
    if (!what.precision.empty())
      precision.emplace(what.precision == "tf32" ? product_precision::tf32 : product_precision::float32);
    what.op->callBoxed(&stack);
  }
  if (what.gives_list) {
    auto items = stack.back().toTensorVector();
    stack.assign(std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
  }
  if (stack.size() != what.results.size()) fail("it gave " + std::to_string(stack.size()) + " results");
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const int slot = what.results[i];
    if (slot == no_slot) continue;
    auto result = std::move(stack[i]).toTensor();
    if (what.needs_relayout) result = laid_out_as(std::move(result), type_of(*v.program, slot));
    expect(result, type_of(*v.program, slot));
    tensor_at(v, slot) = std::move(result);
  }
}

void run_step(values& v, const step_plan& s) {
  if (const auto* launch = std::get_if<launch_plan>(&s.what)) return run_launch(v, *launch);
  if (const auto* what = std::get_if<operator_plan>(&s.what)) return run_operator(v, *what);
  const int slot = std::get<alloc_plan>(s.what).slot;
  const auto& type = type_of(*v.program, slot);
  tensor_at(v, slot) = allocated(type.shape, type.strides, type.dtype, v.device);
}

void run_steps(values& v, const std::vector<step_plan>& steps, lane_streams* lanes) {
  for (const auto& s : steps) {
    if (lanes != nullptr) {
      if (s.lane != no_slot) lanes->enter(static_cast<std::size_t>(s.lane));
      for (const int event : s.waits)
        lanes->wait(static_cast<std::size_t>(event));
    }
    {
      const apart_scope apart(s.makes_output ? v.apart : nullptr);
      RECORD_FUNCTION(s.label, {});  // for profilers: nothing without one
      try {
        run_step(v, s);
      } catch (const c10::OutOfMemoryError&) {
        throw;
      } catch (const c10::Error& e) {
        fail(v.program->name + ", " + s.label + ": " + e.what_without_backtrace());
      } catch (const std::exception& e) {
        fail(v.program->name + ", " + s.label + ": " + e.what());
      }
    }
    if (lanes != nullptr) {  // another lane may still read what is released: all is, at the end
      if (s.event != no_slot) lanes->record(static_cast<std::size_t>(s.event));
    } else {
      for (const int slot : s.last_used)
        tensor_at(v, slot).reset();
    }
  }
}

void place(values& v, const std::vector<int>& slots, const std::vector<at::Tensor>& given, const char* kind,
           uintptr_t wanted_alignment) {
  if (given.size() != slots.size())
    fail(v.program->name + " takes " + std::to_string(slots.size()) + " " + kind + "s, and was given " +
         std::to_string(given.size()));
  for (std::size_t i = 0; i < given.size(); ++i)
    tensor_at(v, slots[i]) = as_declared(given[i], type_of(*v.program, slots[i]), kind, v.device, wanted_alignment);
}

std::vector<at::Tensor> outputs_of(values& v) {
  const auto& p = *v.program;
  const apart_scope apart(v.apart);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    const auto& t = tensor_at(v, p.outputs[i]);
    outputs.push_back(p.cloned[i] ? t.clone() : t);
  }
  return outputs;
}

void set_weights(values& v, const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& kept) {
  place(v, v.program->weights, weights, "weight", alignment);
  for (std::size_t i = 0; i < kept.size(); ++i)
    tensor_at(v, v.program->kept.at(i)) = kept[i];
}

// One call, step by step, on the current stream.
std::vector<at::Tensor> run(values& v, const std::vector<at::Tensor>& inputs) {
  struct at_end {
    values& v;
    ~at_end() {
      try {
        if (v.lanes != nullptr) v.lanes->join();
      } catch (const std::exception&) {  // the steps' own error is already propagating
      }
      for (const int slot : v.program->temporaries)
        tensor_at(v, slot).reset();
    }
  } const end{v};
  place(v, v.program->inputs, inputs, "input", alignment);
  if (v.lanes != nullptr) v.lanes->begin();
  run_steps(v, v.program->steps, v.lanes);
  if (v.lanes != nullptr) v.lanes->join();
  return outputs_of(v);
}

std::string name_of(const values& v) {
  return v.program->name;
}
std::string input_name(const values& v, std::size_t input) {
  return v.program->values[static_cast<std::size_t>(v.program->inputs[input])].name;
}
void warn(const std::string& said) {
  TORCH_WARN(said);
}

}  // namespace
}  // namespace cudal1::package

namespace {
using cudal1::package::input_name;
using cudal1::package::name_of;
using cudal1::package::run;
using cudal1::package::values;
using cudal1::package::warn;
}  // namespace

#include "tools/kernelbench/runtime/graph_runner.hpp"

namespace cudal1::package {

struct graph_state {
  std::shared_ptr<program_state> program;
  values v;
  graph_runner runner;

  explicit graph_state(std::shared_ptr<program_state> p) : program(std::move(p)), v(*program) {}
};

namespace {

at::ScalarType dtype_of(const std::string& name) {
  const auto found = dtypes().find(name);
  if (found == dtypes().end())
    fail("it has values of the type " + name + ", which this package's library does not know");
  return found->second;
}

c10::MemoryFormat memory_format_of(const std::string& name) {
  if (name == "channels_last") return c10::MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return c10::MemoryFormat::ChannelsLast3d;
  return name == "preserve_format" ? c10::MemoryFormat::Preserve : c10::MemoryFormat::Contiguous;
}

operator_argument argument_of(const json::value& listed, at::Device device) {
  const auto& a = listed.as_object();
  operator_argument made;
  if (const auto* slot = a.if_contains("slot")) {
    made.slot = whole(*slot);
  } else if (const auto* slots = a.if_contains("slots")) {
    made.is_list = true;
    made.slots = numbers<int>(*slots);
    made.optional_items = a.at("optional").as_bool();
  } else if (const auto* i = a.if_contains("int")) {
    made.constant = integer(*i);
  } else if (const auto* f = a.if_contains("float")) {
    made.constant = std::stod(text(*f));
  } else if (const auto* b = a.if_contains("bool")) {
    made.constant = b->as_bool();
  } else if (const auto* s = a.if_contains("text")) {
    made.constant = text(*s);
  } else if (const auto* type = a.if_contains("dtype")) {
    made.constant = static_cast<int64_t>(dtype_of(text(*type)));
  } else if (const auto* format = a.if_contains("memory_format")) {
    made.constant = static_cast<int64_t>(memory_format_of(text(*format)));
  } else if (a.contains("layout")) {
    made.constant = static_cast<int64_t>(c10::Layout::Strided);
  } else if (const auto* is = a.if_contains("ints")) {
    made.constant = numbers<int64_t>(*is);
  } else if (const auto* fs = a.if_contains("floats")) {
    std::vector<double> all;
    for (const auto& item : fs->as_array())
      all.push_back(std::stod(text(item)));
    made.constant = all;
  } else if (const auto* bs = a.if_contains("bools")) {
    c10::List<bool> all;
    for (const auto& item : bs->as_array())
      all.push_back(item.as_bool());
    made.constant = all;
  } else if (a.contains("device")) {
    if (!device.is_cpu()) made.constant = device;
  }
  return made;
}

operator_plan operator_of(const json::object& s, at::Device device) {
  operator_plan made;
  const auto name = text(s.at("op")), overload = text(s.at("overload"));
  made.op = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!made.op)
    fail("this PyTorch (" TORCH_VERSION ") has no operator " + name + (overload.empty() ? "" : "." + overload));
  for (const auto& a : s.at("args").as_array())
    made.arguments.push_back(argument_of(a, device));
  made.results = numbers<int>(s.at("out"));
  made.gives_list = s.at("list").as_bool();
  made.needs_relayout = s.at("relayout").as_bool();
  made.precision = text(s.at("precision"));
  return made;
}

launch_plan launch_of(const json::object& s) {
  launch_plan made;
  made.name = text(s.at("launch"));
  made.grid = sizes(s.at("grid"));
  made.block = sizes(s.at("block"));
  made.shared_bytes = integer(s.at("shared_bytes"));
  made.options = {s.at("cooperative").as_bool(), s.at("programmatic").as_bool()};
  for (const auto& listed : s.at("args").as_array()) {
    const auto& a = listed.as_object();
    launch_argument argument;
    if (const auto* bits = a.if_contains("bits"))
      argument.bits = static_cast<uint64_t>(integer(*bits));
    else
      argument.slot = whole(a.at("slot"));
    if (const auto* box = a.if_contains("box")) {
      argument.box = numbers<int64_t>(*box);
      argument.swizzle = integer(a.at("swizzle"));
    }
    made.arguments.push_back(std::move(argument));
  }
  return made;
}

std::vector<step_plan> steps_of(const json::value& listed, at::Device device) {
  std::vector<step_plan> steps;
  for (const auto& item : listed.as_array()) {
    const auto& s = item.as_object();
    step_plan made;
    made.label = text(s.at("label"));
    if (s.contains("op"))
      made.what = operator_of(s, device);
    else if (s.contains("launch"))
      made.what = launch_of(s);
    else
      made.what = alloc_plan{whole(s.at("alloc"))};
    made.makes_output = s.at("makes_output").as_bool();
    made.last_used = numbers<int>(s.at("last_used"));
    if (const auto* lane = s.if_contains("lane")) {
      made.lane = whole(*lane);
      made.event = whole(s.at("event"));
      made.waits = numbers<int>(s.at("waits"));
    }
    steps.push_back(std::move(made));
  }
  return steps;
}

// What follows from the places of values.
void note_uses(program_state& p) {
  std::set<int> lasting(p.weights.begin(), p.weights.end());
  lasting.insert(p.kept.begin(), p.kept.end());
  for (int slot = 0; slot < static_cast<int>(p.values.size()); ++slot)
    if (lasting.count(slot) == 0) p.temporaries.push_back(slot);
  const auto memory = [&](int slot) { return p.values[static_cast<std::size_t>(slot)].memory_of; };
  std::set<int> taken;
  for (const auto* slots : {&p.inputs, &p.weights, &p.kept})
    for (const int slot : *slots)
      taken.insert(memory(slot));
  for (const int slot : p.outputs)
    p.cloned.push_back(!taken.insert(memory(slot)).second);
}

// Kernels of the plan, looked up in what was loaded.
void find_kernels(program_state& p, std::vector<step_plan>& steps) {
  for (auto& s : steps) {
    auto* const launch = std::get_if<launch_plan>(&s.what);
    if (launch == nullptr) continue;
    if (p.device.is_cpu()) {
      std::array<char, message_bytes> said{};
      if (p.processor.find == nullptr) fail(p.name + " launches kernels, and none were loaded");
      launch->kernel = p.processor.find(p.processor.library, launch->name.c_str(), said.data(), said.size());
      if (launch->kernel == nullptr) fail(said.data());
      continue;
    }
    cudaKernel_t found = nullptr;
    for (auto* const library : p.libraries)
      if (cudaLibraryGetKernel(&found, library, launch->name.c_str()) == cudaSuccess) break;
    if (found == nullptr) fail("its cubins have no kernel " + launch->name);
    (void)cudaGetLastError();  // of the libraries that do not have it
    launch->kernel = reinterpret_cast<const void*>(found);
    if (launch->shared_bytes > 0)
      check_runtime(cudaFuncSetAttribute(launch->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(launch->shared_bytes)),
                    "dynamic shared memory");
  }
}

// The device of a program, as the current one while a call runs.
class on_device {
 public:
  explicit on_device(at::Device device) {
    if (device.is_cuda() && c10::cuda::current_device() != device.index()) guard_.reset_device(device);
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

}  // namespace

packaged_program::packaged_program(const std::string& plan, const std::vector<std::string>& cubins, int device,
                                   processor_kernels processor)
    : state_(std::make_shared<program_state>()) {
  auto& p = *state_;
  const auto document = json::parse(plan);
  const auto& o = document.as_object();
  p.name = text(o.at("name"));
  if (device >= 0) p.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
  p.processor = processor;
  for (const auto& item : o.at("values").as_array()) {
    const auto& v = item.as_object();
    p.values.push_back(
        {text(v.at("name")),
         {nullptr, dtype_of(text(v.at("dtype"))), numbers<int64_t>(v.at("shape")), numbers<int64_t>(v.at("strides"))},
         whole(v.at("memory_of"))});
  }
  for (auto& v : p.values)
    v.type.name = v.name.c_str();
  p.inputs = numbers<int>(o.at("inputs"));
  p.weights = numbers<int>(o.at("weights"));
  p.kept = numbers<int>(o.at("kept"));
  p.outputs = numbers<int>(o.at("outputs"));
  note_uses(p);
  p.setup = steps_of(o.at("setup"), p.device);
  p.steps = steps_of(o.at("steps"), p.device);
  p.lanes = whole(o.at("lanes"));
  p.events = whole(o.at("events"));
  const on_device here(p.device);
  for (const auto& cubin : cubins)
    check_runtime(
        cudaLibraryLoadData(&p.libraries.emplace_back(), cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a cubin");
  find_kernels(p, p.setup);
  find_kernels(p, p.steps);
  if (p.lanes > 1 && p.device.is_cuda())
    p.streams = std::make_unique<lane_streams>(p.device.index(), own_streams(p.device.index(), p.lanes - 1),
                                               static_cast<std::size_t>(p.events));
}

packaged_program::~packaged_program() = default;

std::vector<at::Tensor> packaged_program::set_up(const std::vector<at::Tensor>& weights) {
  const std::lock_guard lock(state_->turn);
  const plain_mode mode;
  const on_device here(state_->device);
  values v(*state_);
  set_weights(v, weights, {});
  run_steps(v, state_->setup, nullptr);
  std::vector<at::Tensor> kept;
  for (const int slot : state_->kept)
    kept.push_back(tensor_at(v, slot));
  return kept;
}

std::vector<at::Tensor> packaged_program::call(const std::vector<at::Tensor>& inputs,
                                               const std::vector<at::Tensor>& weights,
                                               const std::vector<at::Tensor>& kept) {
  const std::lock_guard lock(state_->turn);
  const plain_mode mode;
  const on_device here(state_->device);
  values v(*state_);
  set_weights(v, weights, kept);
  return run(v, inputs);
}

packaged_graph::packaged_graph(const packaged_program& program, const std::vector<at::Tensor>& weights,
                               const std::vector<at::Tensor>& kept)
    : state_(std::make_unique<graph_state>(program.state_)) {
  const plain_mode mode;
  const on_device here(program.state_->device);
  set_weights(state_->v, weights, kept);
}

packaged_graph::~packaged_graph() = default;

std::vector<at::Tensor> packaged_graph::call(const std::vector<at::Tensor>& inputs) {
  auto& p = *state_->program;
  const std::lock_guard lock(p.turn);
  const plain_mode mode;
  const on_device here(p.device);
  std::vector<at::Tensor> given;
  if (inputs.size() != p.inputs.size()) fail(p.name + " was given another number of inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    given.push_back(as_declared(inputs[i], type_of(p, p.inputs[i]), "input", p.device, graph_alignment));
  std::vector<at::Tensor> outputs;
  if (!state_->runner.call(state_->v, given, outputs)) outputs = run(state_->v, given);
  return outputs;
}

std::vector<std::string> packaged_graph::notes() const {
  return state_->runner.notes();
}

}  // namespace cudal1::package
