// What is staged for a package: kernels of GPUs for several architectures, by the real NVRTC, and what error is
// accepted.
#include "tools/cli/commands/package_staging.hpp"

#include <filesystem>

#include <gmock/gmock.h>

#include "config/base/text_file.hpp"
#include "policy/moves/lowering.hpp"
#include "sandbox/device/accuracy.hpp"
#include "tests/temporary_folder.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* k_head = R"({"format": 1, "name": "relu",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}, {"name": "w", "dtype": "float32", "shape": [64]}],
  "steps": [{"alloc": "y", "dtype": "float32", "shape": [64]},
            {"launch": "f", "grid": [1, 1, 1], "block": [64, 1, 1], "args": [{"in": "x"}, {"in": "w"}, {"out": "y"}]}],
  "outputs": ["y"]}
---
__global__ void f(const float* x, const float* w, float* y) {
  BODY
  y[threadIdx.x] = x[threadIdx.x] * w[threadIdx.x];
}
)";

class staged_packages : public testing::Test {
 protected:
  void SetUp() override {
    c_.data = folder_.path();
    auto opened = store::open(folder_.path() + "/store");
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
    const auto t = read_task(
        R"({"format": 1, "name": "product", "summary": "s", "family": "f",
            "inputs": [{"name": "x", "dtype": "float32", "shape": [64]}, {"name": "w", "dtype": "float32", "shape": [64]}],
            "steps": [{"aten": "aten::mul.Tensor", "args": {"self": "x", "other": "w"}, "out": ["y"]}], "outputs": ["y"]})",
        "cuda");
    ASSERT_TRUE(t) << t.error().message;
    task_ = t->id;
    ASSERT_TRUE(store_->put_task(record_of(*t)));
    where_.device = "cuda:0";
    where_.model = "NVIDIA H200";
    where_.details = "compute capability 9.0, 143771 MiB";
  }

  staged_variant variant(const std::string& body, accuracy held = accuracy::own) const {
    std::string text = k_head;
    text.replace(text.find("BODY"), 4, body);
    staged_variant v;
    v.task = task_;
    v.name = "product";
    v.id = "v";
    v.program = text;
    v.where = held_to(where_, held);
    return v;
  }
  json facts(const std::string& folder) const {
    const auto text = read_text_file(folder + "/000/variant.json");
    return text ? json::parse(*text).value_or(json()) : json();
  }

  temporary_folder folder_;
  context c_;
  std::unique_ptr<store> store_;
  std::string task_;
  environment where_;
};

TEST_F(staged_packages, have_a_cubin_for_each_architecture_that_can_run_the_kernels) {
  const auto folder = folder_.path() + "/both";
  package_staging staging(*store_, c_, folder, {"sm_80", "sm_90a", "sm_100a"});
  const auto added = staging.add(variant(""));
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_THAT(staging.not_built(), ElementsAre());
  EXPECT_TRUE(staging.has_gpu_kernels());
  const json all = facts(folder);
  EXPECT_EQ(all.find("architecture")->as_string(), "sm_90a") << "the measured one";
  EXPECT_EQ(all.find("others")->text(), R"({"sm_80":"kernels.sm_80.object","sm_100a":"kernels.sm_100a.object"})");
  std::vector<std::string> cubins;
  for (const char* name : {"kernels.object", "kernels.sm_80.object", "kernels.sm_100a.object"}) {
    const auto cubin = read_text_file(folder + "/000/" + name);
    ASSERT_TRUE(cubin) << name;
    EXPECT_EQ(cubin->substr(0, 4),
              "\x7f"
              "ELF");
    cubins.push_back(*cubin);
  }
  EXPECT_NE(cubins[0], cubins[1]);
  EXPECT_NE(cubins[0], cubins[2]);
}

TEST_F(staged_packages, say_which_kernels_an_architecture_lacks) {
  const auto folder = folder_.path() + "/one";
  package_staging staging(*store_, c_, folder, {"sm_80"});
  const auto added = staging.add(variant("warpgroup_fence();"));
  ASSERT_TRUE(added) << added.error().message;
  ASSERT_EQ(staging.not_built().size(), 1U);
  EXPECT_THAT(staging.not_built()[0], AllOf(HasSubstr("product for sm_80: "), HasSubstr("compute capability 9.0")));
  EXPECT_EQ(facts(folder).find("others")->text(), "{}");
}

TEST_F(staged_packages, have_one_cubin_for_a_range_of_batch_sizes) {
  const auto record = store_->get_task(task_);
  const auto t = read_task(record->text, record->profile);
  const auto moves = parse_schedule("fuse(steps=0..0)");
  const auto made = lower(*t, *moves, *find_lowering_target("cuda").value());
  ASSERT_TRUE(made) << made.error().message;
  auto v = variant("");
  v.program = print_program(made->checked.text);
  v.id = made->checked.id;
  v.schedule = "fuse(steps=0..0)";
  const auto folder = folder_.path() + "/range";
  package_staging staging(*store_, c_, folder, {}, batch_range{1, 300});
  const auto added = staging.add(v);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_THAT(staging.without_range(), ElementsAre());
  const auto cubin = read_text_file(folder + "/000/batch/kernels.object");
  ASSERT_TRUE(cubin);
  EXPECT_EQ(cubin->substr(1, 3), "ELF");
  const auto source = read_text_file(folder + "/000/batch/program.cu");
  EXPECT_THAT(*source, HasSubstr("int batch)"));
  v.schedule = "";
  package_staging by_hand(*store_, c_, folder_.path() + "/by_hand", {}, batch_range{1, 300});
  ASSERT_TRUE(by_hand.add(v));
  EXPECT_THAT(by_hand.without_range(), ElementsAre(HasSubstr("product: it was written by hand")));
}

TEST_F(staged_packages, say_what_error_is_accepted) {
  const auto precision = [&](const char* name, accuracy held) {
    const auto folder = folder_.path() + "/" + name;
    package_staging staging(*store_, c_, folder);
    EXPECT_TRUE(staging.add(variant("", held)));
    const json all = facts(folder);
    const json* const bound = all.find("error_bound");
    return all.find("precision")->as_string() + (bound != nullptr ? " " + bound->text() : "");
  };
  EXPECT_EQ(precision("own", accuracy::own), "eager");
  EXPECT_EQ(precision("kernelbench", accuracy::kernelbench), "eager");
  EXPECT_EQ(precision("strict", accuracy::strict), "strict");
  EXPECT_EQ(precision("half", accuracy::half), "half 0.0") << "the task has no product";
}

TEST(architectures, are_named_as_compilers_name_them) {
  EXPECT_EQ(architecture_named("sm_80").value(), "sm_80");
  EXPECT_EQ(architecture_named("sm_90").value(), "sm_90a");
  EXPECT_EQ(architecture_named("sm_90a").value(), "sm_90a");
  EXPECT_EQ(architecture_named("sm_120").value(), "sm_120a");
  for (const char* wrong : {"80", "sm_8", "compute_80", "sm_80b", "sm_80,sm_90", ""})
    EXPECT_THAT(architecture_named(wrong).error().message, HasSubstr("is no architecture of GPUs"));
}

}  // namespace
}  // namespace cudal1::cli
