#include "policy/model/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "config/base/text_file.hpp"
#include "config/base/utf8.hpp"
#include "policy/model/checkpoint/gguf_file.hpp"

namespace cudal1 {

const std::string_view usual_split_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

expected<std::string> composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(made, &std::free);
  if (size < 0) return fail(errc::invalid_argument, "the text cannot be normalised: {}", utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
}

// Bytes at the end that may be the beginning of a character.
std::size_t incomplete_end(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0u) == 0x80u) continue;
    const std::size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return whole > back ? back : 0;
  }
  return 0;
}

}  // namespace

expected<tokenizer> tokenizer::open(const std::string& path) {
  const auto read = [&]() -> expected<tokenizer_parts> {
    if (path.ends_with(".gguf")) {
      CUDAL1_TRY(const auto file, gguf_file::open(path));
      return parts_of_gguf(file);
    }
    CUDAL1_TRY(const std::string text, read_text_file(path + "/tokenizer.json"));
    return parts_of_tokenizer_json(text);
  };
  auto parts = read();
  if (!parts) return fail_in("the tokenizer of " + path, parts.error());
  auto made = make(std::move(*parts));
  if (!made) return fail_in("the tokenizer of " + path, made.error());
  return made;
}

expected<tokenizer> tokenizer::make(tokenizer_parts parts) {
  tokenizer out;
  CUDAL1_TRY(out.encoding_, byte_pair_encoding::make(parts.tokens, parts.merges, parts.encoding));
  for (const auto& rule : parts.splits) {
    CUDAL1_TRY(auto made, text_splitter::make(rule));
    out.splits_.push_back(std::move(made));
  }
  out.composes_characters_ = parts.composes_characters;
  out.bytes_ = std::move(parts.tokens);
  constexpr token most_tokens = 1 << 24;
  out.added_.resize(256);
  for (const auto& each : parts.added) {
    if (each.number < 0 || each.number >= most_tokens || each.text.empty())
      return fail(errc::corrupt, "the added token {} has no text or no usable number", each.number);
    const auto at = static_cast<std::size_t>(each.number);
    if (out.bytes_.size() <= at) out.bytes_.resize(at + 1);
    out.bytes_[at] = each.text;
    out.added_[static_cast<unsigned char>(each.text[0])].push_back(each);
  }
  out.special_.resize(out.bytes_.size());
  for (auto& same_start : out.added_) {
    std::ranges::stable_sort(same_start, std::greater<>(), [](const added_token& a) { return a.text.size(); });
    for (const auto& each : same_start)
      out.special_[static_cast<std::size_t>(each.number)] = each.is_special;
  }
  for (const token t : parts.beginning)
    if (t < 0 || static_cast<std::size_t>(t) >= out.bytes_.size())
      return fail(errc::corrupt, "the token {} that begins texts is not in the vocabulary", t);
  out.beginning_ = std::move(parts.beginning);
  return out;
}

const added_token* tokenizer::added_at(std::string_view text, special_texts how) const {
  for (const auto& each : added_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(each.text) && (how == special_texts::are_tokens || !each.is_special)) return &each;
  return nullptr;
}

expected<std::vector<token>> tokenizer::encode(std::string_view text, special_texts how) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_invalid_utf8(std::string(text));
    text = repaired;
  }
  std::vector<token> out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const added_token* found = added_at(text.substr(at), how);
    if (found == nullptr) {
      ++at;
      continue;
    }
    CUDAL1_CHECK(encode_plain(text.substr(done, at - done), out));
    out.push_back(found->number);
    at += found->text.size();
    done = at;
  }
  CUDAL1_CHECK(encode_plain(text.substr(done), out));
  return out;
}

expected<void> tokenizer::encode_plain(std::string_view text, std::vector<token>& out) const {
  if (text.empty()) return {};
  std::string normal;
  if (composes_characters_) {
    CUDAL1_TRY(normal, composed(text));
    text = normal;
  }
  std::vector<std::string_view> pieces = {text};
  for (const auto& each : splits_) {
    std::vector<std::string_view> smaller;
    for (const auto piece : pieces)
      CUDAL1_CHECK(each.split(piece, smaller));
    pieces = std::move(smaller);
  }
  for (const auto piece : pieces)
    encoding_->encode(piece, out);
  return {};
}

const std::string& tokenizer::bytes_of(token t) const {
  static const std::string none;
  return t >= 0 && static_cast<std::size_t>(t) < bytes_.size() ? bytes_[static_cast<std::size_t>(t)] : none;
}

bool tokenizer::is_special(token t) const {
  return t >= 0 && static_cast<std::size_t>(t) < special_.size() && special_[static_cast<std::size_t>(t)];
}

std::string tokenizer::decode(std::span<const token> tokens, bool with_special) const {
  std::string out;
  for (const token t : tokens)
    if (with_special || !is_special(t)) out += bytes_of(t);
  return out;
}

std::optional<token> tokenizer::find(std::string_view added) const {
  if (added.empty()) return std::nullopt;
  for (const auto& each : added_[static_cast<unsigned char>(added[0])])
    if (each.text == added) return each.number;
  return std::nullopt;
}

std::string text_stream::add(token t) {
  if (!of_.is_special(t)) waiting_ += of_.bytes_of(t);
  const std::size_t shown = waiting_.size() - incomplete_end(waiting_);
  std::string out = replace_invalid_utf8(waiting_.substr(0, shown));
  waiting_.erase(0, shown);
  return out;
}

std::string text_stream::end() {
  std::string out = waiting_.empty() ? "" : "\ufffd";
  waiting_.clear();
  return out;
}

}  // namespace cudal1
