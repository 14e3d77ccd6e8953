// The text of exported files. Whether it compiles and runs on a GPU is tested by hand (gpu/check_exports.sh).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "tests/sandbox/program/examples.hpp"
#include "tools/kernelbench/argument_text.hpp"
#include "tools/kernelbench/cpp_text.hpp"
#include "tools/kernelbench/cuda_text.hpp"
#include "tools/kernelbench/device_words.hpp"
#include "tools/kernelbench/fixed_content.hpp"
#include "tools/kernelbench/model_file.hpp"

namespace cudal1::kernelbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class T>
testing::AssertionResult holds(const expected<T>& e) {
  if (e) return testing::AssertionSuccess();
  return testing::AssertionFailure() << e.error().message;
}

checked_program checked(const std::string& text) {
  auto p = check_program_text(text);
  EXPECT_TRUE(holds(p)) << text;
  return p ? std::move(*p) : checked_program();
}

// ---- arguments ------------------------------------------------------------------------------------------------------

struct argument_case {
  std::string type;  // as a schema has it
  json given;
  std::string text;
  std::string declaration;
};

class argument_texts : public testing::TestWithParam<argument_case> {};

TEST_P(argument_texts, have_the_type_of_the_schema) {
  const auto& c = GetParam();
  operator_info info;
  const auto schema = parse_schema("aten::thing.way(" + c.type + " a) -> Tensor");
  ASSERT_TRUE(holds(schema));
  info.schema = *schema;
  const tensor_type type = contiguous(dtype::float32, {2});
  const std::vector<std::pair<std::string, json>> args{{"a", c.given}};
  const auto call = bind_arguments(info, args, [&](const std::string&) { return &type; });
  ASSERT_TRUE(holds(call));
  const auto made = argument_of(*call, 0);
  EXPECT_EQ(made.text, c.text);
  EXPECT_EQ(made.declarations, c.declaration.empty() ? std::vector<std::string>() : std::vector{c.declaration});
}

INSTANTIATE_TEST_SUITE_P(
    of_all_types, argument_texts,
    testing::Values(
        argument_case{"Tensor", "x", "v.x_", ""}, argument_case{"Tensor?", nullptr, "std::nullopt", ""},
        argument_case{"Tensor[]", json::make_array({"x", "y"}), "at::TensorList(a0)",
                      "const at::Tensor a0[] = {v.x_, v.y_};"},
        argument_case{"Tensor?[]", json::make_array({"x", nullptr}),
                      "c10::List<std::optional<at::Tensor>>({std::make_optional(v.x_), std::nullopt})", ""},
        argument_case{"bool", true, "true", ""}, argument_case{"bool?", nullptr, "std::nullopt", ""},
        argument_case{"int", -5, "int64_t{-5}", ""}, argument_case{"SymInt", 5, "int64_t{5}", ""},
        argument_case{"int", std::numeric_limits<int64_t>::min(), "std::numeric_limits<int64_t>::min()", ""},
        argument_case{"float", 1.0, "1.0", ""}, argument_case{"float", 1e-5, "1e-05", ""},
        argument_case{"float", "-inf", "-std::numeric_limits<double>::infinity()", ""},
        argument_case{"float?", "nan", "std::numeric_limits<double>::quiet_NaN()", ""},
        argument_case{"Scalar", 2, "at::Scalar(int64_t{2})", ""}, argument_case{"Scalar", 2.0, "at::Scalar(2.0)", ""},
        argument_case{"Scalar", false, "at::Scalar(false)", ""}, argument_case{"Scalar?", 0.1, "at::Scalar(0.1)", ""},
        argument_case{"str", "a\"b\\", R"("a\"b\\")", ""},
        argument_case{"ScalarType?", "bfloat16", "at::kBFloat16", ""},
        argument_case{"MemoryFormat?", "channels_last_3d", "at::MemoryFormat::ChannelsLast3d", ""},
        argument_case{"Layout?", "strided", "at::kStrided", ""}, argument_case{"Device?", nullptr, "v.device", ""},
        argument_case{"int[]", json::make_array({1, 2}), "ints<at::_ops::thing_way, 0>(a0)",
                      "const int64_t a0[] = {1, 2};"},
        argument_case{"SymInt[2]", 3, "ints<at::_ops::thing_way, 0>(a0)", "const int64_t a0[] = {3, 3};"},
        argument_case{"int[]?", json::make_array(), "ints<at::_ops::thing_way, 0>(at::IntArrayRef())", ""},
        argument_case{"float[]", json::make_array({0.5, 1.0}), "at::ArrayRef<double>(a0)",
                      "const double a0[] = {0.5, 1.0};"},
        argument_case{"bool[3]", json::make_array({true, false, true}), "std::array<bool, 3>{true, false, true}", ""}));

TEST(argument_text, of_reals_is_exact) {
  EXPECT_EQ(real_text(0.1), "0.1");
  EXPECT_EQ(real_text(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(float_text(0.1), "0.1f");
  EXPECT_EQ(float_text(3), "3.0f");
  EXPECT_EQ(float_text(-std::numeric_limits<double>::infinity()), "-std::numeric_limits<float>::infinity()");
}

// ---- the program ----------------------------------------------------------------------------------------------------

std::string program_text(const std::string& execution, const std::string& setup = "") {
  return R"({"format": 1, "name": "p", "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8]}],
    "weights": [{"name": "class", "dtype": "float32", "shape": [8]}],
    "setup": [)" +
         setup + R"(],
    "steps": [{"aten": "aten::mul.Tensor", "args": {"self": "x", "other": "class"}, "out": ["a"]},
              {"alloc": "b", "dtype": "float32", "shape": [4, 8]},
              {"launch": "twice", "grid": [1, 2, 1], "block": [32, 1, 1], "shared_bytes": 64,
               "args": [{"in": "a"}, {"out": "b"}, {"i32": 32}, {"f32": 0.5}]},
              {"aten": "aten::mm", "args": {"self": "b", "mat2": "bt"}, "out": ["c"], "precision": "tf32"},
              {"aten": "aten::max.dim", "args": {"self": "x", "dim": 1}, "out": ["", "i"]}],
    "outputs": ["c", "i"], "execution": )" +
         execution + R"(}
---
__global__ void twice(const float* a, float* b, int n, float f) {
  int64_t i = threadIdx.x;
  if (i < n) b[i] = a[i] * f;
}
)";
}

// Inserts a step before the product: bt, a view of b transposed.
std::string with_view(std::string text) {
  const std::string product = R"({"aten": "aten::mm")";
  return text.replace(
      text.find(product), 0,
      R"({"aten": "aten::transpose.int", "args": {"self": "b", "dim0": 0, "dim1": 1}, "out": ["bt"]},)");
}

TEST(cpp_text, has_each_step_as_a_call) {
  const auto text = cpp_text(checked(with_view(program_text(R"({"graph": false, "lanes": 1})"))), "demo");
  EXPECT_THAT(text,
              AllOf(HasSubstr("v.a_ = at::_ops::mul_Tensor::call(v.x_, v.class_);"),
                    HasSubstr("#include <ATen/ops/mul_ops.h>"), HasSubstr("#include <ATen/ops/max_ops.h>"),
                    HasSubstr("const tensor_type type_of_c{\"c\", at::kFloat, {4, 4}, {4, 1}};"),
                    HasSubstr("expect(v.c_, type_of_c);"),
                    HasSubstr("std::tie(std::ignore, v.i_) = at::_ops::max_dim::call(v.x_, int64_t{1}, false);")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("allocated(at::IntArrayRef({4, 8}), at::IntArrayRef({8, 1}), at::kFloat, v.device);"),
                    HasSubstr("launch(\"twice\", 0, dim3(1, 2, 1), dim3(32, 1, 1), 64, memory_of(v.a_), "
                              "memory_of(v.b_), int32_t{32}, 0.5f);\n  }\n  v.a_.reset();"),
                    HasSubstr("allow_shared_memory(0, 64);")));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("const product_precision precision(product_precision::tf32);\n    v.c_ = at::_ops::mm::call("),
            HasSubstr("outputs.push_back(v.c_);"), HasSubstr("{\"class\", at::kFloat, {8}, {1}}")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("PROGRAM_GRAPH\n#")), Not(HasSubstr("apart_scope")),
                          Not(HasSubstr("lane_streams")), Not(HasSubstr("v.x_.reset"))));
}

TEST(cpp_text, of_a_graph_keeps_outputs_apart) {
  const auto text = cpp_text(checked(with_view(program_text(R"({"graph": true, "lanes": 1})"))), "demo");
  EXPECT_TRUE(text.starts_with("#define PROGRAM_GRAPH\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("class rebound_graph"), HasSubstr("class graph_runner"),
                          HasSubstr("const apart_scope apart(v.apart);\n    const product_precision"),
                          HasSubstr("const apart_scope apart(v.apart);\n    std::tie(std::ignore, v.i_)"),
                          HasSubstr("input_alignment = 256")));
  EXPECT_THAT(text, Not(HasSubstr("apart(v.apart);\n    v.b_ =")));  // only what outputs lie in
}

constexpr const char* k_own_operator = R"-({"format": 1, "name": "demo", "execution": {"graph": true},
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 6, 6]}],
    "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [4]}],
    "steps": [{"aten": "cudal1::convolution_graph",
               "args": {"input": "x", "weight": "w", "operands": ["b"], "stride": [1, 1], "padding": [1, 1],
                        "dilation": [1, 1], "transposed": false, "output_padding": [0, 0], "groups": 1,
                        "graph": "add(0) relu", "engine": 2}, "out": ["y"]}],
    "outputs": ["y"]})-";

TEST(cpp_text, contains_the_operators_of_our_own_that_it_calls) {
  const auto text = cpp_text(checked(k_own_operator), "demo");
  EXPECT_THAT(text, AllOf(HasSubstr("#define PROGRAM_CUDA"), HasSubstr("class convolution_plan_maker {"),
                          HasSubstr("struct cudnn_functions {"), HasSubstr("inline convolution_chain read_chain("),
                          HasSubstr("const at::Tensor a2[] = {v.b_};")));
  EXPECT_THAT(text, HasSubstr("v.y_ = own_operators::convolution_graph::call(v.x_, v.w_, at::TensorList(a2), "
                              "ints<own_operators::convolution_graph, 3>(a3)"));
  EXPECT_THAT(text, HasSubstr("int64_t{1}, \"add(0) relu\", int64_t{2});"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("convolution_graph_ops.h")), Not(HasSubstr("namespace cudal1")),
                          Not(HasSubstr("#include \"sandbox"))));
  EXPECT_THAT(cpp_text(checked(with_view(program_text(R"({"graph": true, "lanes": 1})"))), "demo"),
              Not(HasSubstr("cudnn_functions")));
}

// A module that a compiler links its own C++ library into must not write numbers to streams (common.hpp).
TEST(cpp_text, uses_no_streams) {
  const auto lanes = cpp_text(checked(with_view(program_text(R"({"graph": true, "lanes": 4})"))), "demo");
  const auto steps = cpp_text(checked(with_view(program_text(R"({"graph": false, "lanes": 1})"))), "demo");
  const auto own = cpp_text(checked(k_own_operator), "demo");
  for (const auto& text : {lanes, steps, own})
    for (const char* word : {"TORCH_CHECK(", "TORCH_INTERNAL_ASSERT(", "TORCH_WARN(", "c10::str(", "AT_ASSERT",
                             "ostream", "sstream", "std::format", " << ", "std::locale"})
      EXPECT_THAT(text, Not(HasSubstr(word)));
  EXPECT_THAT(lanes,
              AllOf(HasSubstr("class graph_runner"), HasSubstr("class lane_streams"), HasSubstr("class program")));
}

// A GPU lays attention's result out in its own way, and the next steps count on the layout of our rules.
TEST(cpp_text, lays_a_result_out_that_devices_lay_out_as_they_like) {
  const auto text = cpp_text(checked(R"({"format": 1, "name": "attention",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 8, 16]}],
    "steps": [{"aten": "aten::scaled_dot_product_attention", "args": {"query": "x", "key": "x", "value": "x"},
               "out": ["a"]},
              {"aten": "aten::relu", "args": {"self": "a"}, "out": ["y"]}],
    "outputs": ["y"]})"),
                             "attention");
  EXPECT_THAT(text, HasSubstr("    v.a_ = laid_out_as(v.a_, type_of_a);\n    expect(v.a_, type_of_a);\n"));
  EXPECT_THAT(text, Not(HasSubstr("laid_out_as(v.y_")));
}

TEST(cpp_text, passes_tensor_maps_and_launches_as_the_program_says) {
  const auto p = checked(hopper_text);
  const auto text = cpp_text(p, "demo");
  EXPECT_THAT(text, AllOf(HasSubstr("inline CUtensorMap map_of("), HasSubstr("CUtensorMap mapped("),
                          HasSubstr("launch(\"tiles\", 0, dim3(4, 1, 1), dim3(32, 1, 1), 0, "
                                    "mapped(v.a_, {32, 64}, 128), mapped(v.b_, {32, 8}, 0));"),
                          HasSubstr("launch_as({.cooperative = true, .programmatic = true}, \"all\", 1, dim3(4, 1, 1), "
                                    "dim3(32, 1, 1), 0, memory_of(v.b_), ")));
  const auto kernels = cuda_text(p);
  ASSERT_TRUE(holds(kernels));
  EXPECT_THAT(*kernels, AllOf(HasSubstr("struct __align__(64) tensor_map"), HasSubstr("griddepcontrol.wait"),
                              HasSubstr("void cudal1_grid_barrier()")));
  EXPECT_THAT(cpp_text(checked(with_view(program_text(R"({"graph": false, "lanes": 1})"))), "demo"),
              Not(HasSubstr("CUtensorMap")));
}

TEST(cpp_text, calls_the_library_with_what_follows) {
  const auto text = cpp_text(checked(R"({"format": 1, "name": "p",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 5, 5]}, {"name": "z", "dtype": "float32", "shape": [2, 4, 5, 5]}],
    "weights": [{"name": "w", "dtype": "float32", "shape": [4, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [4]}],
    "setup": [], "steps": [
      {"aten": "aten::cudnn_convolution_add_relu", "args": {"self": "x", "weight": "w", "z": "z", "alpha": 1, "bias": "b",
       "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}, "out": ["y"]}],
    "outputs": ["y"]}
---
)"),
                             "demo");
  EXPECT_THAT(text,
              HasSubstr("at::_ops::cudnn_convolution_add_relu::call(v.x_, v.w_, v.z_, at::Scalar(int64_t{1}), v.b_,"));
  EXPECT_THAT(text, HasSubstr("#include <ATen/ops/cudnn_convolution_add_relu_ops.h>"));
}

TEST(cpp_text, of_lanes_enters_waits_and_frees_nothing_before_the_join) {
  const auto text = cpp_text(checked(with_view(program_text(R"({"graph": false, "lanes": 4})"))), "demo");
  EXPECT_TRUE(text.starts_with("#define PROGRAM_LANES\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("v.lanes->begin();"), HasSubstr("v.lanes->enter(1);"),
                          HasSubstr("v.lanes->join();"), Not(HasSubstr("  v.a_.reset();\n  //"))));
}

TEST(cpp_text, runs_setup_separately_and_keeps_its_results) {
  auto source =
      with_view(program_text(R"({"graph": false, "lanes": 1})",
                             R"({"aten": "aten::mul.Scalar", "args": {"self": "class", "other": 2}, "out": ["w"]})"));
  const std::string factor = R"("other": "class")";
  source.replace(source.find(factor), factor.size(), R"("other": "w")");
  const auto text = cpp_text(checked(source), "demo");
  EXPECT_THAT(text, AllOf(HasSubstr("v.w_ = at::_ops::mul_Scalar::call(v.class_, at::Scalar(int64_t{2}));"),
                          HasSubstr("has_setup = true"), Not(HasSubstr("w_.reset()"))));
}

// ---- the kernels ----------------------------------------------------------------------------------------------------

TEST(device_words, are_added_to_functions_and_tables_without_one) {
  const std::pair<const char*, const char*> cases[] = {
      {"float f(float x) { return x; }", "__device__ float f(float x) { return x; }"},
      {"__device__ float f(float x) { return x; }", nullptr},
      {"__global__ void k(float* y) { float a[3] = {1, 2, 3}; y[0] = a[0]; }", nullptr},
      {"static inline float f() { return 1; } __global__ void k() {}",
       "__device__ static inline float f() { return 1; } __global__ void k() {}"},
      {"template <class T, int N = (1 < 2)> T f(T x);", "template <class T, int N = (1 < 2)> __device__ T f(T x);"},
      {"const float t[2] = {1.0f, 2.0f};", "__device__ const float t[2] = {1.0f, 2.0f};"},
      {"__constant__ float t[2] = {1.0f, 2.0f};", nullptr},
      {"extern __shared__ float s[];", nullptr},
      {"constexpr int N = (3 + 4);\nconst float e = 1e-5f;", nullptr},
      {"struct s { float a; float b[2]; float f() const { return a; } s() : a{1} {} };",
       "struct s { float a; float b[2]; __device__ float f() const { return a; } __device__ s() : a{1} {} };"},
      {"struct s { int a; }; float f(s x) { return x.a; }",
       "struct s { int a; }; __device__ float f(s x) { return x.a; }"},
      {"enum e { one, two };\ntypedef float (*fn)(float);\nusing real = float;", nullptr},
      {"#define F(x) (x)\nfloat f() { return F(1); }", "#define F(x) (x)\n__device__ float f() { return F(1); }"},
      {"namespace n { float f() { return 1; } }", "namespace n { __device__ float f() { return 1; } }"},
      {"extern \"C\" { float f(); __global__ void k(); }",
       "extern \"C\" { __device__ float f(); __global__ void k(); }"}};
  for (const auto& [given, wanted] : cases) {
    const auto made = with_device_specifiers(given);
    ASSERT_TRUE(holds(made));
    EXPECT_EQ(*made, wanted == nullptr ? given : wanted);
  }
}

TEST(cuda_text, has_the_dialect_s_names_the_kernels_and_a_table_of_them) {
  const auto made = cuda_text(checked(with_view(program_text(R"({"graph": false, "lanes": 1})"))));
  ASSERT_TRUE(holds(made));
  EXPECT_THAT(*made, AllOf(HasSubstr("typedef long long program_int64_t;\n#define int64_t program_int64_t\n"),
                           HasSubstr("#undef INFINITY\n#define INFINITY "), HasSubstr("typedef unsigned char uchar;"),
                           HasSubstr("reinterpret_cast<const void*>(&twice),"),
                           Not(HasSubstr("extern \"C\" __global__")), Not(HasSubstr("PROGRAM_ATOMIC"))));
}

std::string with_headers(const std::string& set, const std::string& include) {
  return R"({"format": 1, "name": "p", "inputs": [], "headers": [")" + set + R"("],
    "steps": [{"alloc": "y", "dtype": "int64", "shape": [1]},
              {"launch": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "args": [{"out": "y"}]}], "outputs": ["y"]}
---
#include <)" +
         include + R"(>
__global__ void k(int64_t* y) { y[0] = 0; atomicAdd(y, 1ll); }
)";
}

TEST(cuda_text, has_the_functions_for_tensor_cores_where_they_are_used) {
  const std::string head = R"({"format": 1, "name": "p", "inputs": [{"name": "x", "dtype": "float32", "shape": [32]}],
    "steps": [{"alloc": "y", "dtype": "float32", "shape": [32]},
              {"launch": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"in": "x"}, {"out": "y"}]}],
    "outputs": ["y"]}
---
__global__ void k(const float* x, float* y) {
)";
  const auto made = cuda_text(checked(head + R"(
  __shared__ __align__(16) float s[128];
  if (threadIdx.x < 8) copy_async<16>(s + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncwarp();
  unsigned a[4], b[2] = {tf32_of_float(1.0f), tf32_of_float(1.0f)};
  load_matrix_x4(a, s + threadIdx.x % 8 * 4);
  float d[4] = {};
  mma_m16n8k8_tf32(d, a, b);
  y[threadIdx.x] = d[0];
})"));
  ASSERT_TRUE(holds(made));
  for (const char* text : {"mma.sync.aligned.", "m16n8k8.row.col.f32.tf32.tf32.f32", "ldmatrix.sync.aligned.m8n8.x4",
                           "cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group",
                           "cvt.rna.tf32.f32", "mma_m16n8k8_tf32(d, a, b);"})
    EXPECT_THAT(*made, HasSubstr(text));
  EXPECT_LT(made->find("static __device__ __forceinline__ void copy_async_commit()"), made->find("__global__ void k("));
  const auto clusters = cuda_text(checked(head + "  cluster_sync();\n  y[threadIdx.x] = x[threadIdx.x];\n}"));
  ASSERT_TRUE(holds(clusters));
  EXPECT_THAT(*clusters, HasSubstr("barrier.cluster.arrive"));
  const auto warpgroups = cuda_text(checked(head + "  warpgroup_fence();\n  y[threadIdx.x] = x[threadIdx.x];\n}"));
  ASSERT_TRUE(holds(warpgroups));
  for (const char* text :
       {"wgmma.mma_async.sync.aligned.m64n", "WARPGROUP_MMA(128, half, f16, ", "WARPGROUP_MMA(256, bfloat16, bf16, "})
    EXPECT_THAT(*warpgroups, HasSubstr(text));
  const auto without = cuda_text(checked(head + "  y[threadIdx.x] = x[threadIdx.x];\n}"));
  ASSERT_TRUE(holds(without));
  EXPECT_THAT(*without, Not(HasSubstr("barrier.cluster")));
  EXPECT_THAT(*without, Not(HasSubstr("wgmma")));
  EXPECT_THAT(*without, Not(HasSubstr("cp.async")));
}

TEST(cuda_text, includes_first_and_refuses_what_no_toolkit_has) {
  const auto made = cuda_text(checked(with_headers("cub", "cub/cub.cuh")));
  ASSERT_TRUE(holds(made));
  EXPECT_LT(made->find("#include <cub/cub.cuh>"), made->find("#define int64_t"));
  EXPECT_THAT(*made, HasSubstr("PROGRAM_ATOMICS(_block)"));
  const auto commented =
      cuda_text(checked(with_headers("cub", "cub/cub.cuh>\n/*\n#include <cub/old.cuh>\n*/ #include <a")));
  ASSERT_TRUE(holds(commented));
  EXPECT_LT(commented->find("#include <a>"), commented->find("#define int64_t"));
  EXPECT_GT(commented->find("#include <cub/old.cuh>"), commented->find("#define int64_t")) << "a comment stays";
  const auto refused = cuda_text(checked(with_headers("cutlass", "cutlass/cutlass.h")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("CUTLASS"));
}

// ---- the file -------------------------------------------------------------------------------------------------------

class model_files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("cudal1-kernelbench-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return name;
  }
  std::string blob(const std::string& bytes, const std::string& ending) const {
    return put(sha256_hex(bytes) + ending, bytes);
  }

  static std::string safetensors(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    return bytes + header + data;
  }

  // y = x * scale + offset: a parameter of a submodule, and a constant of forward().
  task made(int64_t constants = 2, const std::string& data = std::string("\0\0\x80\x3f\0\0\0\x40", 8)) const {
    const auto source = blob(
        "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
        "        return x * 1\n\ndef get_inputs():\n    return [torch.rand(3, 2)]\n\ndef get_init_inputs():\n    "
        "return []",
        ".py");
    const auto header = fmt::format(R"({{"lifted_tensor_0":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{}]}}}})",
                                    data.size() / sizeof(float), data.size());
    const auto values = blob(safetensors(header, data), ".safetensors");
    const auto size = std::to_string(constants);
    const auto t = read_task(
        R"({"format": 1, "name": "level1_023_Thing", "family": "pointwise", "summary": "s",
            "origin": {"kind": "kernelbench", "level": 1, "problem": 23, "seed": 42, "source": ")" +
            source + R"("}, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, )" + size + R"(]}],
            "weights": [{"name": "inner_scale", "dtype": "float32", "shape": [)" +
            size + R"(],
                         "content": {"file": ")" +
            values + R"(", "tensor": "inner.scale"}},
                        {"name": "lifted", "dtype": "float32", "shape": [)" +
            size + R"(],
                         "content": {"file": ")" +
            values + R"(", "tensor": "lifted_tensor_0", "fixed": true}}],
            "steps": [{"aten": "aten::mul.Tensor", "args": {"self": "x", "other": "inner_scale"}, "out": ["a"]},
                      {"aten": "aten::add.Tensor", "args": {"self": "a", "other": "lifted"}, "out": ["y"]}],
            "outputs": ["y"]})",
        "cuda");
    EXPECT_TRUE(holds(t));
    return t ? *t : task();
  }
  exported_variant variant_of(const task& t) const {
    return {t.reference.id,
            print_program(t.reference.text),
            {"fuse: one kernel"},
            "2.00x on cuda:0",
            problem_source(t, folder_.string()).value_or(""),
            "9.0"};
  }

  // Runs `code` in Python, where `text` is the file's text; fails if it fails.
  testing::AssertionResult python_says(const std::string& text, const std::string& code,
                                       const std::string& flags = "-I -S") const {
    put("file.py", text);
    put("code.py", "text = open('file.py', newline='').read()\n" + code + "\n");
    const auto command =
        "cd '" + folder_.string() + "' && '" CUDAL1_PYTHON "' " + flags + " code.py >output.txt 2>errors.txt";
    if (std::system(command.c_str()) == 0) return testing::AssertionSuccess();
    std::ifstream errors(folder_ / "errors.txt");
    return testing::AssertionFailure() << std::string((std::istreambuf_iterator<char>(errors)), {});
  }

  std::filesystem::path folder_;
};

TEST_F(model_files, have_the_problem_the_names_of_its_weights_and_the_program) {
  const auto t = made();
  EXPECT_EQ(file_name(t), "level_1_problem_23_sample_0_kernel.py");
  const auto text = model_file(t, variant_of(t), folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_THAT(*text, AllOf(HasSubstr("class Model(nn.Module):\n"), HasSubstr("class ModelNew(Model):\n"),
                           HasSubstr("# Measured: 2.00x on cuda:0\n# - fuse: one kernel\n"),
                           HasSubstr("_KB_WEIGHTS = [\n    \"inner.scale\",\n    \"lifted_tensor_0\",\n]"),
                           HasSubstr("\"lifted_tensor_0\": (\"float32\", [2], \""),
                           HasSubstr("_KB_NEEDS_CUDA = False\n"), HasSubstr("_KB_CUDA = \"\"\n"),
                           HasSubstr("_KB_MEASURED_ON = (9, 0)\n"), HasSubstr("_KB_MODES = None\n"),
                           HasSubstr("_KB_GRADIENTS = \"error\"\n"), Not(HasSubstr("WARNING"))));
  EXPECT_EQ(is_library_only(variant_of(t).program), true);
  EXPECT_EQ(is_library_only(with_view(program_text(R"({"graph": false, "lanes": 1})"))), false);
  EXPECT_TRUE(
      python_says(*text,
                  "import base64, struct, zlib\ncompile(text, 'file.py', 'exec')\n"
                  "line = next(l for l in text.splitlines() if '\"lifted_tensor_0\": (' in l)\n"
                  "packed = eval('{' + line + '}')['lifted_tensor_0'][2]\n"
                  "assert struct.unpack('<2f', zlib.decompress(base64.b64decode(packed))) == (1, 2), packed\n"));
}

TEST_F(model_files, hold_large_constants_that_can_be_compressed) {
  constexpr int64_t count = 8 << 20;
  const auto mask = made(count, std::string(count * sizeof(float), '\0'));
  const auto text = model_file(mask, variant_of(mask), folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_LT(text->size(), std::size_t(1) << 20);

  std::string noise(count * sizeof(float), '\0');
  std::mt19937 random(1);
  std::generate(noise.begin(), noise.end(), [&] { return static_cast<char>(random()); });
  const auto too_large = made(count, noise);
  const auto refused = model_file(too_large, variant_of(too_large), folder_.string());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::unsupported);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("the constant lifted_tensor_0 has "), HasSubstr(" bytes, compressed")));
}

TEST_F(model_files, say_what_is_kept_and_in_what_the_outputs_are_returned) {
  const auto t = made();
  auto text = canonical_text(t);
  ASSERT_TRUE(text.ends_with("}"));
  text.pop_back();
  const auto with_state =
      read_task(text + R"(,"states": [{"name": "x", "kind": "argument", "input": "x", "output": "y"}],
                 "returns": {"dict": [["a \"key\"", {"tuple": [0]}], ["none", {"list": [null, 0]}]]}})",
                "cuda");
  ASSERT_TRUE(holds(with_state));
  const auto file = model_file(*with_state, variant_of(*with_state), folder_.string());
  ASSERT_TRUE(holds(file));
  EXPECT_THAT(*file, HasSubstr("_KB_STATES = [\n    (\"x\", \"argument\", 0, 0),\n]\n"));
  EXPECT_TRUE(python_says(*file,
                          "line = next(l for l in text.splitlines() if l.startswith('_KB_RETURNS'))\n"
                          "exec(line)\n"
                          "assert _KB_RETURNS((5,)) == {'a \"key\"': (5,), 'none': [None, 5]}, line"));
  const auto classes = read_task(
      text + R"(,"returns": {"object": ["collections:namedtuple", ["typename", {"object": ["Out", ["y", 0]]}]]}})",
      "cuda");
  ASSERT_TRUE(holds(classes));
  const auto with_classes = model_file(*classes, variant_of(*classes), folder_.string());
  ASSERT_TRUE(holds(with_classes));
  EXPECT_THAT(*with_classes,
              HasSubstr("lambda o: _kb_importlib.import_module(\"collections\").namedtuple(typename=Out(y=o[0], ), )"));
  const auto plain = model_file(t, variant_of(t), folder_.string());
  ASSERT_TRUE(holds(plain));
  EXPECT_THAT(*plain, AllOf(HasSubstr("_KB_STATES = []\n"), HasSubstr("_KB_RETURNS = None\n")));
}

TEST_F(model_files, say_the_modes_what_gradients_do_and_what_to_beware_of) {
  auto t = made();
  auto v = variant_of(t);
  v.needed_gradients = gradients::eager;
  v.warning = "searched on cpu; made for a CPU";
  t.origin->modes = module_modes{{"net.norm"}, {""}};
  const auto text = model_file(t, v, folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_THAT(*text, AllOf(HasSubstr("_KB_MODES = {\n    \"net.norm\": True,\n    \"\": False,\n}\n"),
                           HasSubstr("_KB_GRADIENTS = \"eager\"\n"),
                           HasSubstr("# WARNING: searched on cpu; made for a CPU\n")));
  t.origin->modes = module_modes{};
  const auto any = model_file(t, v, folder_.string());
  ASSERT_TRUE(holds(any));
  EXPECT_THAT(*any, HasSubstr("_KB_MODES = {}\n"));
}

// KernelBench refuses files with these words, whatever they do with them.
TEST_F(model_files, have_none_of_the_words_that_kernelbench_forbids) {
  const auto t = made();
  const auto text = model_file(t, variant_of(t), folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_TRUE(python_says(*text,
                          "import re\n"
                          "code = '\\n'.join(l.split('#')[0].split('//')[0] for l in text.split('\\n'))\n"
                          "for bad in (r'\\btry\\s*:', r'\\bexcept\\s*:', r'\\bexcept\\s+\\w+', r'\\bpass\\b',\n"
                          "            r'import\\s+threading', r'_make_subclass'):\n"
                          "    assert not re.search(bad, code), bad"));
}

// With the flag, PyTorch takes no notice of TORCH_CUDA_ARCH_LIST; see _get_cuda_arch_flags of its cpp_extension.
TEST_F(model_files, are_built_for_the_measured_architecture_or_the_one_that_is_there) {
  const auto t = made();
  const auto text = model_file(t, variant_of(t), folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_TRUE(python_says(*text, R"(
import types
begin = text.index('def _kb_architecture')
for present, here, flag in ((False, None, 'compute_90a'), (True, (8, 0), 'compute_80'), (True, (9, 0), 'compute_90a')):
    cuda = types.SimpleNamespace(is_available=lambda: present, get_device_capability=lambda: here)
    space = {'_kb_torch': types.SimpleNamespace(cuda=cuda), '_KB_MEASURED_ON': (9, 0)}
    exec(text[begin:text.index('def _kb_build')], space)
    flags = space['_kb_architecture']()
    assert len(flags) == 1 and 'arch' in flags[0] and flags[0].startswith('-gencode=arch=' + flag + ','), flags
)"));
}

// A program that names cuDNN's engines by number says so where another cuDNN is.
TEST_F(model_files, note_another_cudnn_than_the_measured_one) {
  const auto t = made();
  auto v = variant_of(t);
  v.cudnn = "9.19.0";
  const auto text = model_file(t, v, folder_.string());
  ASSERT_TRUE(holds(text));
  EXPECT_THAT(*text, HasSubstr("\n_KB_CUDNN = None\n")) << "it names no engine";
  EXPECT_TRUE(python_says(*text, R"(
import types
begin = text.index('def _kb_other_cudnn')
for named, here, notes in ((None, 91900, 0), ('9.19.0', 91900, 0), ('9.19.0', 92001, 1), ('9.19.0', None, 1)):
    backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: here))
    space = {'_kb_torch': types.SimpleNamespace(backends=backends), '_KB_CUDNN': named}
    exec(text[begin:text.index('# ---- the module ----')], space)
    found = space['_kb_other_cudnn']()
    assert len(found) == notes and all('9.19.0' in note for note in found), found
)"));
}

TEST_F(model_files, of_tasks_that_cannot_be_exported_are_refused_with_a_reason) {
  auto t = made();
  t.origin.reset();
  const auto v = variant_of(t);
  EXPECT_EQ(file_name(t), "level1_023_Thing_kernel.py");
  const auto built_in = problem_source(t, folder_.string());
  ASSERT_FALSE(built_in);
  EXPECT_THAT(built_in.error().message, HasSubstr("not imported from Python"));

  auto nameless = made();
  nameless.weights[0].content.reset();
  const auto without = model_file(nameless, v, folder_.string());
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, HasSubstr("its weight inner_scale has no name in the module"));

  const auto other = made(3);
  EXPECT_THAT(model_file(other, v, folder_.string()).error().message, HasSubstr("are not the task's"));
  EXPECT_EQ(model_file(other, variant_of(other), folder_.string()).error().code, errc::corrupt)
      << "two values, not three";
}

TEST_F(model_files, quote_any_text) {
  for (const std::string text : {"", "plain", "two\nlines\n", "a ''' in\nit", "both ''' and \"\"\" in\n it",
                                 "ends in '\nquote'", "ends\nin \\", "tab\t, \\n and \x01\n", "a \"quoted\" \\ word"})
    EXPECT_TRUE(python_says(
        "value = " + python_text(text), "space = {}; exec(text, space)\nassert space['value'] == " +
                                            [&] {
                                              std::string hex;
                                              for (const char c : text)
                                                hex += fmt::format(
                                                    "{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
                                              return "bytes.fromhex('" + hex + "').decode()";
                                            }()))
        << text;
}

// Builds a module with the C++ library linked into it: there, text written to streams is cut off or ends the process.
TEST_F(model_files, raise_what_a_failed_check_says) {
  const auto t = made();
  auto text = model_file(t, variant_of(t), folder_.string());
  ASSERT_TRUE(holds(text));
  const auto replace = [&](const std::string& was, const std::string& now) {
    const auto at = text->find(was);
    ASSERT_NE(at, std::string::npos) << was;
    text->replace(at, was.size(), now);
  };
  // A step's result that is laid out otherwise than the program was made for.
  replace("type_of_y{\"y\", at::kFloat, {3, 2}, {2, 1}}", "type_of_y{\"y\", at::kFloat, {3, 2}, {1, 3}}");
  replace("with_cuda=_KB_NEEDS_CUDA)",
          "with_cuda=_KB_NEEDS_CUDA, extra_ldflags=['-static-libstdc++'], build_directory='" + folder_.string() + "')");
  // The problem's own model has no parameters.
  const std::string code =
      "import sys; sys.path.insert(0, '.')\n"
      "import torch, file\n"
      "m = file.ModelNew()\n"
      "m.inner = torch.nn.Module()\n"
      "m.inner.scale = torch.nn.Parameter(torch.rand(2))\n"
      "def says(sentence, *inputs):\n"
      "    try:\n"
      "        m(*inputs)\n"
      "    except RuntimeError as e:\n"
      "        assert str(e) == sentence, e\n"
      "    else:\n"
      "        raise AssertionError('nothing was raised')\n"
      "says('input x is Float [3, 4], and this program was made for Float [3, 2]', torch.rand(3, 4))\n"
      "says('input x is Double [3, 2], and this program was made for Float [3, 2]', torch.rand(3, 2).double())\n"
      "says('input x is not a dense tensor', torch.rand(3, 2).to_sparse())\n"
      "says(\"the step's result y has strides [2, 1], and this program was made for [1, 3]\", torch.rand(3, 2))\n"
      "m.inner.scale = torch.nn.Parameter(torch.rand(3))\n"
      "says('weight inner_scale is Float [3], and this program was made for Float [2]', torch.rand(3, 2))\n"
      // Where the task does not say which modes matter, all modules must be in the mode that Model leaves them in.
      "def evaluating(self):\n"
      "    torch.nn.Module.__init__(self)\n"
      "    self.inner, self.drop = torch.nn.Module(), torch.nn.Dropout()\n"
      "    self.inner.scale = torch.nn.Parameter(torch.rand(2))\n"
      "    self.eval()\n"
      "file.Model.__init__ = evaluating\n"
      "mode = file._KB_NAME + ': this program was made with modules in '\n"
      "all = ' mode that are in the other one now (the model itself, inner, drop); call '\n"
      "m = file.ModelNew()\n"
      "says(\"the step's result y has strides [2, 1], and this program was made for [1, 3]\", torch.rand(3, 2))\n"
      "m.train()\n"
      "says(mode + 'evaluation' + all + 'eval()', torch.rand(3, 2))\n"
      "file.Model.__init__ = lambda self: (evaluating(self), self.train())[0]\n"
      "m = file.ModelNew().eval()\n"
      "says(mode + 'training' + all + 'train()', torch.rand(3, 2))\n";
  EXPECT_TRUE(python_says(*text, code, "-I"));
}

TEST_F(model_files, come_with_scripts_that_python_can_compile) {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : support_files()) {
    names.push_back(name);
    EXPECT_TRUE(python_says(std::string(text), fmt::format("compile(text, '{}', 'exec')", name)));
  }
  EXPECT_THAT(names, testing::ElementsAre("check.py", "evaluate_file.py", "pytorch_calls.py", "core_turns.py",
                                          "host_pace.py", "measuring.py"));
}

}  // namespace
}  // namespace cudal1::kernelbench
