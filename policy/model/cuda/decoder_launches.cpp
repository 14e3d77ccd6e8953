#include "policy/model/cuda/decoder_launches.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <c10/cuda/CUDAStream.h>

#include "policy/model/cuda/decoder_kernels.hpp"

namespace cudal1 {

namespace {

using torch::Tensor;

constexpr int64_t most_group = 8;  // query heads of a block
constexpr int tile_keys = 64, attend_threads = 128;

void* data_of(const Tensor& t) {
  return t.defined() ? t.data_ptr() : nullptr;
}

int blocks_of(int64_t work, int64_t of_block) {
  return static_cast<int>((work + of_block - 1) / of_block);
}

}  // namespace

expected<std::unique_ptr<decoder_launches>> decoder_launches::compile(const paged_weights& w, int64_t page_tokens) {
  const auto& s = w.shape;
  const int64_t head = s.head_size();
  const bool is_half = w.type() == torch::kHalf, is_bfloat16 = w.type() == torch::kBFloat16;
  if (!is_half && !is_bfloat16 && w.type() != torch::kFloat)
    return fail(errc::unsupported, "text is generated on a GPU in float32, float16 or bfloat16; this model has {}",
                torch::toString(w.type()));
  if (head % 8 != 0 || head > 256 || s.width % 8 != 0 || s.hidden % 8 != 0)
    return fail(errc::unsupported,
                "text is generated on a GPU by models whose heads ({}) have a multiple of 8 elements up to 256, and "
                "whose width ({}) and hidden size ({}) are multiples of 8: use the device cpu",
                head, s.width, s.hidden);
  std::unique_ptr<decoder_launches> out(new decoder_launches());
  out->shape_ = s;
  const int64_t of_kv = s.heads / s.kv_heads;
  for (int64_t g = 1; g <= std::min(of_kv, most_group); ++g)
    if (of_kv % g == 0) out->group_ = g;
  const auto row_bytes = static_cast<int>(head * w.embedding.element_size());
  out->tile_bytes_ = 2 * tile_keys * (row_bytes + (96 - row_bytes % 64) % 64);
  const int device = w.device().index();
  int processors = 0;
  CUDAL1_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  out->multiprocessors_ = processors;
  const auto text = fmt::format(
      "#define HEAD {}\n#define HEADS {}\n#define KV_HEADS {}\n#define GROUP {}\n#define PAGE {}\n#define TYPE {}\n{}",
      head, s.heads, s.kv_heads, out->group_, page_tokens,
      is_bfloat16 ? 2
      : is_half   ? 1
                  : 0,
      decoder_kernels_text());
  CUDAL1_TRY(out->library_, service_library::compile(text, device));
  return out;
}

void decoder_launches::launch(const char* kernel, dim3 grid, int block, void** arguments, int shared_bytes,
                              kernel_start start) const {
  const auto done = library_->launch(kernel, grid, dim3(static_cast<unsigned>(block)), arguments,
                                     c10::cuda::getCurrentCUDAStream().stream(), shared_bytes, start);
  if (!done) throw std::runtime_error(done.error().message);
}

void decoder_launches::embed(const Tensor& rows, const Tensor& last, const Tensor& table, Tensor& x) const {
  void *of = data_of(rows), *tokens = data_of(last), *from = data_of(table), *to = data_of(x);
  int width = static_cast<int>(shape_.width);
  void* arguments[] = {&of, &tokens, &from, &to, &width};
  launch("embed", dim3(static_cast<unsigned>(x.size(0))), 128, arguments);
}

void decoder_launches::add_norm(Tensor& x, const Tensor& added, const Tensor& weight, Tensor& out) const {
  void *to = data_of(x), *more = data_of(added), *by = data_of(weight), *normed = data_of(out);
  int width = static_cast<int>(shape_.width);
  auto epsilon = static_cast<float>(shape_.norm_epsilon);
  void* arguments[] = {&to, &more, &by, &normed, &width, &epsilon};
  launch("add_norm", dim3(static_cast<unsigned>(x.size(0))), shape_.width >= 2048 ? 256 : 128, arguments);
}

void decoder_launches::rotate_and_store(const Tensor& qkv, const Tensor& rows, const Tensor& tables,
                                        const paged_weights& weights, const paged_layer& layer, Tensor& q,
                                        const Tensor& keys, const Tensor& values) const {
  void *from = data_of(qkv), *of = data_of(rows), *pages = data_of(tables), *frequency = data_of(weights.frequency),
       *q_norm = data_of(layer.q_norm), *k_norm = data_of(layer.k_norm), *to = data_of(q), *k = data_of(keys),
       *v = data_of(values);
  int table_size = static_cast<int>(tables.size(1)), count = static_cast<int>(rows.size(0));
  auto magnitude = static_cast<float>(shape_.rope_magnitude), epsilon = static_cast<float>(shape_.norm_epsilon);
  void* arguments[] = {&from,   &of,      &pages, &table_size, &frequency, &magnitude, &q_norm,
                       &k_norm, &epsilon, &to,    &k,          &v,         &count};
  launch("rotate_and_store", dim3(static_cast<unsigned>(blocks_of(count * (shape_.heads + 2 * shape_.kv_heads), 4))),
         128, arguments);
}

void decoder_launches::gated(const Tensor& gate_up, Tensor& out) const {
  void *from = data_of(gate_up), *to = data_of(out);
  int hidden = static_cast<int>(shape_.hidden), count = static_cast<int>(out.size(0));
  void* arguments[] = {&from, &to, &hidden, &count};
  const int64_t in_pack = 16 / static_cast<int64_t>(out.element_size());
  launch("gated", dim3(static_cast<unsigned>(blocks_of(out.numel() / in_pack, 128))), 128, arguments);
}

void decoder_launches::linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& out) const {
  void *from = data_of(x), *by = data_of(weight), *more = data_of(bias), *to = data_of(out);
  int columns = static_cast<int>(weight.size(0)), width = static_cast<int>(weight.size(1));
  void* arguments[] = {&from, &by, &more, &to, &columns, &width};
  const char* kernel = x.size(0) == 1 ? "linear_1" : x.size(0) == 2 ? "linear_2" : "linear_4";
  launch(kernel, dim3(static_cast<unsigned>(blocks_of(columns, 4))), 128, arguments);
}

int64_t decoder_launches::splits(int64_t rows, int64_t longest) const {
  const int64_t blocks = rows * shape_.heads / group_, wanted = (4 * multiprocessors_ + blocks - 1) / blocks;
  return std::clamp<int64_t>(std::min(wanted, (longest + tile_keys - 1) / tile_keys), 1, 64);
}

void decoder_launches::attend(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& rows,
                              const Tensor& tables, Tensor& out, Tensor& parts, Tensor& ready, int64_t splits) const {
  void *from = data_of(q), *k = data_of(keys), *v = data_of(values), *of = data_of(rows), *pages = data_of(tables),
       *to = data_of(out), *room = data_of(parts), *counts = data_of(ready);
  int table_size = static_cast<int>(tables.size(1));
  // The kernel takes powers of 2.
  auto scale = static_cast<float>(M_LOG2E / std::sqrt(static_cast<double>(shape_.head_size())));
  void* arguments[] = {&from, &k, &v, &of, &pages, &table_size, &scale, &to, &room, &counts};
  launch("attend",
         dim3(static_cast<unsigned>(splits), static_cast<unsigned>(shape_.heads / group_),
              static_cast<unsigned>(rows.size(0))),
         attend_threads, arguments, tile_bytes_);
}

void decoder_launches::choose(const Tensor& logits, const wanted_token* wanted, int64_t count, const uint32_t* masks,
                              Tensor& last, made_choice* made) const {
  void *from = data_of(logits), *to = data_of(last);
  int vocabulary = static_cast<int>(shape_.vocabulary);
  void* arguments[] = {&from, &vocabulary, &wanted, &masks, &to, &made};
  launch("choose", dim3(static_cast<unsigned>(count)), 1024, arguments, 0, kernel_start::after_previous);
}

}  // namespace cudal1
