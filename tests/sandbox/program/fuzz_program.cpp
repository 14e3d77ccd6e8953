// libFuzzer, in a separate build folder:
//   cmake -S . -B fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCUDAL1_FUZZ=ON -DLibTorch_ROOT=TORCH
//   ninja -C fuzz fuzz_program program_tests
//   fuzz/bin/fuzz_program -max_total_time=600 NEW_FINDS config/tasks tools/examples
//   fuzz/bin/program_tests --gtest_filter='mutated*'
// clang needs its sanitizer runtime (Debian: libclang-rt-14-dev).
#include <cstdint>
#include <cstdlib>

#include "sandbox/program/check.hpp"
#include "sandbox/program/task.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto checked = cudal1::check_program_text(text)) {
    const auto again = cudal1::check_program_text(cudal1::print_program(checked->text));
    if (!again || again->id != checked->id) std::abort();
  }
  if (const auto t = cudal1::read_task(text, "cpu")) {
    const auto again = cudal1::read_task(cudal1::canonical_text(*t), "cpu");
    if (!again || again->id != t->id) std::abort();
  }
  return 0;
}
