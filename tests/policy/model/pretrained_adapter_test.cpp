// Adapters against PEFT: logits and gradients with one that PEFT wrote, and PEFT's logits with one that we wrote.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "policy/model/training/text_trainer.hpp"
#include "tests/policy/model/references.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

constexpr double tolerance = 1e-4;

template <class T>
T value_of(expected<T> made) {
  if (!made) throw std::runtime_error(made.error().message);
  return std::move(*made);
}

// Relative to the largest element.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, size = 1e-12;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, static_cast<double>(std::abs(a[i] - b[i])));
    size = std::max(size, static_cast<double>(std::abs(b[i])));
  }
  return most / size;
}

text_episode second_half_written(const std::string& file) {
  const auto read = reference_values<int64_t>(file, "tokens");
  text_episode out{{read.begin(), read.end()}, {}};
  for (std::size_t i = read.size() / 2; i < read.size(); ++i)
    out.written.push_back(static_cast<int64_t>(i));
  return out;
}

class adapter_of_peft : public with_references, public testing::WithParamInterface<std::string> {};

TEST_P(adapter_of_peft, has_its_logits_and_gradients) {
  const std::string folder = "adapters/" + GetParam(), file = folder + "/expected.safetensors";
  const auto adapter = value_of(read_adapter(reference(folder)));
  EXPECT_EQ(adapter.options.rank, 4);
  EXPECT_EQ(adapter.options.alpha, 10);
  const auto model = value_of(language_model::open(reference(GetParam()), model_precision::float32));
  ASSERT_TRUE(model->use_adapter(adapter));
  const auto episode = second_half_written(file);
  EXPECT_LT(difference(value_of(model->logits(episode.tokens)), reference_values<float>(file, "logits")), tolerance);

  for (const bool recompute : {false, true}) {
    const auto trainer =
        value_of(text_trainer::open(reference(GetParam()), {.adapter = adapter.options, .recompute = recompute}));
    const auto reference_score = value_of(trainer->score(std::span(&episode, 1), trained_weights::reference));
    ASSERT_TRUE(trainer->set_adapter(adapter));
    const auto score = value_of(trainer->score(std::span(&episode, 1))).front();
    double loss = 0;
    for (const double log_p : score)
      loss -= log_p / static_cast<double>(score.size());
    EXPECT_NEAR(loss, reference_values<float>(file, "loss").front(), tolerance);
    EXPECT_EQ(value_of(trainer->score(std::span(&episode, 1), trained_weights::reference)), reference_score)
        << "the reference is the model without the adapter";
    const auto gradient = value_of(trainer->gradient(std::span(&episode, 1)));
    EXPECT_EQ(gradient.size(), 2 * adapter.pairs.size());
    for (const auto& [name, values] : gradient)
      EXPECT_LT(difference(values, reference_values<float>(file, "gradient/" + name)), tolerance) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(layouts, adapter_of_peft, testing::Values("llama_default", "qwen2", "qwen3"),
                         [](const auto& each) { return each.param; });

class written_adapter : public with_references {};

TEST_F(written_adapter, gives_the_same_logits_in_peft) {
  const auto trainer = value_of(text_trainer::open(reference("qwen2"), {.adapter = adapter_options{.rank = 3}}));
  const auto episode = second_half_written("adapters/qwen2/expected.safetensors");
  for (int i = 0; i < 3; ++i)
    value_of(trainer->learn(std::span(&episode, 1), optimizer_options{.rate = 0.02}));
  const auto adapter = value_of(trainer->adapter());
  const std::string folder = testing::TempDir() + "/written_adapter";
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(write_adapter(folder, adapter, "qwen2"));
  const auto model = value_of(language_model::open(reference("qwen2"), model_precision::float32));
  const auto before = value_of(model->logits(episode.tokens));
  ASSERT_TRUE(model->use_adapter(value_of(read_adapter(folder))));
  const auto logits = value_of(model->logits(episode.tokens));
  EXPECT_GT(difference(logits, before), 0.01) << "it learned something";
  const std::vector<int64_t> tokens(episode.tokens.begin(), episode.tokens.end());
  ASSERT_TRUE(write_safetensors(
      folder + "/expected.safetensors",
      {{"tokens", {dtype::int64, {std::ssize(tokens)}, std::as_bytes(std::span(tokens))}},
       {"logits",
        {dtype::float32, {std::ssize(tokens), model->shape().vocabulary}, std::as_bytes(std::span(logits))}}}));
  const auto command = fmt::format("'{}' '{}' '{}' qwen2 '{}' 2>&1", CUDAL1_PYTHON, CUDAL1_ADAPTERS_SCRIPT,
                                   CUDAL1_MODEL_REFERENCES, folder);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;

  // The merged folder is the same model.
  const std::string merged = folder + "/merged";
  ASSERT_TRUE(trainer->save_merged(merged));
  const auto whole = value_of(language_model::open(merged, model_precision::float32));
  EXPECT_LT(difference(value_of(whole->logits(episode.tokens)), logits), 1e-6);
}

TEST_F(written_adapter, of_another_kind_is_refused_with_its_reason) {
  const std::string folder = testing::TempDir() + "/odd_adapter";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(reference("adapters/qwen2"), folder);
  const auto with = [&](const std::string& text) {
    std::ofstream(folder + "/adapter_config.json") << text;
    const auto read = read_adapter(folder);
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(with(R"({"peft_type": "IA3", "r": 4, "lora_alpha": 10})"), HasSubstr("IA3"));
  EXPECT_THAT(with(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 10, "use_dora": true})"), HasSubstr("use_dora"));
  EXPECT_THAT(with(R"({"peft_type": "LORA", "r": 5, "lora_alpha": 10})"), HasSubstr("rank 5"));
  EXPECT_EQ(with(R"({"peft_type": "LORA", "r": 4, "lora_alpha": 10})"), "");
  const auto of_qwen2 = value_of(read_adapter(folder));
  const auto other = value_of(language_model::open(reference("qwen3"), model_precision::float32));
  EXPECT_THAT(other->use_adapter(of_qwen2).error().message, HasSubstr("another model"));
}

}  // namespace
}  // namespace cudal1
