// A folder with a pretrained model of random weights that fits a test: Llama's layout, byte-level tokens with some
// longer ones, a chat template.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/base/json.hpp"
#include "config/base/split_mix.hpp"
#include "policy/model/language_model.hpp"

namespace cudal1 {

inline constexpr int tiny_vocabulary = 640;
inline constexpr const char* tiny_end = "<|end|>";  // the last token

// A byte in the alphabet of byte-level tokenizers (GPT-2's).
inline std::string alphabet_letter(int byte) {
  int code = byte;
  if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)) {
    code = 256;
    for (int b = 0; b < byte; ++b)
      if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) ++code;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// By number: bytes, then words of programs, then short random texts.
inline std::vector<std::string> tiny_tokens() {
  std::vector<std::string> out;
  for (int byte = 0; byte < 256; ++byte)
    out.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"\n## ",
                           "##",
                           "Design",
                           "Code",
                           "\n```",
                           "```",
                           "``",
                           "---",
                           "---\n",
                           "{\"",
                           "\":",
                           "\",\"",
                           ",\"",
                           "},{",
                           "[",
                           "],\"",
                           "launch",
                           "alloc",
                           "aten",
                           "grid",
                           "block",
                           "\"in\":\"",
                           "\"out\":\"",
                           "x\"",
                           "y\"",
                           "float32",
                           "1,1]",
                           "256",
                           "1024",
                           "__global__ void ",
                           "void",
                           " int",
                           "<think>",
                           "</think>",
                           "<th",
                           "  ",
                           "\n  ",
                           "\n\n",
                           "0x",
                           "e9",
                           "in",
                           "i32",
                           "\"}",
                           "]}",
                           "true",
                           "lanes",
                           "---\n__global__",
                           "fuse(",
                           "steps=",
                           "; ",
                           ", ",
                           ")",
                           "group=0"})
    out.emplace_back(word);
  for (uint64_t random = 1; out.size() + 1 < tiny_vocabulary;) {
    random = split_mix(random + split_mix_step);
    std::string text;
    for (uint64_t left = random, length = 2 + random % 3; length > 0; --length, left >>= 8)
      text += static_cast<char>(' ' + left % 95);
    out.push_back(text);
  }
  return out;
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline void write_tiny_tokenizer(const std::string& folder) {
  json vocabulary = json::make_object();
  const auto tokens = tiny_tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string letters;
    for (const unsigned char byte : tokens[i])
      letters += alphabet_letter(byte);
    if (vocabulary.find(letters) == nullptr) vocabulary.set(letters, static_cast<int64_t>(i));
  }
  json model = json::make_object({{"type", "BPE"}, {"merges", json::make_array()}});
  model.set("vocab", std::move(vocabulary));
  json bytes = json::make_object({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}});
  json added = json::make_array();
  added.push_back(json::make_object({{"id", static_cast<int64_t>(tiny_vocabulary - 1)},
                                     {"content", tiny_end},
                                     {"special", true},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false}}));
  json file = json::make_object({{"added_tokens", std::move(added)}, {"pre_tokenizer", bytes}});
  file.set("decoder", json::make_object({{"type", "ByteLevel"}}));
  file.set("model", std::move(model));
  write_file(folder + "/tokenizer.json", file.text());
  write_file(folder + "/tokenizer_config.json",
             json::make_object({{"eos_token", tiny_end},
                                {"chat_template",
                                 "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
                                 "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"}})
                 .text());
}

// Another seed gives other weights. With head_scale above 0 the last layer has weights of its own, so many times as
// large: then a training can prefer any token much to others without changing them.
inline void write_tiny_model(const std::string& folder, uint64_t seed = 1, int64_t context = 2048,
                             double head_scale = 0) {
  std::filesystem::create_directories(folder);
  write_tiny_tokenizer(folder);
  const model_shape shape{.vocabulary = tiny_vocabulary,
                          .layers = 1,
                          .width = 32,
                          .heads = 2,
                          .kv_heads = 1,
                          .hidden = 64,
                          .context = context,
                          .is_tied = head_scale == 0};
  write_file(folder + "/config.json", fmt::format(R"({{"model_type": "llama", "vocab_size": {}, "num_hidden_layers": 1,
    "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64,
    "max_position_embeddings": {}, "tie_word_embeddings": {}}})",
                                                  tiny_vocabulary, context, shape.is_tied));
  const auto made = language_model::make(shape, seed);
  if (!made) throw std::runtime_error(made.error().message);
  if (!shape.is_tied) {
    auto weights = (*made)->weights();  // the last layer is the last
    for (auto i = weights.size() - static_cast<std::size_t>(shape.vocabulary * shape.width); i < weights.size(); ++i)
      weights[i] *= head_scale;
    (*made)->set_weights(weights);
  }
  if (const auto saved = (*made)->save(folder + "/model.safetensors"); !saved)
    throw std::runtime_error(saved.error().message);
}

}  // namespace cudal1
