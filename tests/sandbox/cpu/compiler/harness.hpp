// Compiles a source with the real compiler, loads it and launches its kernels, for the tests of the `cpu` device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"

namespace cudal1::test {

// A compiler without a cache; the same for all tests.
host_compiler& compiler();

// A program that has only a source. Apart from it, the host compiler reads only the launches.
checked_program program_of(std::string source);

expected<compiled_code> compile(const std::string& source);

// The error of compile(), which must fail.
error compile_error(const std::string& source);

// The object in a memory file, loaded.
expected<std::unique_ptr<kernel_library>> load(const std::string& object);

class kernels {
 public:
  explicit kernels(const std::string& source);

  // Arguments are passed by value, as the kernel's parameters are typed.
  template <class... A>
  void launch(const std::string& name, std::array<int64_t, 3> grid, std::array<int64_t, 3> block, A... arguments) {
    launch_shared(name, grid, block, 0, 1, arguments...);
  }
  template <class... A>
  void launch_shared(const std::string& name, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
                     int64_t shared_bytes, int threads, A... arguments) {
    std::array<void*, sizeof...(A)> pointers{static_cast<void*>(&arguments)...};
    run({handle(name, sizeof...(A)), grid, block, shared_bytes}, threads, pointers.data());
  }
  template <class... A>
  void launch_cooperatively(const std::string& name, std::array<int64_t, 3> grid, std::array<int64_t, 3> block,
                            A... arguments) {
    std::array<void*, sizeof...(A)> pointers{static_cast<void*>(&arguments)...};
    run({handle(name, sizeof...(A)), grid, block, 0, true}, 1, pointers.data());
  }
  bool uses_fibers(const std::string& name) const;
  kernel_library& library() { return *library_; }

 private:
  // Throws unless it takes that many arguments.
  const kernel_handle* handle(const std::string& name, std::size_t arguments) const;
  void run(const kernel_launch& launch, int threads, void* const* arguments) const;

  std::unique_ptr<kernel_library> library_;
};

}  // namespace cudal1::test
