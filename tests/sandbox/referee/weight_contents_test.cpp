// Weights from blobs: which are accepted, which are refused, and how draws use them.
#include "sandbox/referee/weight_contents.hpp"

#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/elements.hpp"
#include "tests/sandbox/program/imported_example.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::vector<float> floats_of(const std::byte* bytes, std::size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes, count * sizeof(float));
  return values;
}

TEST(weight_contents, are_the_tensors_of_the_file) {
  const imported_example example;
  const auto contents = weight_contents::open(example.load(), example.blobs());
  ASSERT_TRUE(contents) << contents.error().message;
  EXPECT_TRUE(contents->complete());
  EXPECT_EQ(floats_of(contents->of(0), 12), example.weight);
  EXPECT_EQ(floats_of(contents->of(1), 3), example.bias);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(contents->of(0)) % sizeof(float), 0U)
      << "although it is not aligned in its file";
  EXPECT_EQ(contents->of(3), nullptr);
  EXPECT_FALSE(weight_contents().complete());
}

// The task with one text in its file replaced.
task changed(const imported_example& example, const std::string& from, const std::string& to) {
  std::string text = example.text(R"({"distribution": "normal"})");
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto t = read_task(text, "cpu");
  EXPECT_TRUE(t) << t.error().message;
  return *t;
}

TEST(weight_contents, must_have_the_weights_type_and_facts) {
  const imported_example example;
  const auto problem_of = [&](const task& t) {
    const auto contents = weight_contents::open(t, example.blobs());
    EXPECT_FALSE(contents);
    if (contents) return std::string();
    EXPECT_EQ(contents.error().code, errc::invalid_program);
    return contents.error().message;
  };
  EXPECT_THAT(problem_of(changed(example, "\"fc.bias\"", "\"fc.bios\"")),
              testing::AllOf(HasSubstr("the weight fc_bias of layer: "),
                             HasSubstr(example.blob + ": has no tensor \"fc.bios\"; did you mean \"fc.bias\"?")));
  EXPECT_THAT(problem_of(changed(example, "\"fc.bias\"", "\"fc.weight\"")),
              HasSubstr("the tensor \"fc.weight\" is float32[3, 4], but should be float32[3]"));
  EXPECT_THAT(problem_of(changed(example, "\"draw\"", R"("facts": ["non_negative"], "draw")")),
              HasSubstr("the tensor \"fc.weight\" is declared non_negative, but is not: [0, 0] is -1"));
}

// One draw of all inputs together: what belongs together stays so.
TEST(weight_contents, has_recorded_draws_of_inputs_which_a_seed_chooses) {
  const imported_example example;
  const auto record = [&](const std::string& tensor, int draws) {
    return fmt::format(R"("content": {{"file": "{}", "tensor": "{}", "draws": {}}})", example.blob, tensor, draws);
  };
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  stored_tensors tensors;
  for (int draw = 0; draw < 3; ++draw)
    for (const auto* name : {"a", "b"})
      tensors[fmt::format("{}.{}", name, draw)] = {
          dtype::float32,
          {1},
          std::as_bytes(std::span(values))
              .subspan(sizeof(float) * static_cast<std::size_t>(draw + (*name == 'b' ? 3 : 0)), sizeof(float))};
  ASSERT_TRUE(write_safetensors(example.folder + "/r", tensors));
  const std::string blob = std::string(64, 'e') + ".safetensors";
  std::filesystem::rename(example.folder + "/r", example.blobs() + "/" + blob);
  auto text = fmt::format(R"({{"format": 1, "name": "n", "inputs": [
      {{"name": "a", "dtype": "float32", "shape": [1], {}}}, {{"name": "b", "dtype": "float32", "shape": [1], {}}},
      {{"name": "c", "dtype": "float32", "shape": [1]}}],
      "steps": [{{"aten": "aten::mul.Tensor", "args": {{"self": "a", "other": "b"}}, "out": ["y"]}}], "outputs": ["y"]}})",
                          record("a", 3), record("b", 3));
  for (std::size_t at = 0; (at = text.find(example.blob, at)) != std::string::npos;)
    text.replace(at, example.blob.size(), blob);
  const auto t = read_task(text, "cpu");
  ASSERT_TRUE(t) << t.error().message;
  std::vector<unique_fd> files;
  files.emplace_back(::open((example.blobs() + "/" + blob).c_str(), O_RDONLY | O_CLOEXEC));
  const auto contents = weight_contents::map(*t, files);
  ASSERT_TRUE(contents) << contents.error().message;
  std::set<float> seen;
  for (uint64_t seed = 1; seed < 100; ++seed) {
    const float a = floats_of(contents->of_input(0, seed), 1)[0];
    EXPECT_EQ(floats_of(contents->of_input(1, seed), 1)[0], a + 3);
    EXPECT_EQ(contents->of_input(0, seed), contents->of_input(0, seed));
    seen.insert(a);
  }
  EXPECT_EQ(seen, (std::set<float>{1, 2, 3}));
  EXPECT_EQ(contents->of_input(2, 1), nullptr) << "it is drawn";
  EXPECT_EQ(contents->of_input(3, 1), nullptr);
  auto more = text;
  more.replace(more.find("\"draws\": 3"), 10, "\"draws\": 4");
  const auto missing = weight_contents::map(*read_task(more, "cpu"), files);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("the input a of n: "));
  EXPECT_THAT(missing.error().message, HasSubstr("has no tensor \"a.3\""));
}

// A scale is one number of a draw, another in the next; and other kinds of draws do not have it.
TEST(draws, may_have_one_random_factor) {
  input_spec spec;
  spec.draw.kind = distribution::uniform;
  spec.draw.low = 1;
  spec.draw.high = 2;
  spec.draw.factor = draw_factor{10, 30};
  const auto type = contiguous(dtype::float64, {1000});
  double least = 1e9, most = 0;
  for (uint64_t seed = 1; seed < 40; ++seed) {
    const auto values = draw_values({type, spec, tensor_role::input, draw_kind::declared, seed});
    const auto [low, high] = std::ranges::minmax(values);
    EXPECT_NEAR(high / low, 2, 0.02) << "all values have the same factor";
    EXPECT_GE(low, 10);
    EXPECT_LE(high, 60);
    least = std::min(least, low);
    most = std::max(most, low);
  }
  EXPECT_LT(least, 12);
  EXPECT_GT(most, 27);
  const auto standard = draw_values({type, spec, tensor_role::input, draw_kind::standard_normal, 1});
  EXPECT_LT(std::ranges::max(standard), 6);
}

// Rows of a softmax of values in [0, 1) are all within a factor of e of each other; those of normal values are not.
TEST(draws, of_a_simplex_are_made_of_what_it_says) {
  input_spec spec;
  spec.draw.kind = distribution::simplex;
  const auto type = contiguous(dtype::float64, {1, 1000});
  const auto ratio = [&] {
    const auto [low, high] = std::ranges::minmax(draw_values({type, spec, tensor_role::input, draw_kind::declared, 7}));
    return high / low;
  };
  EXPECT_GT(ratio(), 20);
  spec.draw.of = distribution::uniform;
  EXPECT_LT(ratio(), 2.72);
  EXPECT_GT(ratio(), 2.6);
}

TEST(weight_contents, name_the_file_that_is_missing_or_broken) {
  const imported_example example;
  const task t = example.load();
  EXPECT_EQ(weight_contents::map(t, {}).error().code, errc::corrupt);
  damage(example.blobs() + "/" + example.blob);
  EXPECT_EQ(weight_contents::open(t, example.blobs()).error().code, errc::corrupt);
  std::filesystem::remove(example.blobs() + "/" + example.blob);
  EXPECT_EQ(weight_contents::open(t, example.blobs()).error().code, errc::not_found);
  std::vector<unique_fd> not_one;
  not_one.emplace_back(::open("/dev/null", 0));
  EXPECT_THAT(weight_contents::map(t, not_one).error().message, HasSubstr(example.blob + ": 0 bytes are not a"));
}

TEST(broken_fact, is_found_wherever_it_is) {
  const auto broken = [](fact f, std::vector<double> values) {
    return broken_fact(f, contiguous(dtype::float64, {1, 3, 3}), reinterpret_cast<const std::byte*>(values.data()));
  };
  const std::vector<double> diagonal = {1, 0, 0, 0, 2, 0, 0, 0, 3}, upper = {1, 4, 5, 0, 2, 6, 0, 0, 3},
                            lower = {1, 0, 0, 4, 2, 0, 5, 6, 3}, both = {1, 4, 5, 4, 2, 6, 5, 6, -3},
                            hot = {1, 0, 0, 0, 0, 1, 0, 1, 0}, cold = {1, 0, 0, 0, 0, 0, 0, 1, 0};
  EXPECT_EQ(broken(fact::diagonal, diagonal), "");
  EXPECT_EQ(broken(fact::diagonal, upper), "[0, 0, 1] is 4");
  EXPECT_EQ(broken(fact::upper_triangular, upper), "");
  EXPECT_EQ(broken(fact::upper_triangular, lower), "[0, 1, 0] is 4");
  EXPECT_EQ(broken(fact::lower_triangular, lower), "");
  EXPECT_EQ(broken(fact::lower_triangular, upper), "[0, 0, 1] is 4");
  EXPECT_EQ(broken(fact::symmetric, both), "");
  EXPECT_EQ(broken(fact::symmetric, lower), "[0, 0, 1] is 0, but the element across the diagonal is 4");
  EXPECT_EQ(broken(fact::one_hot, hot), "");
  EXPECT_EQ(broken(fact::one_hot, cold), "the row of [0, 1, 2]");
  EXPECT_EQ(broken(fact::one_hot, upper), "the row of [0, 0, 1]");
  EXPECT_EQ(broken(fact::non_negative, upper), "");
  EXPECT_EQ(broken(fact::non_negative, both), "[0, 2, 2] is -3");
}

struct drawn_content : testing::Test {
  const tensor_type type = contiguous(dtype::float32, {40, 100});
  std::vector<float> content = std::vector<float>(4000, 0.125F);
  input_spec spec;

  void SetUp() override {
    spec.draw.std = 0.5;
    spec.content = tensor_content{"", "w", false};
    for (std::size_t i = 0; i < content.size(); ++i)
      content[i] += static_cast<float>(i);
  }
  std::vector<float> draw(draw_kind kind, uint64_t seed = 7) const {
    std::vector<float> values(4000);
    draw_tensor({type, spec, tensor_role::weight, kind, seed, reinterpret_cast<const std::byte*>(content.data())},
                reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
  static std::size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      count += a[i] != b[i] ? 1 : 0;
    return count;
  }
};

TEST_F(drawn_content, is_the_declared_draw_and_another_kind_is_drawn) {
  EXPECT_EQ(draw(draw_kind::declared), content);
  EXPECT_EQ(draw(draw_kind::declared, 8), content);
  EXPECT_EQ(differing(draw(draw_kind::standard_normal), content), content.size());
}

TEST_F(drawn_content, has_a_few_outliers_in_the_draw_of_that_kind) {
  const auto changed = differing(draw(draw_kind::outliers), content);
  EXPECT_GE(changed, 4U);
  EXPECT_LE(changed, 6U);
  spec.facts = {fact::non_negative};  // uses another code path
  const auto values = draw(draw_kind::outliers);
  EXPECT_LE(differing(values, content), 6U);
  EXPECT_GE(*std::ranges::min_element(values), 0);
}

TEST_F(drawn_content, is_in_every_draw_where_it_is_fixed) {
  spec.content->fixed = true;
  for (const draw_kind kind : {draw_kind::declared, draw_kind::standard_normal, draw_kind::peaked, draw_kind::outliers})
    EXPECT_EQ(draw(kind), content);
}

TEST_F(drawn_content, of_integers_has_no_outliers) {
  spec.draw.kind = distribution::integer;
  spec.draw.high = 3;
  EXPECT_EQ(draw(draw_kind::outliers), content);
  EXPECT_THAT(draw(draw_kind::standard_normal), testing::Each(testing::Lt(3)));
}

}  // namespace
}  // namespace cudal1
