#include "sandbox/cuda/runner/resident.hpp"

#include <algorithm>

#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "sandbox/cuda/runtime/cuda_lanes.hpp"
#include "sandbox/cuda/runtime/own_gpu_operators.hpp"
#include "sandbox/program/slow_first_call.hpp"

namespace cudal1 {
namespace {

// In a capture no temporary value lies where an output does, so that an address in an output's block means the output.
// What a step allocates may differ from one call to the next (in a capture, attention makes its random state on the
// GPU), so blocks are told by the step that makes them and never by their number.
class apart_outputs final : public output_memory_listener {
 public:
  explicit apart_outputs(device_arena& arena) : arena_(arena) {}
  void begin_output() override { arena_.begin_apart(); }
  void end_output() override { arena_.end_apart(); }

 private:
  device_arena& arena_;
};

uintptr_t address_of(const tensor_view& t) {
  return reinterpret_cast<uintptr_t>(t.data);
}

uintptr_t bytes_of(const tensor_view& t) {
  return static_cast<uintptr_t>(t.type.storage_bytes());
}

}  // namespace

expected<std::unique_ptr<resident>> resident::load(std::shared_ptr<known_program> known, std::string_view object,
                                                   int device, device_arena& arena, cudaStream_t stream) {
  use_own_gpu_operators();
  std::unique_ptr<resident> result(new resident(std::move(known), arena, stream));
  const checked_program& program = result->known_->program;
  const auto& text = program.text;
  result->input_types_ = types_of(text.inputs);
  result->weight_types_ = types_of(text.weights);
  for (const auto& input : text.inputs)
    result->input_names_.push_back(input.name);
  result->wants_graph_ = text.how.graph;
  result->compiles_ = steps_compiled_at_first(program) > 0;
  if (!object.empty()) {
    CUDAL1_TRY(result->kernels_, load_cubin(object, device));
  }
  if (text.how.lanes > 1) result->lanes_ = make_cuda_lanes(device, arena);
  if (text.how.graph) result->apart_ = std::make_unique<apart_outputs>(arena);
  CUDAL1_TRY(
      result->program_,
      interpreter::load(
          program, result->kernels_.get(),
          {.threads = 1, .cuda_device = device, .lanes = result->lanes_.get(), .output_memory = result->apart_.get()}));
  return result;
}

resident::~resident() {
  drop_graph();
}

expected<void> resident::set_weights(std::span<const tensor_view> weights) {
  drop_graph();
  return program_->set_weights(weights);
}

std::vector<tensor_view> resident::constants() const {
  auto all = program_->constants();
  if (kernels_) all.insert(all.end(), variables_of(*kernels_).begin(), variables_of(*kernels_).end());
  return all;
}

void resident::drop_outputs() {
  for (auto& block : blocks_)
    arena_.release(std::exchange(block, nullptr));
  outputs_.clear();
}

void resident::drop_graph() {
  drop_outputs();
  for (void* const copy : copies_)
    arena_.release(copy);
  copies_.clear();
  bindings_ = {};
  blocks_.clear();
  captured_outputs_.clear();
  if (graph_) arena_.give_back(held_);
  graph_.reset();
  held_ = {};
}

void resident::release() {
  drop_outputs();
  program_->release();
}

// A tensor may be a part of its block; then the whole block changes with each call.
captured_place resident::place_of(const tensor_view& t) const {
  if (const auto block = arena_.block_of(t.data); !block.empty())
    return {address_of(t), reinterpret_cast<uintptr_t>(block.data()), block.size()};
  return {address_of(t), address_of(t), bytes_of(t)};
}

expected<resident::capture_result> resident::capture_once(std::span<const tensor_view> inputs) {
  arena_.begin_capture();
  std::optional<expected<void>> called;  // nothing where no capture began
  std::vector<tensor_view> outputs;
  std::vector<captured_place> places;
  auto graph = as_value([&] {
    return captured_graph::of(stream_, [&] {
      called = program_->call(inputs);
      outputs.assign(program_->outputs().begin(), program_->outputs().end());
      for (const auto& output : outputs)
        places.push_back(place_of(output));
    });
  });
  program_->release();
  auto held = arena_.end_capture();
  if (!graph || !*called) {
    arena_.give_back(held);
    (void)cudaGetLastError();
    if (!called) return tl::unexpected<error>(graph.error());
    const bool memory = !*called && called->error().code == errc::out_of_memory;
    return fail(memory ? errc::out_of_memory : errc::variant_fault, "the program cannot be captured as one graph: {}",
                *called ? graph.error().message : called->error().message);
  }
  return capture_result{std::move(*graph), std::move(outputs), std::move(places), std::move(held)};
}

// Two captures at different addresses show where the pointers are.
expected<void> resident::bind(std::span<const tensor_view> first, std::span<const tensor_view> second) {
  CUDAL1_TRY(capture_result a, capture_once(first));
  auto b = capture_once(second);
  if (!b) {
    arena_.give_back(a.held);
    return tl::unexpected<error>(b.error());
  }
  const auto places_of = [](std::span<const tensor_view> tensors) {
    std::vector<captured_place> places;
    for (const auto& t : tensors)
      places.push_back({address_of(t), address_of(t), bytes_of(t)});
    return places;
  };
  graph_bindings bindings(places_of(first), a.places, places_of(second), b->places);
  auto made =
      as_value([&] { return std::make_unique<rebound_graph>(std::move(a.graph), &b->graph, bindings.ranges()); });
  arena_.give_back(b->held);
  // An output that no node points to stays where it was captured; an input must be copied to where it is read.
  std::string why = made ? "" : made.error().message;
  if (made)
    for (std::size_t r = 0; r < first.size(); ++r)
      if (!(*made)->found(r)) why = fmt::format("no kernel takes a pointer to \"{}\"", input_names_[r]);
  if (!why.empty()) {
    arena_.give_back(a.held);
    if (!made && made.error().code != errc::unsupported) return tl::unexpected<error>(made.error());
    return capture_copying(first, why);
  }
  bindings.note_found(**made);
  bindings_ = std::move(bindings);
  blocks_.assign(bindings_.memories().size(), nullptr);
  graph_ = std::move(*made);
  held_ = std::move(a.held);
  captured_outputs_ = std::move(a.outputs);
  return {};
}

expected<void> resident::capture_copying(std::span<const tensor_view> inputs, const std::string& why) {
  std::vector<tensor_view> staged(inputs.begin(), inputs.end());
  for (auto& view : staged) {
    void* const block = arena_.allocate(static_cast<std::size_t>(view.type.storage_bytes()));
    if (block == nullptr) return fail(errc::out_of_memory, "out of memory: the graph's copies of its inputs");
    copies_.push_back(block);
    view.data = block;
  }
  CUDAL1_TRY(capture_result a, capture_once(staged));
  held_ = std::move(a.held);
  captured_outputs_ = std::move(a.outputs);
  auto made = as_value([&] { return std::make_unique<rebound_graph>(std::move(a.graph)); });
  if (!made) {
    arena_.give_back(held_);
    return tl::unexpected<error>(made.error());
  }
  graph_ = std::move(*made);
  notes_ = {fmt::format("graph: its inputs are copied in before each call: {}", why)};
  return {};
}

// Runs the program once outside of a capture, so that libraries load their kernels, choose their algorithms and make
// their workspaces. Not repeated for other weights or when the program is loaded again.
expected<void> resident::run_before(std::span<const tensor_view> inputs) {
  if (known_->has_run) return {};
  CUDAL1_CHECK(program_->call(inputs));
  CUDAL1_CUDA(cudaStreamSynchronize(stream_));
  program_->release();
  known_->has_run = true;
  return {};
}

expected<void> resident::capture(std::span<const tensor_view> first, std::span<const tensor_view> second) {
  CUDAL1_CHECK(run_before(first));
  if (!wants_graph_) return {};
  if (auto bound = bind(first, second); !bound) {
    drop_graph();
    return bound;
  }
  return {};
}

void resident::prepare() {
  if (graph_) arena_.use(held_);
}

expected<void> resident::call_graph(std::span<const tensor_view> inputs) {
  now_.clear();
  outputs_ = captured_outputs_;
  if (!copies_.empty()) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      CUDAL1_CUDA(cudaMemcpyAsync(copies_[i], inputs[i].data, static_cast<std::size_t>(inputs[i].type.storage_bytes()),
                                  cudaMemcpyDeviceToDevice, stream_));
    return as_value([&] { graph_->launch(now_, stream_); });
  }
  for (const auto& input : inputs)
    now_.push_back(reinterpret_cast<uintptr_t>(input.data));
  for (std::size_t m = 0; m < blocks_.size(); ++m) {
    const auto& memory = bindings_.memories()[m];
    if (memory.range == graph_bindings::none) continue;
    if (memory.bound && (blocks_[m] = arena_.allocate(memory.bytes)) == nullptr)
      return fail(errc::out_of_memory, "out of memory: an output of the graph");
    now_.push_back(memory.bound ? reinterpret_cast<uintptr_t>(blocks_[m]) : memory.at);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const auto& place = bindings_.outputs()[i];
    void* const base = place.input != graph_bindings::none ? inputs[place.input].data : blocks_[place.memory];
    if (base != nullptr) outputs_[i].data = static_cast<std::byte*>(base) + place.offset;
  }
  return as_value([&] { graph_->launch(now_, stream_); });
}

expected<void> resident::call(std::span<const tensor_view> inputs) {
  if (graph_) return call_graph(inputs);
  CUDAL1_CHECK(program_->call(inputs));
  outputs_.assign(program_->outputs().begin(), program_->outputs().end());
  return {};
}

}  // namespace cudal1
