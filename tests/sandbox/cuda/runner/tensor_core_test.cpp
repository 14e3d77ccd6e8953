// The dialect's functions for tensor cores and asynchronous copies: a GPU computes what the cpu device computes.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/cuda/compiler/kernel_text.hpp"
#include "sandbox/cuda/compiler/nvrtc_call.hpp"
#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"
#include "tests/sandbox/tensor_core_kernels.hpp"

namespace cudal1 {
namespace {

using words = std::vector<uint32_t>;

class tensor_cores : public gpu_test {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    int major = 0, minor = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    ASSERT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
    if (major < 8) GTEST_SKIP() << "this GPU has no TF32";
    if (on_gpu_) return;
    const auto text = cuda_kernel_text(test::tensor_core_kernels);
    ASSERT_TRUE(text) << text.error().message;
    const auto cubin = compile_with_nvrtc(*text, fmt::format("sm_{}{}", major, minor), {}, 16 << 10);
    ASSERT_EQ(cubin.status, compile_status::compiled) << cubin.log;
    on_gpu_ = load_cubin(cubin.cubin, device().index()).value();
    checked_program p;
    p.text.source = test::tensor_core_kernels;
    host_compiler_options options;
    options.allow_weak_confinement = true;
    const auto compiler = host_compiler::create(std::move(options));
    ASSERT_TRUE(compiler) << compiler.error().message;
    const auto object = (*compiler)->compile(p);
    ASSERT_TRUE(object) << object.error().message;
    const unique_fd file(::memfd_create("object", MFD_CLOEXEC));
    ASSERT_EQ(::write(file.get(), object->object.data(), object->object.size()),
              static_cast<ssize_t>(object->object.size()));
    on_cpu_ = load_object(file.get()).value();
  }
  static void TearDownTestSuite() {
    on_gpu_.reset();
    on_cpu_.reset();
  }

  // Runs one block of each device's kernel on the same buffers, the last of which are results, and `number` behind
  // them if the kernel takes it.
  struct both {
    std::vector<words> cpu, gpu;
  };
  static both run(const std::string& kernel, int64_t threads, const std::vector<words>& buffers, int number = -1) {
    both results{buffers, buffers};
    std::vector<void*> host, on_device;
    for (auto& b : results.cpu)
      host.push_back(b.data());
    for (const auto& b : buffers) {
      void* p = nullptr;
      EXPECT_EQ(cudaMalloc(&p, 4 * b.size()), cudaSuccess);
      EXPECT_EQ(cudaMemcpy(p, b.data(), 4 * b.size(), cudaMemcpyHostToDevice), cudaSuccess);
      on_device.push_back(p);
    }
    for (auto* pointers : {&host, &on_device}) {
      std::vector<void*> arguments;
      for (auto& p : *pointers)
        arguments.push_back(&p);
      if (number >= 0) arguments.push_back(&number);
      const kernel_library& library = pointers == &host ? *on_cpu_ : *on_gpu_;
      library.launch(library.find(kernel).value(), {1, 1, 1}, {threads, 1, 1}, 0, arguments.data(), 1);
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      auto& b = results.gpu[i];
      EXPECT_EQ(cudaMemcpy(b.data(), on_device[i], 4 * b.size(), cudaMemcpyDeviceToHost), cudaSuccess);
      EXPECT_EQ(cudaFree(on_device[i]), cudaSuccess);
    }
    return results;
  }

  static words random_floats(std::size_t n, float low, float high) {
    static std::mt19937 random(11);
    std::uniform_real_distribution<float> draw(low, high);
    words x(n);
    for (auto& v : x)
      v = std::bit_cast<uint32_t>(draw(random));
    return x;
  }
  // Pairs that are ordinary numbers both as float16 and as bfloat16: magnitudes from 1/4 to 2 and near it.
  static words random_halves(std::size_t n) {
    static std::mt19937 random(12);
    words x(n);
    for (auto& v : x)
      v = (static_cast<uint32_t>(random()) & 0x83ff83ffu) | 0x3c003c00u;
    return x;
  }
  // Sums of another order: a few units in the last place of the largest sum.
  static void expect_near(const words& a, const words& b) {
    ASSERT_EQ(a.size(), b.size());
    float largest = 0;
    for (const uint32_t v : a)
      largest = std::max(largest, std::abs(std::bit_cast<float>(v)));
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(std::bit_cast<float>(a[i]), std::bit_cast<float>(b[i]), 2e-6f * largest) << i;
  }

  static std::unique_ptr<kernel_library> on_cpu_, on_gpu_;
};
std::unique_ptr<kernel_library> tensor_cores::on_cpu_, tensor_cores::on_gpu_;

TEST_F(tensor_cores, round_floats_as_the_cpu_device_does) {
  words x = random_floats(250, -3, 3);
  for (uint32_t bits = 0x3f800000u; x.size() < 700; bits += 0x7ffu)
    x.push_back(bits ^ (x.size() % 2 << 31));
  for (const uint32_t bits : {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u,
                              0x7f7fffffu, 1u, 0x1000u, 0xfffu, 0x807fffffu})
    x.push_back(bits);
  const auto y = run("round_to_tf32", 1024, {x, words(x.size())}, static_cast<int>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(y.cpu[1][i], y.gpu[1][i]) << fmt::format("{:#x}: {:#x} and {:#x}", x[i], y.cpu[1][i], y.gpu[1][i]);
}

TEST_F(tensor_cores, multiply_as_the_cpu_device_does) {
  const auto c = random_floats(128, -2, 2);
  const auto tf32 = run("product_tf32", 32, {random_floats(128, -2, 2), random_floats(64, -2, 2), c, words(128)});
  expect_near(tf32.cpu[3], tf32.gpu[3]);
  const auto halves =
      run("products_of_half_types", 32, {random_halves(128), random_halves(64), c, words(128), words(128)});
  expect_near(halves.cpu[3], halves.gpu[3]);
  expect_near(halves.cpu[4], halves.gpu[4]);
  const auto from_shared = run("product_from_shared", 32, {random_halves(128), random_halves(64), words(128)});
  expect_near(from_shared.cpu[2], from_shared.gpu[2]);
}

TEST_F(tensor_cores, load_and_copy_the_same_words) {
  const auto x = random_halves(128);
  const auto loaded = run("loads", 32, {x, words(384)});
  EXPECT_EQ(loaded.cpu[1], loaded.gpu[1]);
  for (const int real : {0, 20, 32}) {
    const auto copied = run("copies", 32, {x, words(224)}, real);
    EXPECT_EQ(copied.cpu[1], copied.gpu[1]) << real;
  }
}

TEST_F(tensor_cores, a_pipeline_gives_the_same_product_rounded_or_not) {
  for (const int k : {8, 16, 32, 88}) {
    const auto elements = static_cast<std::size_t>(32 * k);
    const std::vector<words> buffers{random_floats(elements, 1, 2), random_floats(elements, 1, 2), words(1024)};
    for (const char* kernel : {"pipeline", "pipeline_unrounded"}) {
      const auto y = run(kernel, 128, buffers, k);
      expect_near(y.cpu[2], y.gpu[2]);
    }
  }
}

}  // namespace
}  // namespace cudal1
