#include "sandbox/interpreter/interpreter.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/interpreter/boxed_values.hpp"

namespace cudal1 {
namespace {

std::unique_ptr<interpreter> loaded(const std::string& text, const kernel_library* kernels = nullptr) {
  auto checked = check_program_text(text);
  EXPECT_TRUE(checked) << (checked ? "" : checked.error().message);
  auto made = interpreter::load(std::move(*checked), kernels);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return std::move(*made);
}

const char* const chain = R"({"format":1,"name":"chain",
  "inputs":[{"name":"x","dtype":"float32","shape":[4]}],
  "weights":[{"name":"w","dtype":"float32","shape":[4]}],
  "setup":[{"aten":"aten::mul.Scalar","args":{"self":"w","other":2.0},"out":["w2"]}],
  "steps":[{"aten":"aten::add.Tensor","args":{"self":"x","other":"w2"},"out":["a"]},
           {"aten":"aten::relu","args":{"self":"a"},"out":["y"]},
           {"aten":"aten::max.dim","args":{"self":"a","dim":0},"out":["m","i"]}],
  "outputs":["y","i"]})";

TEST(interpreter, runs_setup_once_and_steps_for_every_call) {
  auto run = loaded(chain);
  float x[] = {1, -9, 3, 4}, other_x[] = {0, 0, 0, 9}, w[] = {1, 1, 1, 1}, other_w[] = {5, 5, 5, 5};
  const auto type = contiguous(dtype::float32, {4});
  const tensor_view weight{type, w}, second_weight{type, other_w}, input{type, x}, second{type, other_x};
  EXPECT_EQ(run->call(std::span(&input, 1)).error().code, errc::invalid_argument);  // no weights yet
  ASSERT_TRUE(run->set_weights(std::span(&weight, 1)));
  ASSERT_TRUE(run->call(std::span(&input, 1)));
  ASSERT_EQ(run->outputs().size(), 2u);
  const auto* y = static_cast<const float*>(run->outputs()[0].data);
  EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{3, 0, 5, 6}));
  EXPECT_EQ(*static_cast<const int64_t*>(run->outputs()[1].data), 3);
  ASSERT_TRUE(run->call(std::span(&second, 1)));
  EXPECT_EQ(static_cast<const float*>(run->outputs()[0].data)[3], 11);
  ASSERT_TRUE(run->set_weights(std::span(&second_weight, 1)));
  ASSERT_TRUE(run->call(std::span(&second, 1)));
  EXPECT_EQ(static_cast<const float*>(run->outputs()[0].data)[3], 19);
}

TEST(interpreter, refuses_inputs_of_another_type_or_number) {
  auto run = loaded(chain);
  float w[] = {1, 1, 1, 1};
  const tensor_view weight{contiguous(dtype::float32, {4}), w}, wrong{contiguous(dtype::float64, {4}), w},
      missing{contiguous(dtype::float32, {4}), nullptr};
  ASSERT_TRUE(run->set_weights(std::span(&weight, 1)));
  EXPECT_EQ(run->call({}).error().code, errc::invalid_argument);
  EXPECT_EQ(run->call(std::span(&wrong, 1)).error().message, "input x is float64[4], and is declared as float32[4]");
  EXPECT_EQ(run->call(std::span(&missing, 1)).error().code, errc::invalid_argument);
}

TEST(interpreter, an_index_out_of_range_is_a_fault_with_the_step) {
  for (const char* step : {R"({"aten":"aten::embedding","args":{"weight":"x","indices":"i"},"out":["y"]})",
                           R"({"aten":"aten::gather","args":{"self":"x","dim":1,"index":"i"},"out":["y"]})",
                           R"({"aten":"aten::gather","args":{"self":"x","dim":0,"index":"i"},"out":["y"]})",
                           R"({"aten":"aten::cross_entropy_loss","args":{"self":"x","target":"j"},"out":["y"]})",
                           R"({"aten":"aten::nll_loss","args":{"self":"x","target":"j"},"out":["y"]})",
                           R"({"aten":"aten::index_select","args":{"self":"x","dim":0,"index":"j"},"out":["y"]})"}) {
    SCOPED_TRACE(step);
    auto run = loaded(std::string(R"({"format":1,"name":"indices",
      "inputs":[{"name":"x","dtype":"float32","shape":[3,5]},{"name":"i","dtype":"int64","shape":[3,2]},
                {"name":"j","dtype":"int64","shape":[3]}],"steps":[)") +
                      step + R"(],"outputs":["y"]})");
    std::vector<float> x(15, 1);
    for (const int64_t bad : {int64_t{5}, int64_t{-1}, int64_t{1} << 40, std::numeric_limits<int64_t>::min()}) {
      std::vector<int64_t> i{0, 1, 2, 0, bad, 1}, j{0, bad, 1};
      const std::vector<tensor_view> inputs{{contiguous(dtype::float32, {3, 5}), x.data()},
                                            {contiguous(dtype::int64, {3, 2}), i.data()},
                                            {contiguous(dtype::int64, {3}), j.data()}};
      const auto ran = run->call(inputs);
      ASSERT_FALSE(ran) << bad;
      EXPECT_EQ(ran.error().code, errc::variant_fault);
      EXPECT_NE(ran.error().message.find("step 1 (aten::"), std::string::npos) << ran.error().message;
    }
  }
}

// The program's kernels, compiled by the host compiler.
std::unique_ptr<kernel_library> compiled(const std::string& text) {
  static const auto compiler = host_compiler::create({});
  if (!compiler) throw std::runtime_error(compiler.error().message);
  const auto code = (*compiler)->compile(check_program_text(text).value());
  if (!code) throw std::runtime_error(code.error().message);
  const unique_fd file(memfd_create("kernels", MFD_CLOEXEC));
  if (write(file.get(), code->object.data(), code->object.size()) != static_cast<ssize_t>(code->object.size()))
    throw std::runtime_error("the object could not be written");
  return std::move(load_object(file.get()).value());
}

TEST(interpreter, launches_get_pointers_and_scalars_and_mix_with_operators) {
  const std::string text = R"({"format":1,"name":"mixed",
    "inputs":[{"name":"x","dtype":"float32","shape":[2,3]}],
    "steps":[{"alloc":"y","dtype":"float32","shape":[6]},
             {"aten":"aten::flatten.using_ints","args":{"self":"x"},"out":["flat"]},
             {"launch":"add","grid":[1,1,1],"block":[32,1,1],"args":[{"in":"flat"},{"out":"y"},{"f32":0.5},{"i32":6}]},
             {"aten":"aten::sum","args":{"self":"y"},"out":["z"]}],
    "outputs":["y","z"]}
---
__global__ void add(const float* x, float* y, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + by;
})";
  const auto kernels = compiled(text);
  auto run = loaded(text, kernels.get());
  float x[] = {1, 2, 3, 4, 5, 6};
  const tensor_view input{contiguous(dtype::float32, {2, 3}), x};
  for (int i = 0; i < 3; ++i) {
    const auto ran = run->call(std::span(&input, 1));
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(static_cast<const float*>(run->outputs()[0].data)[5], 6.5f);
    EXPECT_EQ(*static_cast<const float*>(run->outputs()[1].data), 24.0f);
  }
}

TEST(interpreter, a_launch_without_kernels_is_refused_when_loaded) {
  auto checked = check_program_text(R"({"format":1,"name":"k","inputs":[{"name":"x","dtype":"float32","shape":[2]}],
    "steps":[{"alloc":"y","dtype":"float32","shape":[2]},
             {"launch":"add","grid":[1,1,1],"block":[2,1,1],"args":[{"in":"x"},{"out":"y"}]}],"outputs":["y"]}
---
__global__ void add(const float* x, float* y) {})");
  ASSERT_TRUE(checked) << checked.error().message;
  const auto made = interpreter::load(std::move(*checked), nullptr);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::invalid_argument);
}

// The arena can be installed once per process, so tests that need it run in a child, which prints its failures.
void in_child(const std::function<void()>& body) {
  const auto child = fork();
  if (child == 0) {
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

void* install(int64_t bytes) {
  auto* memory =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_TRUE(install_arena({memory, bytes, 3}));
  return memory;
}

const char* const three_steps = R"({"format":1,"name":"three",
  "inputs":[{"name":"x","dtype":"float32","shape":[256,1024]}],
  "steps":[{"aten":"aten::exp","args":{"self":"x"},"out":["a"]},{"aten":"aten::neg","args":{"self":"a"},"out":["b"]},
           {"aten":"aten::abs","args":{"self":"b"},"out":["c"]},{"aten":"aten::sqrt","args":{"self":"c"},"out":["d"]}],
  "outputs":["d"]})";

TEST(interpreter_in_an_arena, frees_memory_after_its_last_use_and_moves_outputs) {
  in_child([] {
    auto* memory = static_cast<char*>(install(16 << 20));
    auto run = loaded(three_steps);
    std::vector<float> x(256 * 1024, 0.5f);
    const tensor_view input{contiguous(dtype::float32, {256, 1024}), x.data()};
    void* last = nullptr;
    for (uint64_t call = 0; call < 5; ++call) {
      run->release();
      EXPECT_EQ(arena_bytes_in_use(), 0);
      arena_begin_call(call);
      ASSERT_TRUE(run->call(std::span(&input, 1)));
      auto* out = run->outputs()[0].data;
      EXPECT_TRUE(out > memory && out < memory + (16 << 20));
      EXPECT_NE(out, last);
      last = out;
      EXPECT_EQ(arena_peak_bytes(), 2 << 20);  // never more than operand and result of one step
      EXPECT_EQ(arena_bytes_in_use(), 1 << 20);
      EXPECT_TRUE(arena_check_guards().intact);
      EXPECT_NEAR(static_cast<float*>(out)[77], std::exp(0.25f), 1e-6);
    }
    EXPECT_EQ(install_arena({memory, 16 << 20, 0}).error().code, errc::already_exists);
  });
}

TEST(interpreter_in_an_arena, running_out_of_memory_is_a_fault_and_the_next_call_works) {
  in_child([] {
    install(3 << 19);  // 1.5 MiB: one tensor of 1 MiB fits, but not two
    auto run = loaded(three_steps);
    std::vector<float> x(256 * 1024, 0.5f);
    const tensor_view input{contiguous(dtype::float32, {256, 1024}), x.data()};
    const auto ran = run->call(std::span(&input, 1));
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().code, errc::out_of_memory);
    EXPECT_TRUE(ran.error().message.starts_with("out of memory: step 2 (aten::neg)")) << ran.error().message;
    run->release();
    EXPECT_EQ(arena_bytes_in_use(), 0);
  });
}

TEST(interpreter_in_an_arena, memory_that_is_read_before_it_is_written_is_poison) {
  in_child([] {
    install(16 << 20);
    auto run = loaded(R"({"format":1,"name":"reader","inputs":[{"name":"x","dtype":"float32","shape":[4]}],
      "steps":[{"aten":"aten::exp","args":{"self":"x"},"out":["e"]}],"outputs":["e"]})");
    arena_begin_call(9);
    const auto memory = at::detail::empty_cpu({1024}, at::kFloat);
    int zeros = 0;
    for (int i = 0; i < 1024; ++i)
      zeros += memory.const_data_ptr<float>()[i] == 0 ? 1 : 0;
    EXPECT_LT(zeros, 4);
  });
}

TEST(warm_up, starts_no_thread) {
  in_child([] {
    warm_up();
    int threads = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
      ++threads;
    EXPECT_EQ(threads, 1);
  });
}

// Compares the interpreter with direct boxed calls of the same operators.
TEST(interpreter, has_little_overhead_over_its_operators) {
  constexpr int steps = 50, repeats = 200;
  std::string text = R"({"format":1,"name":"many","inputs":[{"name":"v0","dtype":"float32","shape":[64]}],"steps":[)";
  for (int i = 0; i < steps; ++i)
    text += (i ? "," : "") + std::string(R"({"aten":"aten::neg","args":{"self":"v)") + std::to_string(i) +
            R"("},"out":["v)" + std::to_string(i + 1) + R"("]})";
  auto run = loaded(text + R"(],"outputs":["v)" + std::to_string(steps) + R"("]})");
  std::vector<float> x(64, 1);
  const tensor_view input{contiguous(dtype::float32, {64}), x.data()};
  const auto neg = c10::Dispatcher::singleton().findSchemaOrThrow("aten::neg", "");
  const auto seconds = [](auto&& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> differences;
  for (int r = 0; r < repeats; ++r) {
    const double ours = seconds([&] { ASSERT_TRUE(run->call(std::span(&input, 1))); });
    const double by_hand = seconds([&] {
      const c10::InferenceMode no_autograd;
      auto value = wrap(input);
      torch::jit::Stack stack;
      for (int i = 0; i < steps; ++i) {
        stack.clear();
        stack.emplace_back(std::move(value));
        neg.callBoxed(&stack);
        value = std::move(stack[0]).toTensor();
      }
    });
    differences.push_back((ours - by_hand) / steps * 1e6);
  }
  std::nth_element(differences.begin(), differences.begin() + repeats / 2, differences.end());
  const double overhead = differences[repeats / 2];
  std::cout << "interpreter overhead per step: " << overhead << " us\n";
  EXPECT_LT(overhead, 2.0);
}

}  // namespace
}  // namespace cudal1
