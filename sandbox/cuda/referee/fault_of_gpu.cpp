#include "sandbox/cuda/referee/fault_of_gpu.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sandbox/isolation/control_block.hpp"

namespace cudal1 {
namespace {

struct sign {
  std::string_view words;  // in lower case
  outcome kind;
};

// Names of CUDA errors, their texts, and messages of our own runner. The first match decides.
constexpr sign signs[] = {
    {"a write into an input", outcome::wrote_input},
    {"a write into input", outcome::wrote_input},
    {"a write into a weight", outcome::wrote_input},
    {"a write into weight", outcome::wrote_input},
    {"out of memory", outcome::out_of_memory},  // of the driver, in a kernel's launch
    {"cudaerrormemoryallocation", outcome::out_of_memory},
    {"illegal address", outcome::out_of_bounds},
    {"illegaladdress", outcome::out_of_bounds},
    {"illegal_address", outcome::out_of_bounds},
    {"illegal memory access", outcome::out_of_bounds},
    {"invalidaddressspace", outcome::out_of_bounds},
    {"launch timed out", outcome::hang},
    {"launchtimeout", outcome::hang},
    {"launch_timeout", outcome::hang},
};

}  // namespace

fault fault_of_gpu(const error& said) {
  const std::string text = printable(said.message.c_str(), said.message.size());
  switch (said.code) {
    case errc::invalid_program:
    case errc::parse_error:
    case errc::not_found:
    case errc::unsupported:
      return {outcome::invalid, text};
    case errc::refused:
      return {outcome::refused, text};
    case errc::out_of_memory:
      return {outcome::out_of_memory, text};
    case errc::timeout:
      return {outcome::hang, text};
    default:
      break;
  }
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& s : signs)
    if (lower.find(s.words) != std::string::npos) return {s.kind, text};
  return {outcome::crash, text};
}

}  // namespace cudal1
