// Weights from blobs: which are accepted, which are refused, and how draws use them.
#include "sandbox/referee/weight_contents.hpp"

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
              HasSubstr("the tensor \"fc.weight\" is float32[3, 4], but the weight is float32[3]"));
  EXPECT_THAT(problem_of(changed(example, "\"draw\"", R"("facts": ["non_negative"], "draw")")),
              HasSubstr("the tensor \"fc.weight\" is not non_negative, as the weight's facts say: [0, 0] is -1"));
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
