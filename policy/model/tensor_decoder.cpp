#include "policy/model/tensor_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <deque>

#include <ATen/Parallel.h>

#include "policy/model/paged_attention.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;

// Of a prompt's part: more of them share what they gather.
constexpr int64_t most_rows_in_pages = 8;

Tensor normed(const Tensor& x, const Tensor& weight, double epsilon) {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

// Rows of a batch, each a token of some text.
struct token_rows {
  std::vector<int64_t> tokens, positions, places;  // places: in the cache
};

// An attention of some rows: which places of the cache they look at.
struct row_attention {
  int64_t first = 0, rows = 0;  // of the batch
  int64_t texts = 1;            // of as many rows each
  Tensor places;                // int64 [texts * keys]
  Tensor visible;               // bool [texts, 1, rows of a text, keys]
  // In place of these: the text of each row, which looks at all of it.
  std::vector<paged_text> in_pages = {};
};

class tensor_decoder final : public token_decoder {
 public:
  tensor_decoder(const paged_weights& weights, int64_t slots, int64_t pages, int64_t page_tokens)
      : w_(weights), page_tokens_(page_tokens), last_(static_cast<std::size_t>(slots)) {
    const auto& s = w_.shape;
    pages_.resize(static_cast<std::size_t>(slots));
    // Not filled: a place is written before it is read, and memory that no text needs is not touched.
    cache_ = torch::empty({s.layers, 2, pages, page_tokens, s.kv_heads, s.head_size()}, w_.embedding.options());
    sizes_ = {s.heads, s.kv_heads, s.head_size(), page_tokens};
    const auto type = w_.type();
    attends_pages_ =
        w_.device().is_cpu() && (type == torch::kFloat || type == torch::kBFloat16) && can_attend_pages(sizes_);
  }

  expected<void> set_pages(int32_t slot, std::size_t first, std::span<const int32_t> pages) override {
    auto& own = pages_[static_cast<std::size_t>(slot)];
    own.resize(first);
    own.insert(own.end(), pages.begin(), pages.end());
    return {};
  }

  expected<void> copy_page(int32_t from, int32_t to) override {
    const torch::NoGradGuard no_gradients;
    cache_.select(2, to).copy_(cache_.select(2, from));
    return {};
  }

  expected<void> read(std::span<const prompt_part> parts) override {
    return without_exceptions([&] {
      token_rows rows;
      std::vector<row_attention> attentions;
      std::vector<int64_t> last;
      for (const auto& part : parts) {
        const auto count = static_cast<int64_t>(part.tokens.size()), keys = part.first + count;
        row_attention a{.first = static_cast<int64_t>(rows.tokens.size()), .rows = count, .places = {}, .visible = {}};
        if (attends_pages_ && count <= most_rows_in_pages) {
          for (int64_t i = 0; i < count; ++i)
            a.in_pages.push_back({pages_[static_cast<std::size_t>(part.slot)], part.first + i + 1});
        } else {
          std::vector<int64_t> places;
          for (int64_t i = 0; i < keys; ++i)
            places.push_back(place_of(part.slot, i));
          a.places = on_device(places);
          a.visible = torch::ones({1, 1, count, keys}, torch::TensorOptions().dtype(torch::kBool).device(w_.device()))
                          .tril(part.first);
        }
        attentions.push_back(std::move(a));
        for (int64_t i = 0; i < count; ++i)
          add(rows, part.slot, part.first + i, part.tokens[static_cast<std::size_t>(i)]);
        if (part.is_last) last.push_back(static_cast<int64_t>(rows.tokens.size()) - 1);
      }
      const auto x = states(rows, attentions);
      logits_ = last.empty() ? Tensor() : logits_of(x.index_select(0, on_device(last)));
    });
  }

  expected<void> advance(std::span<const decoded_row> decoded) override {
    return without_exceptions([&] {
      token_rows rows;
      int64_t longest = 0;
      for (const auto& row : decoded) {
        add(rows, row.slot, row.position, last_[static_cast<std::size_t>(row.slot)]);
        longest = std::max(longest, row.position + 1);
      }
      if (attends_pages_) {
        row_attention a{.rows = static_cast<int64_t>(decoded.size()), .places = {}, .visible = {}};
        for (const auto& row : decoded)
          a.in_pages.push_back({pages_[static_cast<std::size_t>(row.slot)], row.position + 1});
        logits_ = logits_of(states(rows, {std::move(a)}));
        return;
      }
      std::vector<int64_t> places;
      for (const auto& row : decoded)
        for (int64_t i = 0; i < longest; ++i)
          places.push_back(place_of(row.slot, std::min(i, row.position)));
      const auto count = static_cast<int64_t>(decoded.size());
      const auto keys = torch::arange(0, longest, torch::TensorOptions().dtype(torch::kLong).device(w_.device()));
      row_attention a{.rows = count, .texts = count, .places = on_device(places), .visible = {}};
      a.visible = keys.unsqueeze(0).le(on_device(rows.positions).unsqueeze(1)).view({count, 1, 1, longest});
      logits_ = logits_of(states(rows, {a}));
    });
  }

  expected<void> choose(std::span<const wanted_choice> choices) override {
    return without_exceptions([&] {
      if (!host_logits_.defined()) host_logits_ = logits_.to(torch::kCPU, torch::kFloat).contiguous();
      const auto size = static_cast<std::size_t>(w_.shape.vocabulary);
      auto& out = chosen_.emplace_back();
      for (const auto& wanted : choices) {
        const std::span row(host_logits_.data_ptr<float>() + wanted.row * size, size);
        out.push_back(choose_token(row, wanted.rule, wanted.allowed));
        last_[static_cast<std::size_t>(wanted.slot)] = out.back().chosen;
      }
    });
  }

  expected<std::vector<chosen_token>> collect() override {
    if (chosen_.empty()) return fail(errc::invalid_argument, "nothing was chosen");
    auto out = std::move(chosen_.front());
    chosen_.pop_front();
    return out;
  }

  decoder_sizes sizes() const override { return {static_cast<int64_t>(cache_.nbytes()), w_.bytes(), 0}; }

 private:
  template <class Work>
  expected<void> without_exceptions(const Work& work) {
    const torch::NoGradGuard no_gradients;
    try {
      work();
    } catch (const c10::OutOfMemoryError& e) {
      return fail(errc::out_of_memory, "generating on {}: {}", w_.device().str(), e.what_without_backtrace());
    } catch (const c10::Error& e) {
      return fail(errc::infrastructure, "generating on {}: {}", w_.device().str(), e.what_without_backtrace());
    }
    return {};
  }

  Tensor on_device(const std::vector<int64_t>& values) const {
    return torch::tensor(values, torch::kLong).to(w_.device());
  }
  int64_t place_of(int32_t slot, int64_t position) const {
    const auto& own = pages_[static_cast<std::size_t>(slot)];
    return own[static_cast<std::size_t>(position / page_tokens_)] * page_tokens_ + position % page_tokens_;
  }
  void add(token_rows& rows, int32_t slot, int64_t position, token t) const {
    rows.tokens.push_back(t);
    rows.positions.push_back(position);
    rows.places.push_back(place_of(slot, position));
  }

  // The residual stream after the last norm: [rows, width].
  Tensor states(const token_rows& rows, const std::vector<row_attention>& attentions) {
    const auto& s = w_.shape;
    const auto count = static_cast<int64_t>(rows.tokens.size());
    const auto places = on_device(rows.places);
    // The angles are not rounded to a half type: a position of 1,000 would be one of 1,004.
    const auto angles = on_device(rows.positions).to(w_.frequency.scalar_type()).unsqueeze(1) * w_.frequency;
    const auto both = torch::cat({angles, angles}, 1).unsqueeze(1);  // [rows, 1, head size]
    const auto cosine = (torch::cos(both) * s.rope_magnitude).to(w_.type());
    const auto sine = (torch::sin(both) * s.rope_magnitude).to(w_.type());
    const auto rotated = [&](const Tensor& heads, const Tensor& norm) {
      const auto x = norm.defined() ? normed(heads, norm, s.norm_epsilon) : heads;
      const auto halves = x.chunk(2, -1);
      return x * cosine + torch::cat({halves[1].neg(), halves[0]}, -1) * sine;
    };
    auto x = torch::embedding(w_.embedding, on_device(rows.tokens));
    for (std::size_t i = 0; i < w_.layers.size(); ++i) {
      const auto& l = w_.layers[i];
      const auto all = torch::linear(normed(x, l.attention_norm, s.norm_epsilon), l.qkv, l.qkv_bias)
                           .view({count, s.heads + 2 * s.kv_heads, s.head_size()});
      const auto q = rotated(all.narrow(1, 0, s.heads), l.q_norm);
      auto keys = flat_cache(i, 0), values = flat_cache(i, 1);
      keys.index_copy_(0, places, rotated(all.narrow(1, s.heads, s.kv_heads), l.k_norm));
      values.index_copy_(0, places, all.narrow(1, s.heads + s.kv_heads, s.kv_heads));
      std::vector<Tensor> mixed;
      for (const auto& a : attentions)
        mixed.push_back(a.in_pages.empty() ? attended(q, keys, values, a) : attended_in_pages(q, keys, values, a));
      x = x + torch::linear(mixed.size() == 1 ? mixed.front() : torch::cat(mixed, 0), l.o);
      const auto m = torch::linear(normed(x, l.mlp_norm, s.norm_epsilon), l.gate_up).chunk(2, -1);
      x = x + torch::linear(torch::silu(m[0]) * m[1], l.down);
    }
    return normed(x, w_.norm, s.norm_epsilon);
  }

  // [places, kv heads, head size]
  Tensor flat_cache(std::size_t layer, int64_t which) {
    return cache_.select(0, static_cast<int64_t>(layer)).select(0, which).flatten(0, 1);
  }

  // [rows, query width]
  Tensor attended(const Tensor& q, const Tensor& keys, const Tensor& values, const row_attention& a) const {
    const int64_t of_text = a.rows / a.texts;
    // On many CPUs products of bfloat16 are slow, and float32's are not.
    const auto type = w_.device().is_cpu() && w_.type() == torch::kBFloat16 ? torch::kFloat : w_.type();
    const auto by_text = [&](const Tensor& x, int64_t rows) {
      return x.to(type).view({a.texts, rows, x.size(1), x.size(2)}).transpose(1, 2);
    };
    const int64_t looked_at = a.places.size(0) / a.texts;
    const auto mixed = at::scaled_dot_product_attention(
        by_text(q.narrow(0, a.first, a.rows), of_text), by_text(keys.index_select(0, a.places), looked_at),
        by_text(values.index_select(0, a.places), looked_at), a.visible, 0, /*is_causal=*/false,
        1 / std::sqrt(static_cast<double>(w_.shape.head_size())), /*enable_gqa=*/true);
    return mixed.transpose(1, 2).reshape({a.rows, w_.shape.query_width()}).to(w_.type());
  }

  // The same, on the CPU: pages are not gathered.
  Tensor attended_in_pages(const Tensor& q, const Tensor& keys, const Tensor& values, const row_attention& a) const {
    const auto query = q.narrow(0, a.first, a.rows).to(torch::kFloat).contiguous();
    auto mixed = torch::empty({a.rows, w_.shape.query_width()}, query.options());
    const auto each = [&](auto* key, auto* value) {
      at::parallel_for(0, a.rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          attend_pages(sizes_, a.in_pages[static_cast<std::size_t>(i)],
                       query.const_data_ptr<float>() + i * w_.shape.query_width(), key, value,
                       mixed.mutable_data_ptr<float>() + i * w_.shape.query_width());
      });
    };
    if (w_.type() == torch::kFloat)
      each(keys.const_data_ptr<float>(), values.const_data_ptr<float>());
    else
      each(static_cast<const uint16_t*>(keys.const_data_ptr()), static_cast<const uint16_t*>(values.const_data_ptr()));
    return mixed.to(w_.type());
  }

  Tensor logits_of(const Tensor& states) {
    host_logits_ = Tensor();
    return torch::linear(states, w_.last);
  }

  const paged_weights w_;
  const int64_t page_tokens_;
  attention_sizes sizes_;
  bool attends_pages_ = false;
  Tensor cache_;                             // [layers, 2, pages, page tokens, kv heads, head size]
  std::vector<std::vector<int32_t>> pages_;  // by slot
  std::vector<token> last_;                  // chosen, by slot
  Tensor logits_, host_logits_;
  std::deque<std::vector<chosen_token>> chosen_;
};

}  // namespace

std::unique_ptr<token_decoder> make_tensor_decoder(const paged_weights& weights, int64_t slots, int64_t pages,
                                                   int64_t page_tokens) {
  return std::make_unique<tensor_decoder>(weights, slots, pages, page_tokens);
}

}  // namespace cudal1
