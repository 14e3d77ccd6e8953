#include "policy/chat/answer_cache.hpp"

#include <filesystem>
#include <fstream>

#include "chat_server_process.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "policy/chat/request_text.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;

chat_request example() {
  chat_request r;
  r.messages = {{"user", "hello"}};
  r.max_tokens = 10;
  r.temperature = 0.5;
  r.top_p = 1;
  return r;
}

chat_answer saying(const std::string& text) {
  chat_answer a;
  a.text = text;
  return a;
}

// What is logged while it exists.
class log_capture {
 public:
  log_capture() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~log_capture() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

TEST(answer_cache, what_is_kept_is_found_again_marked_and_free) {
  const temporary_folder data;
  const std::string key = answer_key("http://localhost/v1/chat/completions", "m", example());
  chat_answer a;
  a.text = "line one\nπ \"quoted\"";
  a.reasoning = "because";
  a.cost = 0.25;
  a.answer_tokens = 7;
  a.tries = 3;
  answer_cache(data.path()).keep(key, a);
  answer_cache again(data.path());
  const auto found = again.find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, a.text);
  EXPECT_EQ(found->reasoning, a.reasoning);
  EXPECT_EQ(found->answer_tokens, 7);
  EXPECT_TRUE(found->cached);
  EXPECT_EQ(found->cost, 0);
  EXPECT_TRUE(fs::is_empty(data.path() + "/partial"));
}

TEST(answer_cache, every_field_of_a_request_gives_another_name) {
  const auto key = [](const chat_request& r, const std::string& url = "u", const std::string& model = "m") {
    return answer_key(url, model, r);
  };
  const auto base = key(example());
  EXPECT_EQ(base, key(example()));
  EXPECT_NE(base, key(example(), "v"));
  EXPECT_NE(base, key(example(), "u", "n"));
  for (const auto& change : std::vector<std::function<void(chat_request&)>>{
           [](chat_request& r) { r.messages[0].content += " "; },
           [](chat_request& r) { r.messages[0].role = "system"; },
           [](chat_request& r) {
             r.messages.push_back({"user", ""});
           },
           [](chat_request& r) { r.max_tokens = 11; }, [](chat_request& r) { r.temperature = 0.6; },
           [](chat_request& r) { r.top_p = 0.9; }, [](chat_request& r) { r.sample = 1; },
           [](chat_request& r) { r.seed = 1; }}) {
    auto r = example();
    change(r);
    EXPECT_NE(base, key(r));
  }
}

TEST(answer_cache, a_damaged_file_is_removed) {
  const temporary_folder data;
  const log_capture log;
  const std::string key = answer_key("u", "m", example());
  answer_cache cache(data.path());
  for (const bool cut : {true, false}) {
    cache.keep(key, saying("a long enough text"));
    ASSERT_TRUE(cache.find(key));
    const std::string path = data.path() + "/" + key.substr(0, 2) + "/" + key + ".json";
    if (cut) {
      fs::resize_file(path, fs::file_size(path) - 5);
    } else {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(80);
      file.put('#');
    }
    EXPECT_FALSE(cache.find(key));
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_THAT(log.text(), testing::HasSubstr("damaged"));
}

TEST(answer_cache, a_folder_that_cannot_be_written_is_a_warning_once) {
  const temporary_folder data;
  const log_capture log;
  const std::string file = data.write("file", "in the way");  // no folder can be made below a file, even by root
  answer_cache cache(file + "/answers");
  cache.keep(answer_key("u", "m", example()), saying("a"));
  cache.keep(answer_key("u", "n", example()), saying("a"));
  EXPECT_FALSE(cache.find(answer_key("u", "m", example())));
  const std::string said = log.text();
  const auto first = said.find("answers cannot be kept");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("answers cannot be kept", first + 1), std::string::npos);
}

}  // namespace
}  // namespace cudal1
