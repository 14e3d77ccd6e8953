#include "tests/sandbox/cuda/compiler/harness.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <elf.h>

namespace cudal1::test {

nvrtc_compiler& compiler_for(const std::string& architecture) {
  static std::mutex lock;
  static std::map<std::string, std::unique_ptr<nvrtc_compiler>> made;
  const std::lock_guard hold(lock);
  auto& here = made[architecture];
  if (!here) {
    nvrtc_compiler_options options;
    options.architecture = architecture;
    options.processes = 2;
    options.time_limit_s = 60;  // with headers, on a busy machine
    auto created = nvrtc_compiler::create(options);
    if (!created) throw std::runtime_error(created.error().message);
    here = std::move(*created);
  }
  return *here;
}

checked_program program_of(std::string source, std::vector<std::string> headers) {
  checked_program p;
  p.text.source = std::move(source);
  p.text.headers = std::move(headers);
  return p;
}

expected<compiled_code> compile(const std::string& source, const std::string& architecture) {
  return compiler_for(architecture).compile(program_of(source));
}

error compile_error(const std::string& source) {
  const auto result = compile(source);
  if (result) throw std::runtime_error("this should not compile:\n" + source);
  return result.error();
}

std::string in_kernel(const std::string& body) {
  return "__global__ void k(float* y, int n) { " + body + " }\n";
}

std::vector<std::string> kernels_in(const std::string& cubin) {
  std::vector<std::string> names;
  Elf64_Ehdr head;
  if (cubin.size() < sizeof head) throw std::runtime_error("no ELF file");
  std::memcpy(&head, cubin.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) throw std::runtime_error("no ELF file");
  const auto section = [&](std::size_t index) {
    Elf64_Shdr found;
    std::memcpy(&found, cubin.data() + head.e_shoff + index * sizeof found, sizeof found);
    return found;
  };
  const auto strings = section(head.e_shstrndx);
  for (std::size_t i = 0; i < head.e_shnum; ++i) {
    const std::string name = cubin.data() + strings.sh_offset + section(i).sh_name;
    if (name.starts_with(".text.")) names.push_back(name.substr(6));
  }
  std::sort(names.begin(), names.end());
  return names;
}

nvrtc_compiler_options limited(double time_s, int64_t memory_bytes) {
  nvrtc_compiler_options options;
  options.architecture = "sm_80";
  options.time_limit_s = time_s;
  options.memory_limit_bytes = memory_bytes;
  return options;
}

}  // namespace cudal1::test
