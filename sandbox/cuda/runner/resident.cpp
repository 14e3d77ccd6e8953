#include "sandbox/cuda/runner/resident.hpp"

#include <algorithm>

#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "sandbox/cuda/runtime/lane_streams.hpp"

namespace cudal1 {
namespace {

std::vector<tensor_type> types_of(const std::vector<tensor_declaration>& declarations) {
  std::vector<tensor_type> types;
  for (const auto& d : declarations)
    types.push_back(d.type);
  return types;
}

bool overlap(const tensor_view& a, const tensor_view& b) {
  const auto* p = static_cast<const std::byte*>(a.data);
  const auto* q = static_cast<const std::byte*>(b.data);
  return p < q + b.type.storage_bytes() && q < p + a.type.storage_bytes();
}

}  // namespace

expected<std::unique_ptr<resident>> resident::load(std::shared_ptr<known_program> known, std::string_view object,
                                                   int device, device_arena& arena, cudaStream_t stream) {
  std::unique_ptr<resident> result(new resident(std::move(known), arena, stream));
  const checked_program& program = result->known_->program;
  const auto& text = program.text;
  result->input_types_ = types_of(text.inputs);
  result->weight_types_ = types_of(text.weights);
  for (const auto& input : text.inputs)
    result->input_names_.push_back(input.name);
  result->wants_graph_ = text.how.graph;
  if (!object.empty()) {
    CUDAL1_TRY(result->kernels_, load_cubin(object, device));
  }
  if (text.how.lanes > 1) result->lanes_ = make_cuda_lanes(device, arena);
  CUDAL1_TRY(result->program_, interpreter::load(program, result->kernels_.get(),
                                                 {.threads = 1, .cuda_device = device, .lanes = result->lanes_.get()}));
  return result;
}

resident::~resident() {
  drop_graph();
}

expected<void> resident::set_weights(std::span<const tensor_view> weights) {
  drop_graph();
  return program_->set_weights(weights);
}

void resident::drop_outputs() {
  for (auto& bound : bound_outputs_)
    arena_.release(std::exchange(bound.block, nullptr));
  outputs_.clear();
}

void resident::drop_graph() {
  drop_outputs();
  for (void* const copy : copies_)
    arena_.release(copy);
  copies_.clear();
  bound_outputs_.clear();
  passed_.clear();
  captured_outputs_.clear();
  if (graph_) arena_.give_back(held_);
  graph_.reset();
  held_ = {};
}

void resident::release() {
  drop_outputs();
  program_->release();
}

expected<resident::capture_result> resident::capture_once(std::span<const tensor_view> inputs) {
  arena_.begin_capture(known_->output_ordinals);
  CUDAL1_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  const auto called = program_->call(inputs);
  std::vector<tensor_view> outputs(program_->outputs().begin(), program_->outputs().end());
  cudaGraph_t raw = nullptr;
  const auto ended = cudaStreamEndCapture(stream_, &raw);
  captured_graph graph(raw);
  program_->release();
  auto held = arena_.end_capture();
  if (!called || ended != cudaSuccess) {
    arena_.give_back(held);
    (void)cudaGetLastError();
    return fail(errc::variant_fault, "the program cannot be captured as one graph: {}",
                called ? cudaGetErrorString(ended) : called.error().message);
  }
  return capture_result{std::move(graph), std::move(outputs), std::move(held)};
}

// Two captures at different addresses show where the pointers are.
expected<void> resident::bind(std::span<const tensor_view> first, std::span<const tensor_view> second) {
  CUDAL1_TRY(capture_result a, capture_once(first));
  auto b = capture_once(second);
  if (!b) {
    arena_.give_back(a.held);
    return tl::unexpected<error>(b.error());
  }
  std::vector<bound_range> ranges;
  for (std::size_t i = 0; i < first.size(); ++i)
    ranges.push_back({input_names_[i], static_cast<const std::byte*>(first[i].data),
                      static_cast<const std::byte*>(second[i].data), first[i].type.storage_bytes()});
  for (std::size_t i = 0; i < a.outputs.size(); ++i) {
    const auto& mine = a.outputs[i];
    for (std::size_t in = 0; in < first.size(); ++in)
      if (overlap(mine, first[in]))
        passed_.push_back(
            {i, in, static_cast<const std::byte*>(mine.data) - static_cast<const std::byte*>(first[in].data)});
    const bool fresh = arena_.owns(mine.data) && mine.data != b->outputs[i].data;
    const bool alone = std::ranges::none_of(
        a.outputs, [&](const tensor_view& other) { return &other != &mine && overlap(mine, other); });
    if (!fresh || !alone) continue;
    bound_outputs_.push_back({i});
    ranges.push_back({"an output", static_cast<const std::byte*>(mine.data),
                      static_cast<const std::byte*>(b->outputs[i].data), mine.type.storage_bytes()});
  }
  auto made = rebound_graph::create(std::move(a.graph), &b->graph, std::move(ranges));
  arena_.give_back(b->held);
  // An output that no node points to stays where it was captured; an input must be copied to where it is read.
  std::string why = made ? "" : made.error().message;
  if (made)
    for (const std::size_t r : (*made)->unbound())
      if (r < first.size()) why = fmt::format("no kernel takes a pointer to \"{}\"", input_names_[r]);
  if (!why.empty()) {
    arena_.give_back(a.held);
    bound_outputs_.clear();
    passed_.clear();
    if (!made && made.error().code != errc::unsupported) return tl::unexpected<error>(made.error());
    return capture_copying(first, why);
  }
  for (const std::size_t r : (*made)->unbound())
    bound_outputs_[r - first.size()].fixed = true;
  graph_ = std::move(*made);
  held_ = std::move(a.held);
  captured_outputs_ = std::move(a.outputs);
  return {};
}

expected<void> resident::capture_copying(std::span<const tensor_view> inputs, const std::string& why) {
  std::vector<tensor_view> staged(inputs.begin(), inputs.end());
  for (auto& view : staged) {
    void* const block = arena_.allocate(static_cast<std::size_t>(view.type.storage_bytes()));
    if (block == nullptr) return fail(errc::variant_fault, "out of memory: the graph's copies of its inputs");
    copies_.push_back(block);
    view.data = block;
  }
  CUDAL1_TRY(capture_result a, capture_once(staged));
  held_ = std::move(a.held);
  captured_outputs_ = std::move(a.outputs);
  auto made = rebound_graph::create(std::move(a.graph), nullptr, {});
  if (!made) {
    arena_.give_back(held_);
    return tl::unexpected<error>(made.error());
  }
  graph_ = std::move(*made);
  notes_ = {fmt::format("graph: its inputs are copied in before each call: {}", why)};
  return {};
}

// Once outside of a capture: libraries load their kernels, choose their algorithms and make their workspaces. Then once
// to see which blocks the outputs are. With other weights, or loaded again, it is the same.
expected<void> resident::run_before(std::span<const tensor_view> inputs) {
  if (known_->has_run) return {};
  CUDAL1_CHECK(program_->call(inputs));
  CUDAL1_CUDA(cudaStreamSynchronize(stream_));
  program_->release();
  if (wants_graph_) {
    arena_.count_from_here();
    CUDAL1_CHECK(program_->call(inputs));
    CUDAL1_CUDA(cudaStreamSynchronize(stream_));
    for (const auto& output : program_->outputs())
      if (const auto ordinal = arena_.ordinal_of(output.data)) known_->output_ordinals.insert(*ordinal);
    program_->release();
  }
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
    return graph_->launch(now_, stream_);
  }
  for (const auto& input : inputs)
    now_.push_back(static_cast<std::byte*>(input.data));
  for (auto& bound : bound_outputs_) {
    auto& view = outputs_[bound.output];
    if (bound.fixed) {
      now_.push_back(static_cast<std::byte*>(view.data));
      continue;
    }
    bound.block = arena_.allocate(static_cast<std::size_t>(view.type.storage_bytes()));
    if (bound.block == nullptr) return fail(errc::variant_fault, "out of memory: an output of the graph");
    view.data = bound.block;
    now_.push_back(static_cast<std::byte*>(bound.block));
  }
  for (const auto& p : passed_)
    outputs_[p.output].data = static_cast<std::byte*>(inputs[p.input].data) + p.offset;
  return graph_->launch(now_, stream_);
}

expected<void> resident::call(std::span<const tensor_view> inputs) {
  if (graph_) return call_graph(inputs);
  CUDAL1_CHECK(program_->call(inputs));
  outputs_.assign(program_->outputs().begin(), program_->outputs().end());
  return {};
}

}  // namespace cudal1
