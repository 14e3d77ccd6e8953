// Files of pretrained weights: types of GGUF's elements against the package `gguf`, and files that are wrong.
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>

#include "config/base/text_file.hpp"
#include "policy/model/checkpoint/gguf_file.hpp"
#include "policy/model/checkpoint/half_floats.hpp"
#include "policy/model/checkpoint/pretrained_weights.hpp"
#include "tests/policy/model/references.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class gguf_reference : public with_references {};

TEST_F(gguf_reference, every_type_gives_the_floats_of_the_package) {
  const auto file = gguf_file::open(reference("blocks.gguf"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 11u);
  for (const auto& [name, tensor] : file->tensors()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(tensor.type->name, name);
    ASSERT_EQ(tensor.shape, (std::vector<int64_t>{3, 512}));
    std::vector<float> read(3 * 512);
    read_blocks(*tensor.type, tensor.blocks, read);
    EXPECT_EQ(read, reference_values<float>("blocks.safetensors", name));
  }
}

// A real file's header with a byte changed, or cut short, is read or refused, and never goes beyond its end.
TEST_F(gguf_reference, damaged_files_are_refused_or_read) {
  const auto whole = read_text_file(reference("blocks.gguf"));
  ASSERT_TRUE(whole);
  const temporary_folder folder;
  const uint64_t seed = 17;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 draw(seed);
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::string damaged = *whole;
    for (int k = 0; k < 3; ++k)
      damaged[draw() % 900] = static_cast<char>(draw());
    if (i % 3 == 0) damaged.resize(draw() % damaged.size());
    const auto file = gguf_file::open(folder.write("damaged.gguf", damaged));
    refused += file ? 0 : 1;
    if (!file) continue;
    for (const auto& [name, tensor] : file->tensors()) {
      std::vector<float> read(tensor.blocks.size() / tensor.type->bytes *
                              static_cast<std::size_t>(tensor.type->elements));
      read_blocks(*tensor.type, tensor.blocks, read);
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(gguf_reference, a_checkpoint_that_lacks_a_tensor_is_refused) {
  const auto weights = pretrained_weights::open(reference("blocks.gguf"));
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().message, HasSubstr("the architecture \"blocks\" is not supported"));
}

TEST(half_floats, convert_as_the_formats_say) {
  EXPECT_EQ(float_of_float16(0x3c00), 1.0f);
  EXPECT_EQ(float_of_float16(0x0001), 0x1p-24f);
  EXPECT_EQ(float_of_float16(0xfbff), -65504.0f);
  EXPECT_TRUE(std::isinf(float_of_float16(0x7c00)));
  EXPECT_TRUE(std::isnan(float_of_float16(0x7e00)));
  EXPECT_EQ(bfloat16_of(1.0f), 0x3f80);
  EXPECT_EQ(bfloat16_of(1.00390625f), 0x3f80);  // half way: to even
  EXPECT_EQ(bfloat16_of(1.01171875f), 0x3f82);
  EXPECT_TRUE(std::isnan(float_of_bfloat16(bfloat16_of(std::nanf("")))));
}

const char* const small_config = R"({"model_type": "llama", "vocab_size": 4, "hidden_size": 4, "num_attention_heads": 2,
  "num_hidden_layers": 1, "intermediate_size": 4})";

std::string problem_of(const std::string& from, const std::string& to) {
  const temporary_folder folder;
  std::string config = small_config;
  if (!from.empty()) config.replace(config.find(from), from.size(), to);
  folder.write("config.json", config);
  const auto weights = pretrained_weights::open(folder.path());
  return weights ? "none" : weights.error().message;
}

TEST(hugging_face_folder, says_what_it_does_not_support) {
  EXPECT_THAT(problem_of("llama", "gpt_neox"), HasSubstr("model_type \"gpt_neox\" is not supported"));
  EXPECT_THAT(problem_of("\"vocab_size\"", "\"attention_bias\": true, \"vocab_size\""), HasSubstr("biases"));
  EXPECT_THAT(problem_of("\"vocab_size\"", "\"hidden_act\": \"gelu\", \"vocab_size\""), HasSubstr("gelu"));
  EXPECT_THAT(problem_of("\"vocab_size\"", "\"rope_scaling\": {\"type\": \"longrope\"}, \"vocab_size\""),
              HasSubstr("scaled as \"longrope\""));
  EXPECT_THAT(problem_of("\"vocab_size\"", "\"quantization_config\": {}, \"vocab_size\""), HasSubstr("GGUF"));
  EXPECT_THAT(problem_of("\"vocab_size\": 4", "\"vocab_size\": -4"), HasSubstr("vocabulary is -4"));
  EXPECT_THAT(problem_of("\"num_attention_heads\": 2", "\"num_attention_heads\": 0"), HasSubstr("missing"));
  EXPECT_THAT(problem_of("\"vocab_size\": 4", "\"vocab_size\": \"x\""), HasSubstr("vocab_size should be an integer"));
  EXPECT_THAT(problem_of("", ""), HasSubstr("model.safetensors: cannot be opened"));
  EXPECT_THAT(pretrained_weights::open("/nowhere").error().message, HasSubstr("neither a folder"));
}

TEST(hugging_face_folder, takes_shards_of_its_own_folder_only) {
  const temporary_folder folder;
  folder.write("config.json", small_config);
  folder.write("model.safetensors.index.json", R"({"weight_map": {"lm_head.weight": "../other.safetensors"}})");
  const auto weights = pretrained_weights::open(folder.path());
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().message, HasSubstr("should be in a file of the same folder"));
}

}  // namespace
}  // namespace cudal1
