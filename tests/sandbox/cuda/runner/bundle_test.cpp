// Kernels of several cubins in one object.
#include "sandbox/cuda/runtime/cubin_bundle.hpp"
#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

class bundle : public gpu_test {
 protected:
  // add_one and add_two, each of a cubin with a table of its own that has the same name.
  static std::string two_cubins() {
    const auto kernel = [](const char* name) {
      return fmt::format(
          "__global__ void {}(const float* x, float* y) {{\n  const int i = blockIdx.x * 256 + threadIdx.x;\n"
          "  y[i] = x[i] + table[i % 4];\n}}\n",
          name);
    };
    return bundle_of({cubin_of(kernel("add_one"), "__constant__ float table[4] = {1, 1, 1, 1};\n"),
                      cubin_of(kernel("add_two"), "__constant__ float table[4] = {2, 2, 2, 2};\n")});
  }

  static program both(const std::string& source) {
    const auto step = [](const char* kernel, const char* from, const char* to) {
      return fmt::format(R"({{"alloc":"{2}","dtype":"float32","shape":[1024]}},{{"launch":"{0}","grid":[4,1,1],)"
                         R"("block":[256,1,1],"args":[{{"in":"{1}"}},{{"out":"{2}"}}]}})",
                         kernel, from, to);
    };
    return read_program(
               fmt::format(R"({{"format":1,"name":"both","inputs":[{{"name":"x","dtype":"float32","shape":[1024]}}],)"
                           R"("steps":[{},{},{}],"outputs":["c"]}})"
                           "\n---\n{}",
                           step("add_one", "x", "a"), step("add_two", "a", "b"), step("add_one", "b", "c"), source))
        .value();
  }
};

TEST_F(bundle, kernels_of_all_cubins_are_found_and_each_variable_is_watched) {
  const auto library = load_cubin(two_cubins(), device().index());
  ASSERT_TRUE(library) << library.error().message;
  for (const char* name : {"add_one", "add_two"}) {
    const auto found = (*library)->find(name);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ((*library)->parameter_count(*found), 2);
  }
  EXPECT_FALSE((*library)->find("add_three"));
  const auto& variables = variables_of(**library);
  ASSERT_EQ(variables.size(), 2U);
  EXPECT_NE(variables[0].data, variables[1].data);
}

TEST_F(bundle, a_program_launches_kernels_of_several_cubins_one_by_one_and_in_a_graph) {
  const auto p = both(
      "__global__ void add_one(const float* x, float* y) { y[0] = x[0]; }\n"
      "__global__ void add_two(const float* x, float* y) { y[0] = x[0]; }\n");
  const std::string object = two_cubins();
  const given_memory none = draw({}, {}, 0), inputs = draw(p.inputs, {input_spec{}}, 1);
  const auto operators =
      read_program(R"({"format":1,"name":"both","inputs":[{"name":"x","dtype":"float32","shape":[1024]}],"steps":[)"
                   R"({"aten":"aten::add.Scalar","args":{"self":"x","other":4},"out":["c"]}],"outputs":["c"]})")
          .value();
  const auto wanted = outputs_of(*load(operators, none), inputs, 1);
  EXPECT_LE(difference(wanted[0], outputs_of(*load(p, none, object), inputs, 2)[0]), 1e-6);
  EXPECT_LE(difference(wanted[0], outputs_of(*load(with_graph(p), none, object), inputs, 3)[0]), 1e-6);
}

TEST_F(bundle, a_damaged_one_is_refused) {
  std::string object = two_cubins();
  object.resize(object.size() - 1);
  EXPECT_FALSE(load_cubin(object, device().index()));
}

}  // namespace
}  // namespace cudal1
