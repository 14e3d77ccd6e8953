// Tokenizers against the package `tokenizers`, and what they refuse.
#include "policy/model/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>

#include "config/base/describe.hpp"
#include "config/base/text_file.hpp"
#include "tests/policy/model/references.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct tokenizer_case {
  std::string text, back;
  std::vector<int64_t> ids, whole;
};
BOOST_DESCRIBE_STRUCT(tokenizer_case, (), (text, back, ids, whole))

std::vector<int64_t> widened(const std::vector<token>& tokens) {
  return {tokens.begin(), tokens.end()};
}

class tokenizer_against_reference : public with_references, public testing::WithParamInterface<std::string> {};

TEST_P(tokenizer_against_reference, a_megabyte_of_code_and_languages_gives_the_same_tokens) {
  const auto made = tokenizer::open(reference("tokenizers/" + GetParam()));
  ASSERT_TRUE(made) << made.error().message;
  const auto text = read_text_file(reference("text.txt"));
  ASSERT_TRUE(text) << text.error().message;
  ASSERT_GT(text->size(), 1'000'000u);
  const auto ids = made->encode(*text);
  ASSERT_TRUE(ids) << ids.error().message;
  const auto wanted = reference_values<token>("tokenizers/" + GetParam() + "/long.safetensors", "ids");
  const auto [ours, theirs] = std::ranges::mismatch(*ids, wanted);
  const auto same = static_cast<std::size_t>(theirs - wanted.begin());
  ASSERT_TRUE(ours == ids->end() && theirs == wanted.end())
      << "the first " << same << " of " << wanted.size() << " tokens are equal, then come \""
      << made->decode(std::span(*ids).subspan(same, std::min<std::size_t>(8, ids->size() - same))) << "\" and \""
      << made->decode(std::span(wanted).subspan(same, std::min<std::size_t>(8, wanted.size() - same))) << '"';
}

TEST_P(tokenizer_against_reference, short_texts_give_the_same_tokens_and_come_back) {
  const auto made = tokenizer::open(reference("tokenizers/" + GetParam()));
  ASSERT_TRUE(made) << made.error().message;
  const auto file = read_text_file(reference("tokenizers/" + GetParam() + "/cases.json"));
  ASSERT_TRUE(file) << file.error().message;
  const auto cases = from_text<std::vector<tokenizer_case>>(*file);
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_GT(cases->size(), 10u);
  for (const auto& each : *cases) {
    SCOPED_TRACE(each.text.substr(0, 60));
    const auto ids = made->encode(each.text);
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_EQ(widened(*ids), each.ids);
    auto whole = made->beginning();
    whole.insert(whole.end(), ids->begin(), ids->end());
    EXPECT_EQ(widened(whole), each.whole);
    EXPECT_EQ(made->decode(*ids), each.back);
    text_stream stream(*made);
    std::string streamed;
    for (const token t : *ids)
      streamed += stream.add(t);
    EXPECT_EQ(streamed + stream.end(), each.back);
  }
}

INSTANTIATE_TEST_SUITE_P(pre_tokenizers, tokenizer_against_reference,
                         testing::Values("smollm2", "qwen2", "llama3", "deepseek", "published_qwen", "published_llama3",
                                         "published_deepseek"),
                         [](const auto& each) { return each.param; });

class tokenizer_of_gguf : public with_references {};

TEST_F(tokenizer_of_gguf, is_that_of_the_folder) {
  const auto of_file = tokenizer::open(reference("smollm2/model.gguf"));
  const auto of_folder = tokenizer::open(reference("tokenizers/smollm2"));
  ASSERT_TRUE(of_file) << of_file.error().message;
  ASSERT_TRUE(of_folder) << of_folder.error().message;
  const auto text = read_text_file(reference("text.txt"));
  ASSERT_TRUE(text);
  EXPECT_EQ(of_file->encode(*text).value(), of_folder->encode(*text).value());
  const auto end = of_file->find("<|im_end|>");
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, 2);
  EXPECT_TRUE(of_file->is_special(*end));
  EXPECT_EQ(of_file->decode(std::vector<token>{*end}), "");
  EXPECT_EQ(of_file->decode(std::vector<token>{*end}, /*with_special=*/true), "<|im_end|>");
}

// a, b, c, the two bytes of é, "ab", "abc", a space, and <end>.
const char* const small_tokenizer = R"({"added_tokens": [{"id": 8, "content": "<end>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ã": 3, "©": 4, "ab": 5, "abc": 6, "Ġ": 7},
            "merges": ["a b", ["ab", "c"]]}})";

expected<tokenizer> made_of(const std::string& json_text) {
  auto parts = parts_of_tokenizer_json(json_text);
  if (!parts) return tl::unexpected<error>(parts.error());
  return tokenizer::make(std::move(*parts));
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = small_tokenizer;
  return text.replace(text.find(from), from.size(), to);
}

TEST(tokenizer, merges_the_lowest_rank_first) {
  const auto made = made_of(small_tokenizer);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->encode("abcab b").value(), ElementsAre(6, 5, 7, 1));
}

TEST(tokenizer, special_tokens_may_stay_text) {
  const auto made = made_of(small_tokenizer);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->encode("a<end>").value(), ElementsAre(0, 8));
  // Bytes without a token are left out, as the package does.
  EXPECT_THAT(made->encode("a<end>", special_texts::are_text).value(), ElementsAre(0));
}

TEST(tokenizer, characters_in_several_tokens_come_whole) {
  const auto made = made_of(small_tokenizer);
  ASSERT_TRUE(made);
  text_stream stream(*made);
  EXPECT_EQ(stream.add(0), "a");
  EXPECT_EQ(stream.add(3), "");
  EXPECT_EQ(stream.add(4), "é");
  EXPECT_EQ(stream.add(4), "\ufffd");
  EXPECT_EQ(stream.add(3), "");
  EXPECT_EQ(stream.end(), "\ufffd");
  EXPECT_EQ(stream.end(), "");
}

TEST(tokenizer, says_what_it_does_not_support) {
  const auto problem_of = [](const std::string& from, const std::string& to) {
    const auto made = made_of(changed(from, to));
    return made ? "none" : made.error().message;
  };
  EXPECT_THAT(problem_of(R"("type": "BPE",)", R"("type": "Unigram",)"), HasSubstr("the model Unigram"));
  EXPECT_THAT(problem_of(R"("type": "BPE",)", R"("byte_fallback": true,)"), HasSubstr("byte_fallback"));
  EXPECT_THAT(problem_of(R"("special": true)", R"("lstrip": true)"), HasSubstr("lstrip"));
  EXPECT_THAT(problem_of(R"({"type": "ByteLevel", "add)", R"({"type": "Metaspace", "add)"), HasSubstr("Metaspace"));
  EXPECT_THAT(problem_of(R"("a b")", R"("a Ġ")"), HasSubstr("merge 0"));
  EXPECT_THAT(problem_of(R"("a": 0)", R"("a": 99999999999)"), HasSubstr("number"));
  EXPECT_THAT(problem_of(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
                         R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(a"}},
                             {"type": "ByteLevel", "add_prefix_space": false}]})"),
              HasSubstr("cannot be compiled"));
}

}  // namespace
}  // namespace cudal1
