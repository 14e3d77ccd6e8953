#include <ATen/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

namespace {

uintptr_t address_of(const at::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.const_data_ptr());
}
uintptr_t address_of(const at::Storage& s) {
  return reinterpret_cast<uintptr_t>(s.data());
}

// Captures the program and replays it. Intermediate values live in memory of the graph's own; outputs are new tensors
// in each call. An input or output that no kernel takes a pointer to is copied. If re-binding gives wrong outputs, all
// are copied; if that fails as well, the steps are launched one by one, with a warning.
class graph_runner {
 public:
  ~graph_runner() { drop(); }

  // Weights are constants of the graph, so other weights need another graph.
  void drop() {
    if (graph_) (void)cudaDeviceSynchronize();
    graph_.reset();
    memory_.reset();
    inputs_.clear();
    outputs_.clear();
    memories_.clear();
    bindings_ = {};
  }

  // False if the steps must be launched one by one.
  bool call(values& v, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (stream != nullptr) {  // the default stream is never captured
      cudaStreamCaptureStatus capturing{};
      check_runtime(cudaStreamIsCapturing(stream, &capturing), "cudaStreamIsCapturing");
      if (capturing != cudaStreamCaptureStatusNone) return false;  // the caller captures the steps in a graph
    }
    if (!graph_ && !given_up_) capture(v, inputs);
    if (!graph_) return false;
    replay(inputs, outputs, stream);
    return true;
  }

  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct input {
    at::Tensor staged;  // where it is copied to before each launch; undefined: re-bound
  };
  // What an output's memory is allocated as in each call.
  struct memory {
    at::Tensor captured;  // where it was captured; it is copied out of there unless it is bound
    std::vector<int64_t> sizes;
    at::ScalarType dtype = at::kFloat;
  };
  struct output {
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;  // elements, from its memory's first, or the input's
  };
  struct captured {
    std::unique_ptr<apart_memory> memory;
    captured_graph graph;
    std::vector<at::Tensor> outputs;
  };

  void capture(values& v, const std::vector<at::Tensor>& inputs) {
    const auto device = v.device.index();
    if (!stream_ || stream_->device_index() != device) {
      cudaStream_t raw = nullptr;
      check_runtime(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      stream_ = c10::cuda::getStreamFromExternal(raw, device);  // never destroyed: libraries keep a workspace for it
    }
    check_runtime(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()), "cudaStreamSynchronize");
    notes_.clear();
    std::string why;
    {
      const c10::cuda::CUDAStreamGuard on(*stream_);
      for (const binding how : {binding::pointers, binding::copies}) {
        try {
          make(v, inputs, how);
          break;
        } catch (const c10::Error& e) {
          why = e.what_without_backtrace();
        } catch (const std::exception& e) {
          why = e.what();
        }
        (void)cudaGetLastError();
        v.apart = nullptr;
        drop();
        if (how == binding::pointers) notes_.push_back("graph: its inputs and outputs are copied: " + why);
      }
      (void)cudaStreamSynchronize(*stream_);
    }
    c10::cuda::CUDACachingAllocator::emptyCache();  // frees what was only needed to find the pointers
    if (graph_) return;
    given_up_ = true;
    notes_ = {"graph: the steps are launched one by one: " + why};
    warn(name_of(v) + ": the program cannot run as one CUDA graph (" + why +
         "); its steps are launched one by one, which takes longer");
  }

  static std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> copies;
    for (const auto& t : tensors)
      copies.push_back(allocated(t.sizes(), t.strides(), t.scalar_type(), t.device()).copy_(t));
    return copies;
  }

  bool is_ours(const values& v, cudaStream_t s) const {
#ifdef PROGRAM_LANES
    if (v.lanes != nullptr && v.lanes->owns(s)) return true;
#endif
    (void)v;
    return s == stream_->stream();
  }

  std::unique_ptr<apart_memory> memory_for(values& v) {
    return std::make_unique<apart_memory>(v.device.index(), [this, &v](cudaStream_t s) { return is_ours(v, s); });
  }

  captured capture_once(values& v, const std::vector<at::Tensor>& inputs, std::size_t apart) {
    captured result;
    result.memory = memory_for(v);
    result.memory->begin(apart);
    v.apart = result.memory.get();
    result.graph = captured_graph::of(*stream_, [&] { result.outputs = run(v, inputs); });
    v.apart = nullptr;
    result.memory->end();
    return result;
  }

  // How a call's tensors get to the kernels: by pointers that are set in each call, or by copies.
  enum class binding { pointers, copies };

  void make(values& v, const std::vector<at::Tensor>& inputs, binding how) {
    constexpr std::size_t most_apart = 64;
    auto first = copies_of(inputs);
    // A run outside of a capture: libraries load their kernels, choose their algorithms and make their workspaces. The
    // graph's outputs are compared with its outputs.
    std::vector<at::Tensor> expected;
    std::size_t apart = 0;
    {
      auto counter = memory_for(v);
      counter->begin_counting();
      v.apart = counter.get();
      expected = run(v, first);
      v.apart = nullptr;
      apart = std::min(counter->count(), most_apart);
    }
    for (auto& t : expected)
      for (const auto& in : first)
        if (t.storage().is_alias_of(in.storage())) t = t.clone();
    check_runtime(cudaStreamSynchronize(*stream_), "cudaStreamSynchronize");
    captured a = capture_once(v, first, apart);
    if (how == binding::pointers) {
      const auto second = copies_of(inputs);
      const captured b = capture_once(v, second, apart);
      bind(v, std::move(a), b, first, second);
    } else {
      bind_nothing(std::move(a), first);
    }
    // Overwrite the inputs of the capture, so that the comparison shows whether the graph still reads them.
    for (const auto& t : first)
      t.zero_();
    copies_ =
        std::any_of(inputs_.begin(), inputs_.end(), [](const input& i) { return i.staged.defined(); }) ||
        std::any_of(bindings_.memories().begin(), bindings_.memories().end(), [](const auto& m) { return !m.bound; });
    std::vector<at::Tensor> got;
    replay(inputs, got, *stream_);
    compare(got, expected);
  }

  static captured_place place_of(const at::Tensor& t) {
    return {address_of(t), address_of(t.storage()), t.storage().nbytes()};
  }
  static std::vector<captured_place> places_of(const std::vector<at::Tensor>& tensors) {
    std::vector<captured_place> places;
    for (const auto& t : tensors)
      places.push_back(place_of(t));
    return places;
  }

  void bind(const values& v, captured a, const captured& b, const std::vector<at::Tensor>& first,
            const std::vector<at::Tensor>& second) {
    bindings_ = graph_bindings(places_of(first), places_of(a.outputs), places_of(second), places_of(b.outputs));
    auto ranges = bindings_.ranges();
    if (a.memory->overflown() || b.memory->overflown())  // a temporary value may share addresses with an output
      for (auto i = first.size(); i < ranges.size(); ++i)
        ranges[i].bytes = 0;
    graph_ = std::make_unique<rebound_graph>(std::move(a.graph), &b.graph, std::move(ranges));
    bindings_.note_found(*graph_);
    inputs_.resize(first.size());
    for (const auto i : c10::irange(first.size()))
      if (!graph_->found(i)) {
        inputs_[i].staged = first[i];
        notes_.push_back("graph: no kernel takes a pointer to input " + input_name(v, i) +
                         ", which is copied in each call");
      }
    for (const auto& m : bindings_.memories())
      if (!m.bound) notes_.push_back("graph: an output is copied out of the graph's memory in each call");
    keep_outputs(std::move(a));
  }

  void bind_nothing(captured a, const std::vector<at::Tensor>& first) {
    bindings_ = graph_bindings(places_of(first), places_of(a.outputs));
    graph_ = std::make_unique<rebound_graph>(std::move(a.graph));
    for (const auto& t : first)
      inputs_.push_back({t});
    keep_outputs(std::move(a));
  }

  // The forms of outputs and of their memory.
  void keep_outputs(captured a) {
    memory_ = std::move(a.memory);
    for (const auto i : c10::irange(a.outputs.size())) {
      const auto& t = a.outputs[i];
      const auto offset = bindings_.outputs()[i].offset / t.element_size();
      outputs_.push_back({t.sizes().vec(), t.strides().vec(), static_cast<int64_t>(offset)});
    }
    for (const auto& known : bindings_.memories()) {
      const auto& t = a.outputs[known.output];
      const auto elements = static_cast<int64_t>(known.bytes / t.element_size());
      const bool whole = t.storage_offset() == 0 && t.is_contiguous() && t.numel() == elements;
      memories_.push_back({t, whole ? t.sizes().vec() : std::vector<int64_t>{elements}, t.scalar_type()});
    }
  }

  void replay(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs, cudaStream_t stream) {
    if (copies_ && done_) done_->hold_back(stream);
    give(inputs, stream);
    graph_->launch(now_, stream);
    for (const auto i : c10::irange(memories_.size()))
      if (const auto& m = bindings_.memories()[i]; !m.bound)
        copy(fresh_[i].mutable_data_ptr(), memories_[i].captured.storage().data(), m.bytes, stream);
    if (copies_) {
      if (!done_) done_.emplace();
      done_->record(stream);
    }
    for (const auto i : c10::irange(outputs_.size())) {
      const auto& place = bindings_.outputs()[i];
      const auto& o = outputs_[i];
      if (place.input != graph_bindings::none) {
        const auto& in = inputs[place.input];
        outputs.push_back(in.as_strided(o.sizes, o.strides, in.storage_offset() + o.offset));
      } else if (const auto& t = fresh_[place.memory]; t.sizes() == o.sizes && t.strides() == o.strides) {
        outputs.push_back(t);
      } else {
        outputs.push_back(t.as_strided(o.sizes, o.strides, o.offset));
      }
    }
    fresh_.clear();
  }

  // Where the call's inputs and the new memory of its outputs are; inputs that cannot be bound are copied in.
  void give(const std::vector<at::Tensor>& inputs, cudaStream_t stream) {
    now_.assign(bindings_.ranges().size(), 0);
    for (const auto i : c10::irange(inputs.size())) {
      if (const auto& staged = inputs_[i].staged; staged.defined())
        copy(staged.mutable_data_ptr(), inputs[i].const_data_ptr(), staged.storage().nbytes(), stream);
      else
        now_[i] = address_of(inputs[i]);
    }
    fresh_.clear();  // of a call that failed
    // As at::detail::empty_cuda does, without looking for the device, which is the current one.
    c10::Allocator* const allocator = c10::cuda::CUDACachingAllocator::get();
    for (const auto i : c10::irange(memories_.size())) {
      fresh_.emplace_back(at::detail::empty_generic(memories_[i].sizes, allocator,
                                                    c10::DispatchKeySet(c10::DispatchKey::CUDA), memories_[i].dtype,
                                                    std::nullopt));
      if (const auto& m = bindings_.memories()[i]; m.range != graph_bindings::none)
        now_[m.range] = m.bound ? address_of(fresh_.back()) : m.at;
    }
  }

  static void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    check_runtime(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  }

  // Atomics add in another order each time, so the outputs need not have the same bits.
  void compare(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) const {
    constexpr double tolerance = 1e-2;
    check_runtime(cudaStreamSynchronize(*stream_), "cudaStreamSynchronize");
    for (const auto i : c10::irange(got.size())) {
      const auto a = got[i].to(at::kFloat), b = expected[i].to(at::kFloat);
      const double size = b.nan_to_num(0, 0, 0).abs().mean().item<double>();
      if (!a.allclose(b, tolerance, tolerance * size, true))
        fail("the graph's outputs differ from those of the steps launched one by one");
    }
  }

  std::optional<c10::cuda::CUDAStream> stream_;  // of the captures
  std::unique_ptr<rebound_graph> graph_;
  std::unique_ptr<apart_memory> memory_;
  std::vector<input> inputs_;
  std::vector<memory> memories_;
  std::vector<output> outputs_;
  graph_bindings bindings_;
  bool copies_ = false;  // something is copied in each call
  std::vector<uintptr_t> now_;
  std::vector<at::Tensor> fresh_;    // empty between calls
  std::optional<order_event> done_;  // the last launch, if something is copied
  std::vector<std::string> notes_;
  bool given_up_ = false;
};

}  // namespace
