// libFuzzer: configure with clang and -DCUDAL1_FUZZ=ON, then run build/tests/sandbox/program/fuzz_program
// CORPUS_FOLDER.
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
