// By hand: how fast a pretrained model generates on a device.
//   generation_speed FOLDER|FILE.gguf [DEVICE] [THREADS]
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "config/base/stopwatch.hpp"
#include "policy/model/language_model.hpp"
#include "policy/model/tokenizer/tokenizer.hpp"

namespace cudal1 {
namespace {

constexpr int64_t answer_tokens = 64;

expected<void> measure(const language_model& model, const std::vector<token>& prompt, std::size_t answers) {
  const generation_options options{.temperature = 1, .top_p = 0.95, .most_tokens = answer_tokens};
  CUDAL1_TRY(const auto made, model.generate(std::span(&prompt, 1), options, answers));
  const auto& r = made.report;
  fmt::print(
      "  {:4} prompt tokens, {:2} answers: first token after {:7.3f} s, then {:7.1f} tokens/s; keys and values "
      "{:.1f} MB\n",
      r.prompt_tokens, answers, r.prompt_seconds,
      static_cast<double>(r.answer_tokens - static_cast<int64_t>(answers)) / r.answer_seconds,
      static_cast<double>(r.cache_bytes) / 1e6);
  return {};
}

expected<void> run(const std::string& path, const std::string& device, int threads) {
  CUDAL1_CHECK(language_model::use_threads(threads));
  CUDAL1_TRY(const auto words, tokenizer::open(path));
  std::string text = "Write a CUDA kernel.";
  while (text.size() < 4000)
    text += " for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) y[i] = alpha * x[i];";
  CUDAL1_TRY(const auto tokens, words.encode(text));
  for (const auto precision : {model_precision::float32, model_precision::bfloat16}) {
    const stopwatch watch;
    CUDAL1_TRY(const auto model, language_model::open(path, precision, device));
    fmt::print("{} on {}: {:.1f} M weights, loaded in {:.2f} s\n",
               precision == model_precision::float32 ? "float32" : "bfloat16", model->device(),
               static_cast<double>(model->shape().parameters()) / 1e6, watch.ms() / 1000);
    for (const std::size_t length : {std::size_t{16}, std::size_t{1024}})
      for (const std::size_t answers : {1, 8}) {
        const std::vector<token> prompt(tokens.begin(),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(std::min(length, tokens.size())));
        CUDAL1_CHECK(measure(*model, prompt, answers));
      }
  }
  return {};
}

}  // namespace
}  // namespace cudal1

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "generation_speed FOLDER|FILE.gguf [DEVICE] [THREADS]\n");
    return 2;
  }
  const auto done = cudal1::run(argv[1], argc > 2 ? argv[2] : "cpu", argc > 3 ? std::atoi(argv[3]) : 0);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
