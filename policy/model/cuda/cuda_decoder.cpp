// Decoding on a GPU: kernels of our own for what is one row of each answer, LibTorch's for products and for prompts'
// attention, and CUDA graphs. Everything is on one stream, so that a call sees what those before it did.
#include <cmath>
#include <cstring>
#include <deque>
#include <map>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "policy/model/cuda/cuda_decoder_library.hpp"
#include "policy/model/cuda/decoder_launches.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;

// In memory that the GPU reads while the host goes on.
template <class T>
Tensor pinned(const std::vector<T>& values, torch::ScalarType type) {
  auto out = torch::empty({static_cast<int64_t>(values.size() * sizeof(T) / c10::elementSize(type))},
                          torch::TensorOptions().dtype(type).pinned_memory(true));
  std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(T));
  return out;
}

class cuda_decoder final : public token_decoder {
 public:
  cuda_decoder(const paged_weights& weights, std::unique_ptr<decoder_launches> launches, int64_t slots, int64_t pages,
               int64_t page_tokens, bool graphs)
      : w_(weights),
        launches_(std::move(launches)),
        slots_(slots),
        page_tokens_(page_tokens),
        uses_graphs_(graphs),
        stream_(c10::cuda::getStreamFromPool(false, weights.device().index())) {
    const auto guard = on_stream();
    wait_for_default_stream();
    const auto& s = w_.shape;
    const auto whole = torch::TensorOptions().dtype(torch::kInt).device(w_.device());
    // Rows that fill a graph up belong to a slot without pages: all of its tokens are on page 0.
    tables_ = torch::zeros({slots + 1, (s.context + page_tokens - 1) / page_tokens}, whole);
    last_ = torch::zeros({slots + 1}, whole);
    cache_ = torch::zeros({s.layers, 2, pages, page_tokens, s.kv_heads, s.head_size()}, w_.embedding.options());
    for (int64_t i = 0; i < s.layers; ++i) {
      keys_.push_back(cache_.select(0, i).select(0, 0).flatten(0, 1));
      values_.push_back(cache_.select(0, i).select(0, 1).flatten(0, 1));
    }
    logits_ = torch::empty({bucket_of(slots), s.vocabulary}, w_.embedding.options());
    stream_.synchronize();
  }

  ~cuda_decoder() override {
    // Graphs and pinned memory must not go while the GPU uses them.
    (void)cudaStreamSynchronize(stream_.stream());
  }

  expected<void> set_pages(int32_t slot, std::size_t first, std::span<const int32_t> pages) override {
    return without_exceptions([&] {
      const auto count = static_cast<int64_t>(pages.size());
      if (count > 0)
        tables_.select(0, slot)
            .narrow(0, static_cast<int64_t>(first), count)
            .copy_(pinned(std::vector<int32_t>(pages.begin(), pages.end()), torch::kInt), /*non_blocking=*/true);
      auto& own = pages_[slot];
      own.resize(first);
      own.insert(own.end(), pages.begin(), pages.end());
    });
  }

  expected<void> copy_page(int32_t from, int32_t to) override {
    return without_exceptions([&] { cache_.select(2, to).copy_(cache_.select(2, from)); });
  }

  expected<void> read(std::span<const prompt_part> parts) override {
    return without_exceptions([&] { read_rows(parts); });
  }

  expected<void> advance(std::span<const decoded_row> decoded) override {
    return without_exceptions([&] {
      const int64_t count = bucket_of(static_cast<int64_t>(decoded.size()));
      std::vector<int32_t> rows;
      for (const auto& row : decoded) {
        rows.push_back(row.slot);
        rows.push_back(static_cast<int32_t>(row.position));
      }
      while (static_cast<int64_t>(rows.size()) < 2 * count) {
        rows.push_back(static_cast<int32_t>(slots_));
        rows.push_back(0);
      }
      auto& step = step_of(count);
      step.rows.copy_(pinned(rows, torch::kInt).view({count, 2}), /*non_blocking=*/true);
      if (step.graph) {
        step.graph->replay();
        ++graph_steps_;
      } else {
        decode(step);
      }
    });
  }

  expected<void> choose(std::span<const wanted_choice> choices) override {
    return without_exceptions([&] {
      using wanted_token = decoder_launches::wanted_token;
      std::vector<wanted_token> wanted;
      std::vector<uint32_t> masks;
      int32_t mask_count = 0;
      for (const auto& c : choices) {
        wanted_token w{.random = c.rule.random,
                       .row = static_cast<int32_t>(c.row),
                       .slot = c.slot,
                       .top_k = static_cast<int32_t>(std::min<int64_t>(c.rule.top_k, w_.shape.vocabulary)),
                       .temperature = static_cast<float>(c.rule.temperature),
                       .top_p = static_cast<float>(c.rule.top_p)};
        if (!c.allowed.empty()) {
          w.mask = mask_count++;
          masks.insert(masks.end(), c.allowed.begin(), c.allowed.end());
        }
        wanted.push_back(w);
      }
      const auto to_device = [&](const Tensor& t) { return t.to(w_.device(), /*non_blocking=*/true); };
      const auto wanted_there = to_device(pinned(wanted, torch::kByte));
      const auto masks_there = masks.empty() ? Tensor() : to_device(pinned(masks, torch::kInt));
      const auto count = static_cast<int64_t>(wanted.size());
      const auto bytes = count * static_cast<int64_t>(sizeof(decoder_launches::made_choice));
      const auto made = torch::empty({bytes}, wanted_there.options());
      launches_->choose(logits_, static_cast<const wanted_token*>(wanted_there.data_ptr()), count,
                        masks.empty() ? nullptr : static_cast<const uint32_t*>(masks_there.data_ptr()), last_,
                        static_cast<decoder_launches::made_choice*>(made.data_ptr()));
      auto& p = pending_.emplace_back();
      p.made = torch::empty({bytes}, torch::TensorOptions().dtype(torch::kByte).pinned_memory(true));
      p.made.copy_(made, /*non_blocking=*/true);
      p.is_there.record(stream_);
    });
  }

  expected<std::vector<chosen_token>> collect() override {
    if (pending_.empty()) return fail(errc::invalid_argument, "nothing was chosen");
    std::vector<chosen_token> out;
    const auto p = std::move(pending_.front());
    pending_.pop_front();
    CUDAL1_CHECK(without_exceptions([&] { p.is_there.synchronize(); }));
    std::vector<decoder_launches::made_choice> made(p.made.nbytes() / sizeof(decoder_launches::made_choice));
    std::memcpy(made.data(), p.made.data_ptr(), p.made.nbytes());
    for (const auto& m : made)
      out.push_back({m.token, m.log_probability});
    return out;
  }

  decoder_sizes sizes() const override { return {static_cast<int64_t>(cache_.nbytes()), w_.bytes(), graph_steps_}; }

 private:
  // A step of so many rows, with its own buffers.
  struct step_buffers {
    Tensor rows;          // int32 [rows, 2]
    Tensor parts, ready;  // as decoder_launches::attend
    int64_t splits = 1;
    std::unique_ptr<at::cuda::CUDAGraph> graph;  // none where graphs are not used
  };
  struct pending_choice {
    Tensor made;  // pinned
    at::cuda::CUDAEvent is_there;
  };

  c10::cuda::CUDAStreamGuard on_stream() const { return c10::cuda::CUDAStreamGuard(stream_); }

  template <class Work>
  expected<void> without_exceptions(const Work& work) const {
    const torch::NoGradGuard no_gradients;
    try {
      const auto guard = on_stream();
      work();
    } catch (const c10::OutOfMemoryError& e) {
      return fail(errc::out_of_memory, "generating on {}: {}", w_.device().str(), e.what_without_backtrace());
    } catch (const c10::Error& e) {
      return fail(errc::infrastructure, "generating on {}: {}", w_.device().str(), e.what_without_backtrace());
    } catch (const std::exception& e) {
      return fail(errc::infrastructure, "generating on {}: {}", w_.device().str(), e.what());
    }
    return {};
  }

  // Rows of a graph: powers of two.
  static int64_t bucket_of(int64_t rows) {
    int64_t out = 1;
    while (out < rows)
      out *= 2;
    return out;
  }

  step_buffers& step_of(int64_t count) {
    const auto found = steps_.find(count);
    return found != steps_.end() ? found->second : steps_.emplace(count, made_step(count)).first->second;
  }

  step_buffers made_step(int64_t count) {
    const auto& s = w_.shape;
    const auto whole = torch::TensorOptions().dtype(torch::kInt).device(w_.device());
    step_buffers step;
    // A row of the slot without pages each, for the run before the capture.
    step.rows = torch::tensor({static_cast<int32_t>(slots_), 0}, torch::kInt).repeat({count, 1}).to(w_.device());
    step.splits = launches_->splits(count, s.context);
    step.parts = torch::empty({count, s.heads, step.splits, s.head_size() + 2}, whole.dtype(torch::kFloat));
    step.ready = torch::zeros({count, s.heads}, whole);
    if (!uses_graphs_) return step;
    // What libraries allocate at first use must not be a part of the graph.
    decode(step);
    stream_.synchronize();
    step.graph = std::make_unique<at::cuda::CUDAGraph>();
    step.graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      decode(step);
    } catch (...) {
      try {
        step.graph->capture_end();
      } catch (const c10::Error&) {  // the first error says why
      }
      throw;
    }
    step.graph->capture_end();
    return step;
  }

  // Weights change on the default stream, which this one does not wait for by itself.
  void wait_for_default_stream() const {
    at::cuda::CUDAEvent now;
    now.record(c10::cuda::getDefaultCUDAStream(stream_.device_index()));
    now.block(stream_);
  }

  Tensor empty(int64_t rows, int64_t columns) const { return torch::empty({rows, columns}, w_.embedding.options()); }

  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& out) const {
    if (decoder_launches::has_linear(x.size(0), weight))
      launches_->linear(x, weight, bias, out);
    else if (bias.defined())
      at::addmm_out(out, bias, x, weight.t());
    else
      at::mm_out(out, x, weight.t());
  }

  // All layers, from the residual stream `x` to the states after the last norm. `attend` makes the rows' mixed values
  // of a layer from its queries.
  template <class Attend>
  Tensor layers(Tensor x, const Tensor& rows, const Attend& attend) const {
    const auto& s = w_.shape;
    const int64_t count = x.size(0);
    auto h = empty(count, s.width), delta = empty(count, s.width), q = empty(count, s.query_width()),
         mixed = empty(count, s.query_width()), qkv = empty(count, s.query_width() + 2 * s.kv_width()),
         gate_up = empty(count, 2 * s.hidden), gated = empty(count, s.hidden);
    launches_->add_norm(x, {}, w_.layers.front().attention_norm, h);
    for (std::size_t i = 0; i < w_.layers.size(); ++i) {
      const auto& l = w_.layers[i];
      linear(h, l.qkv, l.qkv_bias, qkv);
      launches_->rotate_and_store(qkv, rows, tables_, w_, l, q, keys_[i], values_[i]);
      attend(i, q, mixed);
      linear(mixed, l.o, {}, delta);
      launches_->add_norm(x, delta, l.mlp_norm, h);
      linear(h, l.gate_up, {}, gate_up);
      launches_->gated(gate_up, gated);
      linear(gated, l.down, {}, delta);
      launches_->add_norm(x, delta, i + 1 < w_.layers.size() ? w_.layers[i + 1].attention_norm : w_.norm, h);
    }
    return h;
  }

  void make_logits(const Tensor& states) {
    auto out = logits_.narrow(0, 0, states.size(0));
    linear(states, w_.last, {}, out);
  }

  void decode(step_buffers& step) {
    auto x = empty(step.rows.size(0), w_.shape.width);
    launches_->embed(step.rows, last_, w_.embedding, x);
    make_logits(layers(x, step.rows, [&](std::size_t i, const Tensor& q, Tensor& mixed) {
      launches_->attend(q, keys_[i], values_[i], step.rows, tables_, mixed, step.parts, step.ready, step.splits);
    }));
  }

  void read_rows(std::span<const prompt_part> parts) {
    wait_for_default_stream();
    const auto& s = w_.shape;
    std::vector<int32_t> rows, first_rows = {0}, first_keys = {0};
    std::vector<int64_t> tokens, places, last;
    int64_t most_rows = 0, most_keys = 0;
    for (const auto& part : parts) {
      const auto count = static_cast<int64_t>(part.tokens.size()), keys = part.first + count;
      const auto& own = pages_.at(part.slot);
      for (int64_t i = 0; i < keys; ++i)
        places.push_back(own[static_cast<std::size_t>(i / page_tokens_)] * page_tokens_ + i % page_tokens_);
      for (int64_t i = 0; i < count; ++i) {
        rows.push_back(part.slot);
        rows.push_back(static_cast<int32_t>(part.first + i));
        tokens.push_back(part.tokens[static_cast<std::size_t>(i)]);
      }
      first_rows.push_back(first_rows.back() + static_cast<int32_t>(count));
      first_keys.push_back(first_keys.back() + static_cast<int32_t>(keys));
      most_rows = std::max(most_rows, count);
      most_keys = std::max(most_keys, keys);
      if (part.is_last) last.push_back(first_rows.back() - 1);
    }
    const auto there = [&](const Tensor& t) { return t.to(w_.device(), /*non_blocking=*/true); };
    const auto rows_there = there(pinned(rows, torch::kInt).view({-1, 2}));
    const auto places_there = there(pinned(places, torch::kLong));
    const auto first_rows_there = there(pinned(first_rows, torch::kInt));
    const auto first_keys_there = there(pinned(first_keys, torch::kInt));
    const auto x = torch::embedding(w_.embedding, there(pinned(tokens, torch::kLong)));
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_size()));
    const auto states = layers(x, rows_there, [&](std::size_t i, const Tensor& q, Tensor& mixed) {
      const auto queries = q.view({-1, s.heads, s.head_size()});
      const auto keys = keys_[i].index_select(0, places_there), values = values_[i].index_select(0, places_there);
      if (w_.type() != torch::kFloat) {
        // Of texts one after the other; a query sees the keys up to its own, counted from the end.
        const auto made = at::_flash_attention_forward(queries, keys, values, first_rows_there, first_keys_there,
                                                       most_rows, most_keys, 0, /*is_causal=*/true, false, scale);
        mixed = std::get<0>(made).reshape({-1, s.query_width()});
        return;
      }
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const int64_t row = first_rows[p], count = first_rows[p + 1] - row, key = first_keys[p],
                      seen = first_keys[p + 1] - key;
        const auto heads_first = [](const Tensor& t) { return t.transpose(0, 1).unsqueeze(0); };
        const auto visible = torch::ones({count, seen}, places_there.options().dtype(torch::kBool)).tril(seen - count);
        const auto made = at::scaled_dot_product_attention(
            heads_first(queries.narrow(0, row, count)), heads_first(keys.narrow(0, key, seen)),
            heads_first(values.narrow(0, key, seen)), visible, 0, /*is_causal=*/false, scale, /*enable_gqa=*/true);
        mixed.narrow(0, row, count).copy_(made.squeeze(0).transpose(0, 1).reshape({count, s.query_width()}));
      }
    });
    if (!last.empty()) make_logits(states.index_select(0, there(pinned(last, torch::kLong))));
  }

  const paged_weights w_;
  const std::unique_ptr<decoder_launches> launches_;
  const int64_t slots_, page_tokens_;
  const bool uses_graphs_;
  const c10::cuda::CUDAStream stream_;
  Tensor cache_;                                   // [layers, 2, pages, page tokens, kv heads, head size]
  std::vector<Tensor> keys_, values_;              // of each layer, parts of it: [places, kv heads, head size]
  Tensor tables_;                                  // pages by slot
  Tensor last_;                                    // chosen tokens by slot
  Tensor logits_;                                  // of the last rows: [rows, vocabulary]
  std::map<int32_t, std::vector<int32_t>> pages_;  // by slot, as tables_
  std::map<int64_t, step_buffers> steps_;          // by rows
  std::deque<pending_choice> pending_;
  int64_t graph_steps_ = 0;
};

expected<std::unique_ptr<token_decoder>> make_cuda_decoder(const paged_weights& weights, int64_t slots, int64_t pages,
                                                           int64_t page_tokens, bool graphs) {
  CUDAL1_TRY(auto launches, decoder_launches::compile(weights, page_tokens));
  try {
    return std::make_unique<cuda_decoder>(weights, std::move(launches), slots, pages, page_tokens, graphs);
  } catch (const c10::OutOfMemoryError& e) {
    return fail(errc::out_of_memory, "keys and values of {} pages on {}: {}", pages, weights.device().str(),
                e.what_without_backtrace());
  } catch (const c10::Error& e) {
    return fail(errc::infrastructure, "generating on {}: {}", weights.device().str(), e.what_without_backtrace());
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const cuda_decoder_library cudal1_cuda_decoder_library;
const cuda_decoder_library cudal1_cuda_decoder_library = {make_cuda_decoder};

}  // namespace cudal1
