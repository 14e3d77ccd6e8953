// The dialect's functions for tensor cores and asynchronous copies: a GPU computes what the cpu device computes.
#include <array>
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
#include "tests/sandbox/shared_tile_kernels.hpp"
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
    major_ = major;
    architecture_ = fmt::format("sm_{}{}", major, minor);
    on_gpu_ = for_gpu(test::tensor_core_kernels);
    on_cpu_ = for_cpu(test::tensor_core_kernels);
    ASSERT_TRUE(on_gpu_ && on_cpu_);
  }
  static std::string cubin_for_gpu(std::string_view source, const std::string& architecture = architecture_) {
    const auto text = cuda_kernel_text(source);
    EXPECT_TRUE(text) << text.error().message;
    if (!text) return "";
    const auto cubin = compile_with_nvrtc(*text, architecture, {}, 16 << 10);
    EXPECT_EQ(cubin.status, compile_status::compiled) << cubin.log;
    return cubin.cubin;
  }
  static std::unique_ptr<kernel_library> for_gpu(std::string_view source) {
    return load_cubin(cubin_for_gpu(source), device().index()).value();
  }
  static std::unique_ptr<kernel_library> for_cpu(const char* source) {
    checked_program p;
    p.text.source = source;
    host_compiler_options options;
    options.allow_weak_confinement = true;
    const auto compiler = host_compiler::create(std::move(options)).value();
    const auto compiled = compiler->compile(p);
    EXPECT_TRUE(compiled) << compiled.error().message;
    if (!compiled) return nullptr;
    const unique_fd file(::memfd_create("object", MFD_CLOEXEC));
    EXPECT_EQ(::write(file.get(), compiled->object.data(), compiled->object.size()),
              static_cast<ssize_t>(compiled->object.size()));
    return load_object(file.get()).value();
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
    return run(*on_cpu_, *on_gpu_, kernel, {1, 1, 1}, threads, buffers, number);
  }
  static both run(const kernel_library& on_cpu, const kernel_library& on_gpu, const std::string& kernel,
                  const std::array<int64_t, 3>& grid, int64_t threads, const std::vector<words>& buffers,
                  int number = -1, int64_t shared_bytes = 0) {
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
      const kernel_library& library = pointers == &host ? on_cpu : on_gpu;
      library.launch({library.find(kernel).value(), grid, {threads, 1, 1}, shared_bytes}, arguments.data(), 1);
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

  static std::string architecture_;
  static int major_;
  static std::unique_ptr<kernel_library> on_cpu_, on_gpu_;
};
std::string tensor_cores::architecture_;
int tensor_cores::major_ = 0;
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

TEST_F(tensor_cores, warpgroups_multiply_as_on_the_cpu_device) {
  if (architecture_ != "sm_90") GTEST_SKIP() << "this GPU has no products of warpgroups";
  const auto on_cpu = for_cpu(test::warpgroup_kernels);
  const auto on_gpu = load_cubin(cubin_for_gpu(test::warpgroup_kernels, "sm_90a"), device().index()).value();
  ASSERT_TRUE(on_cpu && on_gpu);
  for (const std::size_t n : {64, 128, 192, 256})
    for (const char* type : {"half", "bfloat16", "half_transposed", "bfloat16_transposed"}) {
      const std::vector<words> buffers{random_halves(128 * 32), random_halves(n * 32), random_floats(128 * n, -2, 2),
                                       words(128 * n), words(128 * n)};
      const std::string kernel = "product_" + std::to_string(n) + "k16_" + type;
      const auto y = run(*on_cpu, *on_gpu, kernel, {1, 1, 1}, 256, buffers, -1, static_cast<int64_t>((128 + n) * 128));
      expect_near(y.cpu[3], y.gpu[3]);
      expect_near(y.cpu[4], y.gpu[4]);
    }
}

TEST_F(tensor_cores, warpgroups_multiply_quads_as_on_the_cpu_device) {
  if (architecture_ != "sm_90") GTEST_SKIP() << "this GPU has no products of warpgroups";
  const auto on_cpu = for_cpu(test::quad_kernels);
  const auto on_gpu = load_cubin(cubin_for_gpu(test::quad_kernels, "sm_90a"), device().index()).value();
  ASSERT_TRUE(on_cpu && on_gpu);
  for (const std::size_t n : {16, 32, 64}) {
    const std::vector<words> buffers{random_floats(136 * 16, -2, 2), random_floats(n * 16, -2, 2),
                                     random_floats(128 * n, -2, 2), words(128 * n)};
    const auto y = run(*on_cpu, *on_gpu, "quads_" + std::to_string(n), {1, 1, 1}, 256, buffers, -1,
                       static_cast<int64_t>((136 + n) * 64));
    expect_near(y.cpu[3], y.gpu[3]);
  }
}

TEST_F(tensor_cores, tiles_multiply_as_on_the_cpu_device) {
  std::string source;
  for (const auto& p : test::tile_products())
    source += test::tile_product_kernel(p);
  const auto on_cpu = for_cpu(source.c_str()), on_gpu = for_gpu(source);
  ASSERT_TRUE(on_cpu && on_gpu);
  constexpr std::size_t k_left = test::tile_rows * test::tile_terms, k_right = test::tile_terms * test::tile_columns;
  for (const auto& p : test::tile_products()) {
    SCOPED_TRACE(p.kernel());
    const std::vector<words> buffers{p.is_half() ? random_halves(k_left / 2) : random_floats(k_left, -2, 2),
                                     p.is_half() ? random_halves(k_right / 2) : random_floats(k_right, -2, 2),
                                     words(test::tile_rows * test::tile_columns)};
    const auto y =
        run(*on_cpu, *on_gpu, p.kernel(), test::tile_grid, test::tile_block[0], buffers, -1, test::tile_shared_bytes);
    expect_near(y.cpu[2], y.gpu[2]);
  }
}

TEST_F(tensor_cores, uneven_tiles_multiply_as_on_the_cpu_device) {
  const auto on_cpu = for_cpu(test::uneven_tile_kernel), on_gpu = for_gpu(test::uneven_tile_kernel);
  ASSERT_TRUE(on_cpu && on_gpu);
  const auto y =
      run(*on_cpu, *on_gpu, "uneven", {1, 1, 1}, 96,
          {random_floats(48 * 40, -2, 2), random_floats(40 * 24, -2, 2), words(48 * 24), words(24 * 24), words(96)});
  expect_near(y.cpu[2], y.gpu[2]);
  expect_near(y.cpu[4], y.gpu[4]);
  const auto halves = run(*on_cpu, *on_gpu, "uneven_halves", {1, 1, 1}, 96,
                          {random_halves(48 * 24), random_halves(24 * 24), words(48 * 24)});
  expect_near(halves.cpu[2], halves.gpu[2]);
}

TEST_F(tensor_cores, warpgroups_multiply_tiles_as_on_the_cpu_device) {
  if (architecture_ != "sm_90") GTEST_SKIP() << "this GPU has no products of warpgroups";
  const auto source = test::warpgroup_tile_kernel("mma_half") + test::warpgroup_tile_kernel("mma_bfloat16");
  const auto on_cpu = for_cpu(source.c_str());
  const auto on_gpu = load_cubin(cubin_for_gpu(source, "sm_90a"), device().index()).value();
  ASSERT_TRUE(on_cpu && on_gpu);
  for (const char* kernel : {"mma_half_by_warpgroups", "mma_bfloat16_by_warpgroups"}) {
    const std::vector<words> buffers{random_halves(test::tile_rows * test::tile_terms / 2),
                                     random_halves(test::tile_columns * test::tile_terms / 2),
                                     words(test::tile_rows * test::tile_columns)};
    const auto y = run(*on_cpu, *on_gpu, kernel, {1, 1, 1}, 256, buffers, -1, test::warpgroup_shared_bytes);
    expect_near(y.cpu[2], y.gpu[2]);
  }
}

TEST_F(tensor_cores, clusters_exchange_as_on_the_cpu_device) {
  if (major_ < 9) GTEST_SKIP() << "this GPU has no clusters";
  const auto on_cpu = for_cpu(test::cluster_kernels), on_gpu = for_gpu(test::cluster_kernels);
  ASSERT_TRUE(on_cpu && on_gpu);
  const std::vector<words> buffers{random_floats(24 * 64, -1, 1), words(24 * 128), words(24)};
  const auto y = run(*on_cpu, *on_gpu, "exchange", {6, 4, 1}, 64, buffers);
  EXPECT_EQ(y.cpu[1], y.gpu[1]);
  EXPECT_EQ(y.cpu[2], y.gpu[2]);
  const auto alone = run(*on_cpu, *on_gpu, "alone", {3, 1, 1}, 64, {words(3)});
  EXPECT_EQ(alone.cpu[0], alone.gpu[0]);

  // In a graph, whose launches get other pointers at each call.
  const auto p =
      read_program(R"({"format":1,"name":"exchange","inputs":[{"name":"x","dtype":"float32","shape":[1536]}],)"
                   R"("steps":[{"alloc":"y","dtype":"float32","shape":[3072]},)"
                   R"({"alloc":"r","dtype":"int32","shape":[24]},)"
                   R"({"launch":"exchange","grid":[6,4,1],"block":[64,1,1],)"
                   R"("args":[{"in":"x"},{"out":"y"},{"out":"r"}]}],"outputs":["y","r"]})"
                   "\n---\n" +
                   std::string(test::cluster_kernels))
          .value();
  const given_memory none = draw({}, {}, 0), x = draw(p.inputs, {input_spec{}}, 1),
                     other = draw(p.inputs, {input_spec{}}, 2);
  const auto object = cubin_for_gpu(test::cluster_kernels);
  const auto stepwise = load(p, none, object), graph = load(with_graph(p), none, object);
  EXPECT_EQ(outputs_of(*stepwise, x, 3), outputs_of(*graph, x, 4));
  EXPECT_EQ(outputs_of(*stepwise, other, 5), outputs_of(*graph, other, 6));
  EXPECT_NE(outputs_of(*graph, x, 7), outputs_of(*graph, other, 8));
}

}  // namespace
}  // namespace cudal1
