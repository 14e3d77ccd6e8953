// The tokenizer in a GGUF file's metadata. Its pre-tokenizer is only named there: this file knows what the names mean,
// as the tokenizer.json of these models has it.
#include <algorithm>
#include <array>

#include "policy/model/checkpoint/gguf_file.hpp"
#include "policy/model/tokenizer/byte_alphabet.hpp"
#include "policy/model/tokenizer/tokenizer_parts.hpp"

namespace cudal1 {

namespace {

constexpr const char* qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<split_rule> isolated(std::initializer_list<std::string_view> patterns) {
  std::vector<split_rule> out;
  for (const auto pattern : patterns)
    out.push_back({std::string(pattern)});
  return out;
}

// Of the values of tokenizer.ggml.pre.
struct named_splits {
  std::string_view name;
  std::vector<split_rule> splits;
  bool composes_characters = false, takes_whole_words = false;
};

const std::vector<named_splits>& known_splits() {
  static const std::vector<named_splits> known = {
      {"gpt-2", isolated({usual_split_pattern})},
      {"smollm", isolated({R"(\p{N})", usual_split_pattern})},
      {"qwen2", isolated({qwen2_pattern}), true},
      {"deepseek-r1-qwen", isolated({qwen2_pattern}), true},
      {"llama-bpe", isolated({llama3_pattern}), false, true},
      {"deepseek-coder", isolated({R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                   "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", R"(\p{N})"})},
  };
  return known;
}

expected<const named_splits*> splits_of(const std::string& name) {
  const auto& known = known_splits();
  const auto found = std::ranges::find(known, name, &named_splits::name);
  if (found != known.end()) return &*found;
  std::string names;
  for (const auto& each : known)
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  return fail(errc::unsupported, "the pre-tokenizer \"{}\" of this file is not known; these are: {}", name, names);
}

enum class gguf_token_type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

expected<void> read_tokens(const gguf_file& file, tokenizer_parts& out) {
  CUDAL1_TRY(const auto texts, file.required<std::vector<std::string>>("tokenizer.ggml.tokens"));
  CUDAL1_TRY(const auto types, file.required<std::vector<double>>("tokenizer.ggml.token_type"));
  if (types.size() != texts.size()) return fail(errc::corrupt, "{} tokens have {} types", texts.size(), types.size());
  out.tokens.resize(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto type = static_cast<gguf_token_type>(static_cast<int>(types[i]));
    if (type == gguf_token_type::unused || texts[i].empty()) continue;
    if (type != gguf_token_type::normal) {
      out.added.push_back({static_cast<token>(i), texts[i], type != gguf_token_type::user_defined});
      continue;
    }
    auto bytes = bytes_of_alphabet(texts[i]);
    if (!bytes) return fail(errc::corrupt, "the token {} is not written in the alphabet of bytes", i);
    out.tokens[i] = std::move(*bytes);
  }
  return {};
}

expected<void> read_merges_of(const gguf_file& file, tokenizer_parts& out) {
  CUDAL1_TRY(const auto merges, file.required<std::vector<std::string>>("tokenizer.ggml.merges"));
  for (const auto& each : merges) {
    const auto space = each.find(' ', 1);
    auto left = bytes_of_alphabet(each.substr(0, space));
    auto right = bytes_of_alphabet(space == std::string::npos ? "" : each.substr(space + 1));
    if (!left || !right || left->empty() || right->empty())
      return fail(errc::corrupt, "merge {} is no pair of tokens", out.merges.size());
    out.merges.emplace_back(std::move(*left), std::move(*right));
  }
  return {};
}

}  // namespace

expected<tokenizer_parts> parts_of_gguf(const gguf_file& file) {
  CUDAL1_TRY(const std::string model, file.required<std::string>("tokenizer.ggml.model"));
  if (model != "gpt2")
    return fail(errc::unsupported, "the tokenizer \"{}\" is not supported; byte-level byte-pair encodings (gpt2) are",
                model);
  tokenizer_parts out;
  CUDAL1_TRY(const std::string name, file.required<std::string>("tokenizer.ggml.pre"));
  CUDAL1_TRY(const named_splits* splits, splits_of(name));
  out.splits = splits->splits;
  out.composes_characters = splits->composes_characters;
  out.encoding.takes_whole_words = splits->takes_whole_words;
  CUDAL1_CHECK(read_tokens(file, out));
  CUDAL1_CHECK(read_merges_of(file, out));
  CUDAL1_TRY(const auto begins, file.optional<bool>("tokenizer.ggml.add_bos_token"));
  CUDAL1_TRY(const auto beginning, file.optional<int64_t>("tokenizer.ggml.bos_token_id"));
  if (begins.value_or(false) && beginning)
    out.beginning.push_back(static_cast<token>(std::clamp<int64_t>(*beginning, -1, 1 << 24)));
  return out;
}

}  // namespace cudal1
