// tokenizer.json of Hugging Face's tokenizers, as far as byte-level byte-pair encodings need it.
#include <algorithm>
#include <optional>

#include <boost/describe.hpp>

#include "config/base/describe.hpp"
#include "policy/model/tokenizer/byte_alphabet.hpp"
#include "policy/model/tokenizer/tokenizer_parts.hpp"

namespace cudal1 {

namespace {

constexpr int64_t most_tokens = 1 << 24;

struct added_entry {
  int64_t id = 0;
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, special = false;
};
BOOST_DESCRIBE_STRUCT(added_entry, (), (id, content, single_word, lstrip, rstrip, special))

struct encoding_entry {
  std::optional<std::string> type;
  std::map<std::string, int64_t> vocab;
  std::optional<std::string> unk_token, continuing_subword_prefix, end_of_word_suffix;
  std::optional<double> dropout;
  std::optional<bool> byte_fallback, ignore_merges;
  json merges;
};
BOOST_DESCRIBE_STRUCT(encoding_entry, (),
                      (type, vocab, unk_token, continuing_subword_prefix, end_of_word_suffix, dropout, byte_fallback,
                       ignore_merges, merges))

struct step_entry {
  std::string type;
  std::optional<bool> individual_digits, use_regex, add_prefix_space, invert;
  std::optional<std::string> behavior;
  std::optional<std::map<std::string, std::string>> pattern;
  std::optional<json> pretokenizers, normalizers, processors, decoders, single, special_tokens;
};
BOOST_DESCRIBE_STRUCT(step_entry, (),
                      (type, individual_digits, use_regex, add_prefix_space, invert, behavior, pattern, pretokenizers,
                       normalizers, processors, decoders, single, special_tokens))

tl::unexpected<error> refuse(const std::string& what) {
  return fail(errc::unsupported, "{} is not supported; byte-level byte-pair encodings are", what);
}

// Calls `each` with the steps of one of the file's members: one step, a sequence of them, or null.
template <class Each>
expected<void> for_steps(const json* member, const char* name, Each&& each) {
  if (member == nullptr || member->is_null()) return {};
  step_entry step;
  CUDAL1_CHECK(from_json(*member, step, name));
  if (step.type != "Sequence") return each(step);
  for (const auto* list : {&step.pretokenizers, &step.normalizers, &step.processors, &step.decoders}) {
    if (!list->has_value() || !(*list)->is_array()) continue;
    for (const auto& item : (*list)->as_array()) {
      step_entry inner;
      CUDAL1_CHECK(from_json(item, inner, name));
      if (inner.type == "Sequence") return refuse(std::string(name) + ": a sequence in a sequence");
      CUDAL1_CHECK(each(inner));
    }
  }
  return {};
}

// A text as an expression that matches it.
std::string literally(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.[]|()?*+{}-#)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

expected<split_rule> split_of(const step_entry& s) {
  split_rule rule;
  if (!s.pattern || s.pattern->size() != 1) return fail(errc::corrupt, "pre_tokenizer: a Split has no pattern");
  const auto& [kind, pattern] = *s.pattern->begin();
  rule.pattern = kind == "Regex" ? pattern : literally(pattern);
  const std::string behaviour = s.behavior.value_or("Isolated");
  if (behaviour == "Contiguous")
    rule.behaviour = split_behaviour::contiguous;
  else if (behaviour == "Removed")
    rule.behaviour = split_behaviour::removed;
  else if (behaviour != "Isolated")
    return refuse("pre_tokenizer: the behaviour " + behaviour);
  rule.is_inverted = s.invert.value_or(false);
  return rule;
}

expected<void> read_splits(const json& file, tokenizer_parts& out) {
  bool has_bytes = false;
  CUDAL1_CHECK(for_steps(file.find("pre_tokenizer"), "pre_tokenizer", [&](const step_entry& s) -> expected<void> {
    if (s.type == "Split") {
      CUDAL1_TRY(auto rule, split_of(s));
      out.splits.push_back(std::move(rule));
    } else if (s.type == "Digits") {
      out.splits.push_back(
          {R"(\p{N})", s.individual_digits.value_or(false) ? split_behaviour::isolated : split_behaviour::contiguous});
    } else if (s.type == "ByteLevel") {
      if (s.add_prefix_space.value_or(true)) return refuse("pre_tokenizer: add_prefix_space");
      if (s.use_regex.value_or(true)) out.splits.push_back({std::string(usual_split_pattern)});
      has_bytes = true;
    } else {
      return refuse("pre_tokenizer: " + s.type);
    }
    return {};
  }));
  return has_bytes ? expected<void>() : refuse("a pre_tokenizer without ByteLevel");
}

expected<void> read_other_steps(const json& file, tokenizer_parts& out) {
  CUDAL1_CHECK(for_steps(file.find("normalizer"), "normalizer", [&](const step_entry& s) -> expected<void> {
    if (s.type != "NFC") return refuse("normalizer: " + s.type);
    out.composes_characters = true;
    return {};
  }));
  CUDAL1_CHECK(for_steps(file.find("decoder"), "decoder", [&](const step_entry& s) -> expected<void> {
    return s.type == "ByteLevel" ? expected<void>() : refuse("decoder: " + s.type);
  }));
  return for_steps(file.find("post_processor"), "post_processor", [&](const step_entry& s) -> expected<void> {
    if (s.type == "ByteLevel") return {};
    if (s.type != "TemplateProcessing") return refuse("post_processor: " + s.type);
    bool is_after = false;
    for (const auto& part : s.single&& s.single->is_array() ? s.single->as_array() : json::array()) {
      if (part.find("Sequence") != nullptr) is_after = true;
      const json* special = part.find("SpecialToken");
      if (special == nullptr) continue;
      const json* name = special->find("id");
      if (is_after) return refuse("post_processor: a token after the text");
      const json* known = name != nullptr && name->is_string() && s.special_tokens
                              ? s.special_tokens->find(name->as_string())
                              : nullptr;
      std::vector<int64_t> ids;
      if (known == nullptr || known->find("ids") == nullptr)
        return fail(errc::corrupt, "post_processor: a token has no number");
      CUDAL1_CHECK(from_json(*known->find("ids"), ids, "post_processor.ids"));
      for (const int64_t id : ids)
        out.beginning.push_back(static_cast<token>(std::clamp<int64_t>(id, -1, most_tokens)));
    }
    return {};
  });
}

// "left right", or ["left", "right"] in newer files.
expected<void> read_merges(const json& merges, tokenizer_parts& out) {
  if (!merges.is_array()) return fail(errc::corrupt, "model.merges should be an array");
  for (const auto& each : merges.as_array()) {
    std::string left, right;
    if (each.is_array() && each.as_array().size() == 2 && each.as_array()[0].is_string() &&
        each.as_array()[1].is_string()) {
      left = each.as_array()[0].as_string();
      right = each.as_array()[1].as_string();
    } else if (each.is_string()) {
      const auto space = each.as_string().find(' ');
      left = each.as_string().substr(0, space);
      right = space == std::string::npos ? "" : each.as_string().substr(space + 1);
    }
    auto a = bytes_of_alphabet(left), b = bytes_of_alphabet(right);
    if (!a || !b || a->empty() || b->empty())
      return fail(errc::corrupt, "model.merges: number {} is no pair of byte-level tokens", out.merges.size());
    out.merges.emplace_back(std::move(*a), std::move(*b));
  }
  return {};
}

expected<void> read_added(const json& file, tokenizer_parts& out) {
  std::vector<added_entry> added;
  if (const json* list = file.find("added_tokens")) CUDAL1_CHECK(from_json(*list, added, "added_tokens"));
  for (auto& a : added) {
    if (a.single_word || a.lstrip || a.rstrip)
      return refuse("the added token " + a.content + " with single_word, lstrip or rstrip");
    if (a.id < 0 || a.id >= most_tokens)
      return fail(errc::corrupt, "the added token {} has the number {}", a.content, a.id);
    if (static_cast<std::size_t>(a.id) < out.tokens.size()) out.tokens[static_cast<std::size_t>(a.id)].clear();
    out.added.push_back({static_cast<token>(a.id), std::move(a.content), a.special});
  }
  return {};
}

}  // namespace

expected<tokenizer_parts> parts_of_tokenizer_json(std::string_view text) {
  CUDAL1_TRY(const json file, json::parse(text));
  const json* model = file.find("model");
  if (model == nullptr) return fail(errc::corrupt, "tokenizer.json has no model");
  encoding_entry encoding;
  CUDAL1_CHECK(from_json(*model, encoding, "model"));
  if (encoding.type.value_or("BPE") != "BPE") return refuse("the model " + *encoding.type);
  if (encoding.byte_fallback.value_or(false)) return refuse("byte_fallback (SentencePiece)");
  if (!encoding.continuing_subword_prefix.value_or("").empty() || !encoding.end_of_word_suffix.value_or("").empty())
    return refuse("a prefix or suffix of word parts");
  if (encoding.dropout.value_or(0) != 0) return refuse("dropout of merges");
  tokenizer_parts out;
  out.encoding.takes_whole_words = encoding.ignore_merges.value_or(false);
  for (const auto& [name, number] : encoding.vocab) {
    if (number < 0 || number >= most_tokens)
      return fail(errc::corrupt, "model.vocab: {} has the number {}", name, number);
    if (out.tokens.size() <= static_cast<std::size_t>(number)) out.tokens.resize(static_cast<std::size_t>(number) + 1);
    // What is not in the alphabet can only be an added token.
    if (auto bytes = bytes_of_alphabet(name)) out.tokens[static_cast<std::size_t>(number)] = std::move(*bytes);
    if (encoding.unk_token == name) out.encoding.unknown = static_cast<token>(number);
  }
  CUDAL1_CHECK(read_merges(encoding.merges, out));
  CUDAL1_CHECK(read_added(file, out));
  CUDAL1_CHECK(read_splits(file, out));
  CUDAL1_CHECK(read_other_steps(file, out));
  return out;
}

}  // namespace cudal1
