// By hand: what NVRTC takes for programs, one after the other, without a cache; the shortest of three compilations.
//
//   compile_times PROGRAM.cu1 ...      with DUMP=FOLDER in the environment NVRTC's input is written there, piece by
//   piece
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "config/base/stopwatch.hpp"
#include "config/base/text_file.hpp"
#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"
#include "sandbox/program/source_pieces.hpp"

namespace cudal1 {
namespace {

expected<void> print_times(kernel_compiler& compiler, const std::string& file) {
  CUDAL1_TRY(const auto text, read_text_file(file));
  CUDAL1_TRY(const auto p, check_program_text(text));
  double shortest_ms = 0;
  std::size_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const stopwatch took;
    CUDAL1_TRY(const auto code, compiler.compile(p));
    shortest_ms = i == 0 ? took.ms() : std::min(shortest_ms, took.ms());
    bytes = code.object.size();
  }
  const auto pieces = source_pieces(p.text.source);
  fmt::print("{}: {:.0f} ms, {} pieces, {} bytes of source, {} of code\n", file, shortest_ms, pieces.size(),
             p.text.source.size(), bytes);
  const char* const dump = std::getenv("DUMP");
  for (std::size_t i = 0; dump != nullptr && i < pieces.size(); ++i) {
    CUDAL1_TRY(const auto source, cuda_kernel_text(pieces[i]));
    std::ofstream(fmt::format("{}/{}_{}.cu", dump, p.text.name, i)) << source;
  }
  return {};
}

}  // namespace
}  // namespace cudal1

int main(int count, char** words) {
  using namespace cudal1;
  nvrtc_compiler_options options;
  const auto compiler = nvrtc_compiler::create(options);
  if (!compiler) {
    fmt::print(stderr, "{}\n", compiler.error().message);
    return 1;
  }
  for (int i = 1; i < count; ++i)
    if (const auto printed = print_times(**compiler, words[i]); !printed)
      fmt::print(stderr, "{}: {}\n", words[i], printed.error().message);
  return 0;
}
