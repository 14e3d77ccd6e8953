// By hand: how fast a pretrained model generates on a device, for 1, 16 and 64 answers at once.
//   generation_speed FOLDER|FILE.gguf [DEVICE] [PROMPT TOKENS] [ANSWER TOKENS] [float32]
// Prompts are random tokens, each its own. On a GPU the last column is what share of the time the weights, keys and
// values of a step would take to be read at the speed of a copy.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>

#include <fmt/format.h>

#include "config/base/stopwatch.hpp"
#include "policy/model/language_model.hpp"
#include "sandbox/cuda/runtime/api.hpp"

namespace cudal1 {
namespace {

struct lengths {
  std::size_t prompt = 128;
  int64_t answer = 256;
};

// Bytes read and written a second by a copy on the GPU.
expected<double> copy_speed() {
  constexpr std::size_t bytes = std::size_t{1} << 30;
  constexpr int times = 20;
  const auto free_device = [](void* p) { (void)cudaFree(p); };
  void *from = nullptr, *to = nullptr;
  CUDAL1_CUDA(cudaMalloc(&from, bytes));
  const std::unique_ptr<void, decltype(free_device)> first(from, free_device);
  CUDAL1_CUDA(cudaMalloc(&to, bytes));
  const std::unique_ptr<void, decltype(free_device)> second(to, free_device);
  CUDAL1_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice));
  CUDAL1_CUDA(cudaDeviceSynchronize());
  const stopwatch watch;
  for (int i = 0; i < times; ++i)
    CUDAL1_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr));
  CUDAL1_CUDA(cudaDeviceSynchronize());
  return 2.0 * bytes * times / (watch.ms() / 1000);
}

// Bytes that a step of so many answers reads at least, half-way through them.
double bytes_of_step(const language_model& model, const generation_report& r, std::size_t answers, const lengths& l) {
  const auto& s = model.shape();
  const double element = static_cast<double>(r.model_bytes) / static_cast<double>(s.parameters());
  const double embedding = s.is_tied ? 0 : static_cast<double>(s.vocabulary * s.width) * element;
  const double places = static_cast<double>(l.prompt) + static_cast<double>(l.answer) / 2;
  return static_cast<double>(r.model_bytes) - embedding +
         static_cast<double>(answers) * places * 2 * static_cast<double>(s.layers * s.kv_width()) * element;
}

expected<void> measure(const language_model& model, std::size_t answers, const lengths& l, const char* how,
                       generation_options options, double bandwidth) {
  std::mt19937 random(static_cast<unsigned>(answers + l.prompt));
  std::vector<std::vector<token>> prompts(answers);
  for (auto& prompt : prompts)
    for (std::size_t i = 0; i < l.prompt; ++i)
      prompt.push_back(static_cast<token>(random() % static_cast<unsigned long>(model.shape().vocabulary)));
  options.most_tokens = l.answer;
  CUDAL1_TRY(const auto made, model.generate(prompts, options));
  const auto& r = made.report;
  const double later = static_cast<double>(r.answer_tokens) - static_cast<double>(answers);
  const double step = r.answer_seconds / static_cast<double>(l.answer - 1);
  fmt::print("{:7} {:8} {:9.0f} {:9.1f} {:9.3f} {:6}/{:<5} {:9.1f}", answers, how,
             static_cast<double>(r.prompt_tokens) / r.prompt_seconds, later / r.answer_seconds, step * 1000,
             r.graph_steps, r.steps, static_cast<double>(r.cache_bytes) / 1e6);
  if (bandwidth > 0) fmt::print(" {:5.1f}%", 100 * bytes_of_step(model, r, answers, l) / bandwidth / step);
  fmt::print("\n");
  std::fflush(stdout);
  return {};
}

expected<void> run(const std::string& path, const std::string& device, const lengths& l, model_precision precision) {
  CUDAL1_CHECK(language_model::use_threads(0));
  const stopwatch watch;
  CUDAL1_TRY(const auto model, language_model::open(path, precision, device));
  fmt::print("{}: {:.1f} M weights on {}, loaded in {:.2f} s; prompts of {} tokens, answers of {}\n", path,
             static_cast<double>(model->shape().parameters()) / 1e6, model->device(), watch.ms() / 1000, l.prompt,
             l.answer);
  double bandwidth = 0;
  if (device != "cpu") {
    CUDAL1_TRY(bandwidth, copy_speed());
    model->set_engine_options({.cache_bytes = int64_t{16} << 30});
    fmt::print("a copy on the GPU reads and writes {:.2f} TB/s\n", bandwidth / 1e12);
  }
  fmt::print("answers choice    prompt/s  answer/s   ms/step  graphs/steps  cache MB  roof\n");
  const generation_options greedy{.temperature = 0}, drawn{.temperature = 1, .top_p = 0.95};
  for (const std::size_t answers : {1, 4, 16, 64}) {
    // The first time graphs are captured, and memory is allocated.
    CUDAL1_CHECK(model->generate(std::vector<std::vector<token>>(answers, {1, 2, 3}), {.most_tokens = 4}));
    CUDAL1_CHECK(measure(*model, answers, l, "greedy", greedy, bandwidth));
    if (answers != 4) CUDAL1_CHECK(measure(*model, answers, {l.prompt + 1, l.answer}, "top_p", drawn, bandwidth));
  }
  return {};
}

}  // namespace
}  // namespace cudal1

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "generation_speed FOLDER|FILE.gguf [DEVICE] [PROMPT TOKENS] [ANSWER TOKENS] [float32]\n");
    return 2;
  }
  const std::string device = argc > 2 ? argv[2] : "cpu";
  cudal1::lengths l;
  l.prompt = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 128;
  l.answer = argc > 4 ? std::strtol(argv[4], nullptr, 10) : device == "cpu" ? 16 : 256;
  const auto precision = argc > 5 ? cudal1::model_precision::float32 : cudal1::model_precision::bfloat16;
  if (l.prompt < 1 || l.answer < 2) {
    fmt::print(stderr, "a prompt has at least 1 token, an answer 2\n");
    return 2;
  }
  const auto done = cudal1::run(argv[1], device, l, precision);
  if (!done) fmt::print(stderr, "{}\n", done.error().message);
  return done ? 0 : 1;
}
