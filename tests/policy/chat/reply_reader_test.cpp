#include "policy/chat/reply_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::string event(const std::string& data) {
  return "data: " + data + "\n\n";
}

std::string delta(const std::string& inner, const std::string& finish = "null") {
  return event(R"({"choices":[{"index":0,"delta":)" + inner + R"(,"finish_reason":)" + finish + "}]}");
}

chat_answer answer_of(const std::string& body) {
  reply_reader reader;
  auto state = reader.add(body);
  if (state != reply_state::complete) state = reader.end();
  EXPECT_EQ(state, reply_state::complete) << reader.problem().message;
  return reader.take();
}

std::string problem_of(const std::string& body) {
  reply_reader reader;
  auto state = reader.add(body);
  if (state != reply_state::failed) state = reader.end();
  EXPECT_EQ(state, reply_state::failed);
  return reader.problem().message;
}

TEST(reply_reader, is_complete_with_the_count_of_tokens_and_finished_with_the_reason) {
  reply_reader reader;
  EXPECT_EQ(reader.add(delta(R"({"role":"assistant","content":""})")), reply_state::more);
  EXPECT_EQ(reader.add(delta(R"({"content":"ab"})")), reply_state::more);
  EXPECT_EQ(reader.add(delta("{}", R"("length")")), reply_state::finished);
  EXPECT_EQ(reader.add(event(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}})")),
            reply_state::complete);
  const auto a = reader.take();
  EXPECT_EQ(a.text, "ab");
  EXPECT_EQ(a.finish_reason, "length");
  EXPECT_EQ(a.prompt_tokens, 3);
  EXPECT_EQ(a.answer_tokens, 4);
  EXPECT_FALSE(a.tokens_estimated);
}

TEST(reply_reader, takes_the_last_of_several_counts_and_the_first_of_several_choices) {
  const auto a = answer_of(
      event(
          R"({"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}})") +
      event(R"({"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}})") +
      delta("{}", R"("stop")") + event("[DONE]"));
  EXPECT_EQ(a.text, "ab");
  EXPECT_EQ(a.answer_tokens, 2);
}

TEST(reply_reader, takes_content_in_parts_and_refusals) {
  const auto a = answer_of(
      delta(
          R"({"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"yes"}]})") +
      delta(R"({"refusal":"no"})", R"("stop")"));
  EXPECT_EQ(a.text, "yesno");
  EXPECT_EQ(a.reasoning, "hm");
}

TEST(reply_reader, splits_thoughts_off_the_text_with_and_without_the_first_tag) {
  EXPECT_EQ(answer_of(delta(R"({"content":"<think>\nhm</think>\nyes"})", R"("stop")")).text, "\nyes");
  EXPECT_EQ(answer_of(delta(R"({"content":"hm</think>yes"})", R"("stop")")).reasoning, "hm");
  EXPECT_EQ(answer_of(delta(R"({"content":"a <think> b </think>"})", R"("stop")")).text, "a <think> b </think>");
}

TEST(reply_reader, accepts_bytes_that_are_not_utf8) {
  EXPECT_EQ(answer_of(delta("{\"content\":\"a\xff\"}", R"("stop")")).text, "a\xef\xbf\xbd");
}

TEST(reply_reader, reads_a_document_that_comes_in_pieces) {
  reply_reader reader;
  const std::string body =
      R"( {"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ab","reasoning_content":"r"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}})";
  for (const char c : body)
    ASSERT_EQ(reader.add(std::string_view(&c, 1)), reply_state::more);
  ASSERT_EQ(reader.end(), reply_state::complete);
  EXPECT_EQ(reader.take().text, "ab");
}

TEST(reply_reader, says_what_is_wrong) {
  EXPECT_THAT(problem_of(delta(R"({"content":"abc"})")), HasSubstr("in the middle of the answer, after 3 bytes"));
  EXPECT_THAT(problem_of(event("{\"choices\"")), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem_of("<html>busy</html>"), HasSubstr("neither JSON nor a stream of events"));
  EXPECT_THAT(problem_of(R"({"choices":[]})"), HasSubstr("no answer"));
  EXPECT_THAT(problem_of("{\"a\""), HasSubstr("not JSON"));
  EXPECT_THAT(problem_of(""), HasSubstr("stream ended"));
  EXPECT_THAT(problem_of(event("[DONE]")), HasSubstr("without an answer"));
  EXPECT_THAT(problem_of(delta(R"({"content":"abc"})") + event("[DONE]")), HasSubstr("after 3 bytes of text without"));
  EXPECT_EQ(problem_of(event(R"({"error":{"message":"out of memory","code":500}})")), "out of memory");
  EXPECT_EQ(problem_of(event(R"({"object":"error","message":"too long","code":400})")), "too long");
  EXPECT_EQ(problem_of(event(R"({"error":"plain"})")), "plain");
}

TEST(reply_reader, refuses_an_endless_answer) {
  reply_reader reader;
  const std::string piece = delta("{\"content\":\"" + std::string(1 << 20, 'a') + "\"}");
  auto state = reply_state::more;
  for (int i = 0; i < 20 && state == reply_state::more; ++i)
    state = reader.add(piece);
  EXPECT_EQ(state, reply_state::failed);
  EXPECT_THAT(reader.problem().message, HasSubstr("longer than 16 MiB"));
}

}  // namespace
}  // namespace cudal1
