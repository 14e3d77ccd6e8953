// Lowered programs compute what the task's program computes: with the real compiler, kernels and interpreter.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/base/unique_fd.hpp"
#include "policy/search/starting_schedules.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cpu/runtime/object_library.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "tests/policy/pool_tasks.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

template <class T>
T value_of(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

std::vector<schedule> first_schedules(const task& t, const lowering_target& target) {
  std::vector<schedule> out = whole_schedules(t, target);
  for (auto& s : further_schedules(t, target, out))
    out.push_back(std::move(s));
  return out;
}

enum class values { normal, wide, special, special_finite };

// A program loaded into this process, with its kernels.
class loaded {
 public:
  explicit loaded(const program& p) {
    static const auto compiler = [] {
      host_compiler_options options;
      options.allow_weak_confinement = true;
      return value_of(host_compiler::create(options));
    }();
    checked_program checked = value_of(check_program(p));
    const std::string object = value_of(compiler->compile(checked)).object;
    if (!object.empty()) {
      const unique_fd file(::memfd_create("object", MFD_CLOEXEC));
      if (::write(file.get(), object.data(), object.size()) != static_cast<ssize_t>(object.size()))
        throw std::runtime_error("no memory file");
      kernels_ = value_of(load_object(file.get()));
    }
    run_ = value_of(interpreter::load(std::move(checked), kernels_.get()));
  }
  void set_weights(const std::vector<tensor_view>& weights) {
    if (auto bound = run_->set_weights(weights); !bound) throw std::runtime_error(bound.error().message);
  }
  std::vector<std::vector<float>> call(const std::vector<tensor_view>& inputs) {
    if (auto called = run_->call(inputs); !called) throw std::runtime_error(called.error().message);
    std::vector<std::vector<float>> out;
    for (const auto& o : run_->outputs()) {
      const auto* data = static_cast<const float*>(o.data);
      out.emplace_back(data, data + o.type.numel());
    }
    run_->release();
    return out;
  }

 private:
  std::unique_ptr<kernel_library> kernels_;
  std::unique_ptr<interpreter> run_;
};

std::vector<float> drawn(const tensor_declaration& d, const input_spec& spec, values kind, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(d.type.numel()));
  for (auto& v : out)
    v = normal(random) * (kind == values::wide ? 10.0f : 1.0f);
  if (kind == values::special || kind == values::special_finite) {
    const float most = kind == values::special ? std::numeric_limits<float>::infinity() : 1e30f;
    const float odd[] = {std::nanf(""), most, -most, 0.0f, -0.0f, 88.0f, -88.0f, 1e-30f};
    for (std::size_t i = 0; i < std::size(odd) && i * 17 < out.size(); ++i)
      out[i * 17] = odd[i];
  }
  for (const auto f : spec.facts) {
    const auto columns = static_cast<std::size_t>(d.type.shape.back());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (f == fact::diagonal && i / columns != i % columns) out[i] = 0;
      if (f == fact::upper_triangular && i / columns > i % columns) out[i] = 0;
      if (f == fact::non_negative) out[i] = std::abs(out[i]) + 0.1f;
    }
  }
  return out;
}

// Relative to the value and to the typical size of all values: a running sum close to zero has the error of its terms.
void expect_close(const std::vector<float>& a, const std::vector<float>& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size()) << where;
  double square = 0;
  for (const float v : a)
    square += std::isfinite(v) ? static_cast<double>(v) * v : 0.0;
  const double size = std::sqrt(square / static_cast<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isinf(a[i])) {
      ASSERT_TRUE(std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i])
          << where << ", element " << i << ": " << a[i] << " and " << b[i];
    } else {
      ASSERT_NEAR(a[i], b[i], 2e-6 * (1 + size) + 1e-5 * std::abs(a[i])) << where << ", element " << i;
    }
  }
}

// A program lowered for a GPU, changed so that the CPU can run it: the same kernel source, library products in float32.
program runnable(program p) {
  p.how.graph = false;
  for (auto& s : p.steps) {
    if (auto* call = std::get_if<aten_step>(&s)) call->precision.clear();
  }
  return p;
}

void compare(const task& t, const schedule& s, const std::vector<values>& kinds,
             const lowering_target& target = for_cpu()) {
  loaded reference(t.reference.text);
  loaded variant(runnable(value_of(lower(t, s, target)).checked.text));
  std::mt19937_64 random(5);
  std::vector<std::vector<float>> weight_memory;
  std::vector<tensor_view> weights;
  for (std::size_t i = 0; i < t.weights.size(); ++i)
    weight_memory.push_back(drawn(t.reference.text.weights[i], t.weights[i], values::normal, random));
  for (std::size_t i = 0; i < t.weights.size(); ++i)
    weights.push_back({t.reference.text.weights[i].type, weight_memory[i].data()});
  reference.set_weights(weights);
  variant.set_weights(weights);
  for (const values draw : kinds) {
    std::vector<std::vector<float>> memory;
    std::vector<tensor_view> inputs;
    for (std::size_t i = 0; i < t.inputs.size(); ++i)
      memory.push_back(drawn(t.reference.text.inputs[i], t.inputs[i], draw, random));
    for (std::size_t i = 0; i < t.inputs.size(); ++i)
      inputs.push_back({t.reference.text.inputs[i].type, memory[i].data()});
    const auto expected_values = reference.call(inputs);
    const auto got = variant.call(inputs);
    ASSERT_EQ(expected_values.size(), got.size());
    for (std::size_t o = 0; o < got.size(); ++o)
      expect_close(expected_values[o], got[o],
                   t.name + ", " + print_schedule(s) + ", draw " + std::to_string(static_cast<int>(draw)));
  }
}

TEST(Semantics, TheFirstWholeScheduleOfEverySmallTaskGivesTheReferencesValues) {
  for (const auto& t : small_tasks()) {
    const auto schedules = first_schedules(t, for_cpu());
    if (t.name == "plain_product") continue;  // no move is legal there
    ASSERT_FALSE(schedules.empty()) << t.name;
    if (t.name == "column_scale") {
      compare(t, schedules.front(), {values::normal, values::wide});
    } else if (t.name == "gelu") {
      // The reference uses oneDNN, which returns NaN for infinity with AVX-512 (otherwise infinity, as our kernels do).
      compare(t, schedules.front(), {values::normal, values::wide, values::special_finite});
    } else {
      compare(t, schedules.front(), {values::normal, values::wide, values::special});
    }
  }
}

// Moves that skip zeros assume finite inputs: 0 times infinity is NaN in the full product.
bool assumes_finite(const task& t, const schedule& s) {
  const auto leaves_zeros_out = [](const input_spec& i) { return !i.facts.empty(); };
  return std::any_of(t.inputs.begin(), t.inputs.end(), leaves_zeros_out) ||
         std::any_of(s.moves.begin(), s.moves.end(),
                     [](const move& m) { return m.name == "pull_sum_through_linear" || m.name == "constant"; });
}

TEST(Semantics, TheFirstWholeScheduleOfEveryBuiltInTaskGivesTheReferencesValuesAtSmallSizes) {
  int compared = 0;
  for (const auto& t : shrunk_builtin_tasks()) {
    const auto& inputs = t.reference.text.inputs;
    // What is drawn here are floats; patterns_test judges losses and tables with indices.
    if (std::ranges::any_of(inputs, [](const auto& i) { return i.type.type != dtype::float32; })) continue;
    const auto schedules = first_schedules(t, for_cpu());
    if (schedules.empty()) continue;
    std::vector<values> kinds{values::normal, values::wide};
    if (!assumes_finite(t, schedules.front())) kinds.push_back(values::special);
    compare(t, schedules.front(), kinds);
    ++compared;
  }
  EXPECT_GE(compared, 28);
}

TEST(Semantics, EveryParameterOfARowKernelGivesTheReferencesValues) {
  for (const char* name : {"softmax_rows", "softmax_channels", "two_outputs"}) {
    const auto schedules = first_schedules(small(name), for_cpu());
    for (std::size_t i = 0; i < schedules.size(); i += 3)
      compare(small(name), schedules[i], {values::normal, values::special});
  }
}

// Norms divide by what is left: rounding it to anything but 0 becomes a difference of 1e-4 and more.
TEST(Semantics, NothingIsLeftOfEqualElementsWithoutTheirMean) {
  const task t = value_of(read_task(
      R"({"format": 1, "name": "equal", "summary": "s", "family": "f",
          "inputs": [{"name": "x", "dtype": "float32", "shape": [32, 3]}],
          "steps": [{"aten": "aten::mean.dim", "args": {"self": "x", "dim": [1], "keepdim": true}, "out": ["m"]},
                    {"aten": "aten::sub.Tensor", "args": {"self": "x", "other": "m"}, "out": ["y"]}],
          "outputs": ["y"]})",
      "cpu"));
  std::vector<float> x;
  for (int i = 0; i < 96; ++i)
    x.push_back(1.0f + static_cast<float>(i - i % 3) / 192);  // few bits: three times as much is exact
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto lowered = value_of(lower(t, value_of(parse_schedule("row_kernel(steps=0..1)")), *target));
    loaded variant(runnable(lowered.checked.text));
    EXPECT_EQ(variant.call({{t.reference.text.inputs[0].type, x.data()}}).at(0), std::vector<float>(96, 0.0f));
  }
}

// With any number of kernels.
TEST(Semantics, TheFirstWholeScheduleOfANetworkFusesAllItsChainsAndGivesTheReferencesValues) {
  const task t = chained_network(60);
  const auto start = std::chrono::steady_clock::now();
  const auto whole = whole_schedules(t, for_cpu());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  ASSERT_FALSE(whole.empty());
  const program lowered = value_of(lower(t, whole.front(), for_cpu())).checked.text;
  for (const auto& s : lowered.steps) {
    const auto* call = std::get_if<aten_step>(&s);
    EXPECT_TRUE(call == nullptr || call->op == "aten::mm") << call->op;
  }
  compare(t, whole.front(), {values::normal});
}

// The code for GPUs, run on the CPU: the same source with exact barriers, shuffles and shared memory.
TEST(CudaSemantics, TheFirstWholeScheduleOfEverySmallTaskGivesTheReferencesValues) {
  const auto& all = small_tasks();
  // Pointwise kernels have the same expressions on every device: only the last few of those are tested.
  const auto first = std::find_if(all.begin(), all.end(), [](const task& t) { return t.name == "gelu_tanh"; });
  for (const auto& t : std::span(first, all.end())) {
    const auto schedules = whole_schedules(t, for_cuda());
    ASSERT_FALSE(schedules.empty()) << t.name;
    std::vector<values> kinds{values::normal};
    if (!assumes_finite(t, schedules.front())) kinds.push_back(values::special);
    compare(t, schedules.front(), kinds, for_cuda());
  }
}

TEST(CudaSemantics, TheWholeSchedulesOfEveryBuiltInTaskGiveTheReferencesValuesAtSmallSizes) {
  int compared = 0;
  for (const auto& t : shrunk_builtin_tasks()) {
    const auto schedules = whole_schedules(t, for_cuda());
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      const auto& moves = schedules[i].moves;
      const bool splits = std::any_of(moves.begin(), moves.end(), [](const move& m) { return m.name == "precision"; });
      if ((i > 0 && !splits) || moves.size() < 2) continue;
      compare(t, schedules[i], {values::normal}, for_cuda());
      ++compared;
    }
  }
  EXPECT_GE(compared, 33);
}

TEST(CudaSemantics, OddRowLengthsAndFewLongRowsGiveTheReferencesValues) {
  for (const auto& t : row_tasks()) {
    const auto schedules = whole_schedules(t, for_cuda());
    ASSERT_FALSE(schedules.empty()) << t.name;
    std::vector<values> kinds{values::normal};
    if (!assumes_finite(t, schedules.front())) kinds.push_back(values::special);
    compare(t, schedules.front(), kinds, for_cuda());
  }
}

TEST(Semantics, WhatIsProvedGivesTheReferencesValues) {
  const auto proved = [](const std::string& inputs, const std::string& steps, const std::string& schedule) {
    const task t = value_of(read_task(R"({"format": 1, "name": "proved", "summary": "s", "family": "f", )" + inputs +
                                          R"(, "steps": [)" + steps + R"(], "outputs": ["y"]})",
                                      "cpu"));
    for (const auto* target : {&for_cpu(), &for_cuda()})
      compare(t, value_of(parse_schedule(schedule)), {values::normal, values::wide}, *target);
  };
  const std::string layer =
      R"("inputs": [{"name": "x", "dtype": "float32", "shape": [16, 32]}],
         "weights": [{"name": "w", "dtype": "float32", "shape": [24, 32]}, {"name": "b", "dtype": "float32", "shape": [24]},
                     {"name": "c", "dtype": "float32", "shape": [24]}])";
  const std::string mean =
      R"({"aten": "aten::mean.dim", "args": {"self": "d", "dim": [1], "keepdim": true}, "out": ["y"]})";
  proved(layer,
         R"({"aten": "aten::linear", "args": {"input": "x", "weight": "w", "bias": "b"}, "out": ["l"]},
            {"aten": "aten::sub.Tensor", "args": {"self": "l", "other": "c"}, "out": ["d"]},)" +
             mean,
         "pull_sum_through_linear(step=2)");
  proved(layer,
         R"({"aten": "aten::linear", "args": {"input": "x", "weight": "w"}, "out": ["l"]},
            {"aten": "aten::sub.Tensor", "args": {"self": "l", "other": "c"}, "out": ["e"]},
            {"aten": "aten::add.Tensor", "args": {"self": "e", "other": "b"}, "out": ["d"]},)" +
             mean,
         "pull_sum_through_linear(step=3)");
  proved(R"("inputs": [{"name": "x", "dtype": "float32", "shape": [6, 1, 40]}])",
         R"({"aten": "aten::softmax.int", "args": {"self": "x", "dim": 1}, "out": ["s"]},
            {"aten": "aten::tanh", "args": {"self": "s"}, "out": ["t"]},
            {"aten": "aten::mul.Scalar", "args": {"self": "t", "other": 2.0}, "out": ["y"]})",
         "constant(step=2); drop(step=1); drop(step=0)");
  proved(R"("inputs": [{"name": "x", "dtype": "float32", "shape": [8, 1]}])",
         R"({"aten": "aten::logsumexp", "args": {"self": "x", "dim": [1], "keepdim": true}, "out": ["l"]},
            {"aten": "aten::neg", "args": {"self": "l"}, "out": ["y"]})",
         "drop(step=0)");
}

TEST(CudaSemantics, PoolsGiveTheReferencesValuesOfNaNsAndInfinitiesToo) {
  for (const auto& c : pool_cases())
    compare(c.what, value_of(parse_schedule(c.schedule)), {values::normal, values::special}, for_cuda());
}

TEST(CudaSemantics, EveryParameterOfARowKernelGivesTheReferencesValues) {
  for (const char* name : {"softmax_rows", "softmax_channels", "two_outputs", "cumsum_rows", "sum_columns"}) {
    const auto schedules = first_schedules(small(name), for_cuda());
    for (std::size_t i = 0; i < schedules.size(); i += 4)
      compare(small(name), schedules[i], {values::normal, values::special}, for_cuda());
  }
}

}  // namespace
}  // namespace cudal1::test
