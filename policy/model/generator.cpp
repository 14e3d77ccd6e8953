#include "policy/model/generator.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <dlfcn.h>

#include "config/base/stopwatch.hpp"
#include "config/installation.hpp"
#include "policy/model/batching_engine.hpp"
#include "policy/model/cuda/cuda_decoder_library.hpp"
#include "policy/model/tensor_decoder.hpp"
#include "policy/model/token_choice.hpp"

namespace cudal1 {

namespace {

using prompts_of_text = std::span<const std::vector<token>>;

// Tokens at the beginning of all prompts, without the last one of any.
std::size_t common_beginning(prompts_of_text prompts) {
  std::size_t common = prompts.front().size() - 1;
  for (const auto& each : prompts) {
    const auto [a, b] = std::ranges::mismatch(prompts.front(), each);
    common = std::min({common, static_cast<std::size_t>(a - prompts.front().begin()), each.size() - 1});
  }
  return common;
}

// Beside this library; never unloaded.
expected<const cuda_decoder_library*> loaded_cuda_decoder() {
  static const auto found = []() -> expected<const cuda_decoder_library*> {
    Dl_info self;
    if (dladdr(reinterpret_cast<const void*>(&common_beginning), &self) == 0)
      return fail(errc::infrastructure, "the folder of the language model's library is not known");
    const auto path = std::filesystem::path(self.dli_fname).replace_filename("libcudal1_language_model_cuda.so");
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return fail(errc::unsupported, "generating text on a GPU needs LibTorch's CUDA libraries and NVRTC: {}; {}",
                  dlerror(), libtorch_advice());
    const void* symbol = dlsym(library, cuda_decoder_symbol);
    if (symbol == nullptr) return fail(errc::unsupported, "{} is not the library of decoding on GPUs", path.string());
    return static_cast<const cuda_decoder_library*>(symbol);
  }();
  return found;
}

constexpr int64_t chunk_on_gpu = 2048, chunk_on_cpu = 128;

}  // namespace

expected<std::unique_ptr<text_engine>> engine_of(const network& from, const engine_options& given) {
  auto options = given;
  const bool is_on_gpu = from.device().is_cuda();
  if (options.chunk_tokens == 0) options.chunk_tokens = is_on_gpu ? chunk_on_gpu : chunk_on_cpu;
  CUDAL1_CHECK(check_engine_options(options));
  if (from.shape().value_periods > 0)
    return fail(errc::invalid_argument, "a model whose tokens have values does not generate text");
  const auto weights = from.fused();
  const int64_t page_tokens = options.page_tokens, slots = options.answers_at_once;
  // No more than all answers can have.
  const int64_t in_context = (from.shape().context + page_tokens - 1) / page_tokens;
  const int64_t pages = std::min(options.cache_bytes / weights.page_bytes(page_tokens), in_context * slots);
  std::unique_ptr<token_decoder> decoder;
  int32_t first_page = 0;
  if (is_on_gpu) {
    CUDAL1_TRY(const auto* library, loaded_cuda_decoder());
    first_page = 1;
    CUDAL1_TRY(decoder, library->make(weights, slots, pages + 1, page_tokens, options.graphs));
  } else {
    decoder = make_tensor_decoder(weights, slots, pages, page_tokens);
  }
  return make_batching_engine(std::move(decoder), from.shape(), options, pages, first_page);
}

expected<generation> generate_by(text_engine& engine, prompts_of_text prompts, const generation_options& options,
                                 std::size_t each, const token_listener& listener) {
  generation out;
  if (prompts.empty() || each == 0) return out;
  const stopwatch watch;
  engine.reset_report();
  std::optional<error> problem;
  std::vector<text_engine::request_id> begun;
  out.answers.resize(prompts.size() * each);
  std::size_t begun_answers = 0;
  double first_tokens = 0;
  std::vector<bool> has_token(out.answers.size());
  for (std::size_t i = 0; i < out.answers.size() && !problem; ++i) {
    text_request request{prompts[i / each], options, i, {}, {}};
    if (i < options.seeds.size()) request.options.seed = seed_for_answer(options.seeds[i], i);
    request.listener = [&](std::size_t answer, token chosen) {
      if (!has_token[answer]) {
        has_token[answer] = true;
        if (++begun_answers == out.answers.size()) first_tokens = watch.ms() / 1000;
      }
      return !listener || listener(answer, chosen);
    };
    request.done = [&, i](expected<generated_tokens> made) {
      if (made)
        out.answers[i] = std::move(*made);
      else if (!problem)
        problem = made.error();
    };
    if (const auto id = engine.submit(std::move(request)); id)
      begun.push_back(*id);
    else
      problem = id.error();
  }
  if (problem)
    for (const auto id : begun)
      engine.cancel(id);
  while (engine.step()) {
  }
  if (problem) return tl::unexpected<error>(*problem);
  out.report = engine.report();
  out.report.shared_tokens = static_cast<int64_t>(common_beginning(prompts));
  out.report.prompt_seconds = first_tokens;
  out.report.answer_seconds = watch.ms() / 1000 - first_tokens;
  return out;
}

expected<torch::Tensor> logits_of_text(const network& from, std::span<const token> tokens) {
  const torch::NoGradGuard no_gradients;
  CUDAL1_CHECK(check_text(tokens, from.shape()));
  const auto read = torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kLong);
  return from.logits_of(from.hidden_of_text(read));
}

}  // namespace cudal1
