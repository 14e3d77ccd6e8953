namespace {

uintptr_t address_of(const at::Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.const_data_ptr());
}
uintptr_t address_of(const at::Storage& s) {
  return reinterpret_cast<uintptr_t>(s.data());
}

// Captures the program and replays it. Intermediate values live in memory of the graph's own; outputs are new tensors
// in each call. An input that no kernel takes a pointer to, and an output that none does, is copied; where re-binding
// does not give the right answer all are; where no capture does, the steps are launched one by one, with a warning.
class graph_runner {
 public:
  ~graph_runner() { drop(); }

  // Weights are constants of the graph: another one, another graph.
  void drop() {
    if (graph_) (void)cudaDeviceSynchronize();
    graph_.reset();
    memory_.reset();
    inputs_.clear();
    outputs_.clear();
    memories_.clear();
  }

  // False where the steps must be launched one by one.
  bool call(values& v, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (stream != nullptr) {  // the default stream is never captured
      cudaStreamCaptureStatus capturing{};
      graph_check(cudaStreamIsCapturing(stream, &capturing), "cudaStreamIsCapturing");
      if (capturing != cudaStreamCaptureStatusNone) return false;  // somebody's own graph takes the steps
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
  struct memory {         // of outputs
    at::Tensor captured;  // where it was captured; it is copied out of there unless `bound`
    bool bound = false;
    std::size_t range = 0;
    std::vector<int64_t> sizes;  // of what is allocated in each call
    at::ScalarType dtype = at::kFloat;
  };
  struct output {
    std::size_t memory = 0;  // of memories_; or, of an output that is a view of an input:
    int input = -1;
    int64_t offset = 0;  // elements; of a view of an input, from the input's first
    std::vector<int64_t> sizes, strides;
  };
  struct captured {
    std::unique_ptr<apart_memory> memory;
    cudaGraph_t graph = nullptr;
    std::vector<at::Tensor> outputs;
    captured() = default;
    captured(captured&& other) noexcept
        : memory(std::move(other.memory)),
          graph(std::exchange(other.graph, nullptr)),
          outputs(std::move(other.outputs)) {}
    captured& operator=(captured&&) = delete;
    ~captured() {
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
    }
  };

  void capture(values& v, const std::vector<at::Tensor>& inputs) {
    const auto device = v.device.index();
    if (!stream_ || stream_->device_index() != device) {
      cudaStream_t raw = nullptr;
      graph_check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
      stream_ = c10::cuda::getStreamFromExternal(raw, device);  // stays: libraries keep a workspace for it
    }
    graph_check(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()), "cudaStreamSynchronize");
    notes_.clear();
    std::string why;
    {
      const c10::cuda::CUDAStreamGuard on(*stream_);
      for (const bool rebinding : {true, false}) {
        try {
          make(v, inputs, rebinding);
          break;
        } catch (const c10::Error& e) {
          why = e.what_without_backtrace();
        } catch (const std::exception& e) {
          why = e.what();
        }
        (void)cudaGetLastError();
        v.apart = nullptr;
        drop();
        if (rebinding) notes_.push_back("graph: its inputs and outputs are copied: " + why);
      }
      (void)cudaStreamSynchronize(*stream_);
    }
    c10::cuda::CUDACachingAllocator::emptyCache();  // of what was only needed to find the pointers
    if (graph_) return;
    given_up_ = true;
    notes_ = {"graph: the steps are launched one by one: " + why};
    warn(std::string(program_name) + ": the program cannot run as one CUDA graph (" + why +
         "); its steps are launched one by one, which takes longer");
  }

  static std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> copies;
    for (const auto& t : tensors)
      copies.push_back(at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t));
    return copies;
  }

  bool is_ours(const values& v, cudaStream_t s) const {
#ifdef PROGRAM_LANES
    if (v.lanes->owns(s)) return true;
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
    graph_check(cudaStreamBeginCapture(*stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    std::exception_ptr problem;
    try {
      result.outputs = run(v, inputs);
    } catch (...) {
      problem = std::current_exception();
    }
    const auto ended = cudaStreamEndCapture(*stream_, &result.graph);
    v.apart = nullptr;
    result.memory->end();
    if (problem) std::rethrow_exception(problem);
    graph_check(ended, "cudaStreamEndCapture");
    return result;
  }

  void make(values& v, const std::vector<at::Tensor>& inputs, bool rebinding) {
    constexpr std::size_t most_apart = 64;
    auto first = copies_of(inputs);
    // Outside of a capture: libraries load their kernels, choose their algorithms and make their workspaces. The answer
    // is what the graph's is compared with.
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
    graph_check(cudaStreamSynchronize(*stream_), "cudaStreamSynchronize");
    captured a = capture_once(v, first, apart);
    if (rebinding) {
      const auto second = copies_of(inputs);
      const captured b = capture_once(v, second, apart);
      bind(std::move(a), b, first, second);
    } else {
      bind_nothing(std::move(a), first);
    }
    // The inputs of the capture are overwritten: what still reads them is found out now.
    for (const auto& t : first)
      t.zero_();
    copies_ = std::any_of(inputs_.begin(), inputs_.end(), [](const input& i) { return i.staged.defined(); }) ||
              std::any_of(memories_.begin(), memories_.end(), [](const memory& m) { return !m.bound; });
    std::vector<at::Tensor> got;
    replay(inputs, got, *stream_);
    compare(got, expected);
  }

  void bind(captured a, const captured& b, const std::vector<at::Tensor>& first,
            const std::vector<at::Tensor>& second) {
    std::vector<bound_range> ranges;
    for (const auto i : c10::irange(first.size()))
      ranges.push_back({address_of(first[i]), address_of(second[i]), first[i].storage().nbytes()});
    inputs_.resize(first.size());
    for (const auto i : c10::irange(a.outputs.size())) {
      const auto& mine = a.outputs[i];
      output o = described(mine);
      for (const auto in : c10::irange(first.size()))
        if (mine.storage().is_alias_of(first[in].storage())) o.input = static_cast<int>(in);
      if (o.input < 0 && find_memory(o, mine)) {
        auto& m = memories_[o.memory];
        const auto &here = mine.storage(), &there = b.outputs[i].storage();
        TORCH_CHECK(here.nbytes() == there.nbytes() && address_of(here) != address_of(there),
                    "two captures have an output at one place");
        m.bound = !a.memory->overflown() && !b.memory->overflown();
        m.range = ranges.size();
        ranges.push_back({address_of(here), address_of(there), here.nbytes()});
      }
      outputs_.push_back(std::move(o));
    }
    ranges_ = ranges.size();
    std::vector<bound_range> wanted = ranges;
    for (const auto& m : memories_)
      if (!m.bound) wanted[m.range].bytes = 0;  // stays where it was captured
    graph_ = std::make_unique<rebound_graph>(std::exchange(a.graph, nullptr), b.graph, std::move(wanted));
    memory_ = std::move(a.memory);
    for (const auto i : c10::irange(first.size()))
      if (!graph_->found(i)) {
        inputs_[i].staged = first[i];
        notes_.push_back("graph: no kernel takes a pointer to input " + std::string(input_types()[i].name) +
                         ", which is copied in each call");
      }
    for (auto& m : memories_) {
      m.bound = m.bound && graph_->found(m.range);
      if (!m.bound) notes_.push_back("graph: an output is copied out of the graph's memory in each call");
    }
  }

  void bind_nothing(captured a, const std::vector<at::Tensor>& first) {
    for (const auto& t : first)
      inputs_.push_back({t});
    for (const auto& mine : a.outputs) {
      output o = described(mine);
      for (const auto in : c10::irange(first.size()))
        if (mine.storage().is_alias_of(first[in].storage())) o.input = static_cast<int>(in);
      if (o.input < 0) find_memory(o, mine);
      outputs_.push_back(std::move(o));
    }
    ranges_ = 0;
    graph_ = std::make_unique<rebound_graph>(std::exchange(a.graph, nullptr), nullptr, std::vector<bound_range>());
    memory_ = std::move(a.memory);
  }

  static output described(const at::Tensor& t) {
    output o;
    o.offset = t.storage_offset();
    o.sizes = t.sizes().vec();
    o.strides = t.strides().vec();
    return o;
  }

  // Several outputs may share one memory. Whether it is a new one.
  bool find_memory(output& o, const at::Tensor& t) {
    for (o.memory = 0; o.memory < memories_.size(); ++o.memory)
      if (memories_[o.memory].captured.storage().is_alias_of(t.storage())) return false;
    memory m;
    m.captured = t;
    m.dtype = t.scalar_type();
    const auto elements = static_cast<int64_t>(t.storage().nbytes() / t.element_size());
    const bool whole = t.storage_offset() == 0 && t.is_contiguous() && t.numel() == elements;
    m.sizes = whole ? t.sizes().vec() : std::vector<int64_t>{elements};
    memories_.push_back(std::move(m));
    return true;
  }

  void replay(const std::vector<at::Tensor>& inputs, std::vector<at::Tensor>& outputs, cudaStream_t stream) {
    if (copies_ && done_ != nullptr) graph_check(cudaStreamWaitEvent(stream, done_, 0), "cudaStreamWaitEvent");
    now_.assign(ranges_, 0);
    for (const auto i : c10::irange(inputs.size())) {
      if (inputs_[i].staged.defined())
        copy(address_of(inputs_[i].staged), address_of(inputs[i]), inputs_[i].staged.storage().nbytes(), stream);
      else if (i < ranges_)
        now_[i] = address_of(inputs[i]);
    }
    const auto device = c10::cuda::current_device();
    fresh_.clear();  // of a call that failed
    for (const auto& m : memories_) {
      fresh_.emplace_back(at::detail::empty_cuda(m.sizes, m.dtype, at::Device(at::kCUDA, device), std::nullopt));
      if (m.bound) now_[m.range] = address_of(fresh_.back());
    }
    for (const auto& m : memories_)
      if (!m.bound && m.range < ranges_) now_[m.range] = address_of(m.captured.storage());
    graph_->launch(now_, stream);
    for (const auto i : c10::irange(memories_.size()))
      if (!memories_[i].bound)
        copy(address_of(fresh_[i]), address_of(memories_[i].captured.storage()),
             memories_[i].captured.storage().nbytes(), stream);
    if (copies_) {
      if (done_ == nullptr)
        graph_check(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
      graph_check(cudaEventRecord(done_, stream), "cudaEventRecord");
    }
    for (const auto& o : outputs_) {
      if (o.input >= 0) {
        const auto& in = inputs[static_cast<std::size_t>(o.input)];
        outputs.push_back(in.as_strided(o.sizes, o.strides, in.storage_offset() + o.offset));
      } else if (const auto& t = fresh_[o.memory]; t.sizes() == o.sizes && t.strides() == o.strides) {
        outputs.push_back(t);
      } else {
        outputs.push_back(t.as_strided(o.sizes, o.strides, o.offset));
      }
    }
    fresh_.clear();
  }

  static void copy(uintptr_t to, uintptr_t from, std::size_t bytes, cudaStream_t stream) {
    graph_check(cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes,
                                cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
  }

  // Atomics add in another order each time, so the answers need not be the same bits.
  void compare(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) const {
    constexpr double tolerance = 1e-2;
    graph_check(cudaStreamSynchronize(*stream_), "cudaStreamSynchronize");
    for (const auto i : c10::irange(got.size())) {
      const auto a = got[i].to(at::kFloat), b = expected[i].to(at::kFloat);
      const double size = b.nan_to_num(0, 0, 0).abs().mean().item<double>();
      TORCH_CHECK(a.allclose(b, tolerance, tolerance * size, true),
                  "the graph's answer is not that of the steps, one by one");
    }
  }

  std::optional<c10::cuda::CUDAStream> stream_;  // of the captures
  std::unique_ptr<rebound_graph> graph_;
  std::unique_ptr<apart_memory> memory_;
  std::vector<input> inputs_;
  std::vector<memory> memories_;
  std::vector<output> outputs_;
  std::size_t ranges_ = 0;
  bool copies_ = false;  // something is copied in each call
  std::vector<uintptr_t> now_;
  std::vector<at::Tensor> fresh_;  // empty between calls
  cudaEvent_t done_ = nullptr;     // the last launch, where something is copied
  std::vector<std::string> notes_;
  bool given_up_ = false;
};

}  // namespace
