#include "tools/kernelbench/cuda_text.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "sandbox/cuda/compiler/dialect_functions.hpp"
#include "sandbox/cuda/compiler/prologue.hpp"
#include "sandbox/program/scanner.hpp"
#include "tools/kernelbench/cpp_text.hpp"
#include "tools/kernelbench/device_words.hpp"
#include "tools/kernelbench/runtime_texts.hpp"

namespace cudal1::kernelbench {

namespace {

// PyTorch's flags for nvcc disable the operators of half types.
constexpr std::string_view k_head = R"(#undef __CUDA_NO_HALF_OPERATORS__
#undef __CUDA_NO_HALF_CONVERSIONS__
#undef __CUDA_NO_HALF2_OPERATORS__
#undef __CUDA_NO_BFLOAT16_CONVERSIONS__
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>
)";

// These four are long in the C library and long long in the dialect; CUDA's atomics take long long.
constexpr std::array<std::string_view, 4> k_long_names{"int64_t", "uint64_t", "intptr_t", "uintptr_t"};

template <class F>
void each_line(std::string_view text, const F& f) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    f(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
}

// NVRTC knows none of the prologue's names; here the C library has defined some of them.
std::string prologue_for_nvcc() {
  std::string text;
  each_line(prologue(), [&](std::string_view line) {
    constexpr std::string_view define = "#define ", type = "typedef ";
    if (line.starts_with(define)) {
      const auto name = line.substr(define.size(), line.find_first_of(" (", define.size()) - define.size());
      text += fmt::format("#undef {}\n{}\n", name, line);
      return;
    }
    const auto name = line.substr(std::min(line.size(), line.rfind(' ') + 1), line.rfind(';') - line.rfind(' ') - 1);
    if (line.starts_with(type) && std::find(k_long_names.begin(), k_long_names.end(), name) != k_long_names.end())
      text += fmt::format("{0} program_{1};\n#define {1} program_{1}\n", line.substr(0, line.rfind(' ')), name);
    else
      text += fmt::format("{}\n", line);
  });
  return text;
}

// Include lines go before the prologue, so that its names do not affect the headers.
std::pair<std::string, std::string> includes_apart(std::string_view source) {
  const std::string joined = join_lines(source).text;
  std::string includes, rest;
  std::size_t at = 0;
  for (const auto& t : scan(joined, directive_form::line)) {
    const auto word = t.kind == token_kind::directive ? t.text.find_first_not_of(" \t", 1) : std::string_view::npos;
    if (word == std::string_view::npos || !t.text.substr(word).starts_with("include")) continue;
    includes.append(t.text).append("\n");
    rest.append(joined, at, t.begin - at);  // the newline stays: lines keep their numbers
    at = t.end;
  }
  rest.append(joined, at);
  if (!rest.ends_with('\n')) rest += '\n';
  return {includes, rest};
}

}  // namespace

expected<std::string> cuda_text(const checked_program& p) {
  const auto kernels = kernels_of(p);
  if (kernels.empty()) return std::string();
  if (std::find(p.text.headers.begin(), p.text.headers.end(), "cutlass") != p.text.headers.end())
    return fail(
        errc::unsupported,
        "its kernels include CUTLASS, which the CUDA toolkit lacks, and an exported file may need nothing else");
  const auto [includes, rest] = includes_apart(p.text.source);
  CUDAL1_TRY(const std::string source, with_device_specifiers(rest));
  std::string text = std::string(k_head) + includes + prologue_for_nvcc();
  if (source.find("atomic") != std::string::npos) text += texts::atomics();
  text += dialect_functions(source);
  text += "\n// The program's kernels.\n#line 1 \"program.cu\"\n" + source + "\n";
  text += "const void* const* program_kernels() {\n  static const void* const all[] = {";
  for (const auto& kernel : kernels)
    text += fmt::format("\n      reinterpret_cast<const void*>(&{}),", kernel);
  return text + "};\n  return all;\n}\n";
}

}  // namespace cudal1::kernelbench
