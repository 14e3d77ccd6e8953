// Chat templates against transformers' renderings, and what is refused.
#include "policy/model/chat_template/chat_template.hpp"

#include <gmock/gmock.h>

#include "config/base/text_file.hpp"
#include "policy/model/chat_template/pretrained_chat.hpp"
#include "tests/policy/model/references.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class chat_template_against_reference : public with_references {};

TEST_F(chat_template_against_reference, renders_what_transformers_renders) {
  const auto text = read_text_file(reference("templates.json"));
  ASSERT_TRUE(text) << text.error().message;
  const auto all = json::parse(*text);
  ASSERT_TRUE(all) << all.error().message;
  int rendered = 0, refused = 0;
  for (const auto& each : all->find("cases")->as_array()) {
    const std::string& name = each.find("name")->as_string();
    SCOPED_TRACE(name + " with " + each.find("variables")->text());
    const auto made = chat_template::make(all->find("sources")->find(name)->as_string());
    ASSERT_TRUE(made) << made.error().message;
    const auto out = made->render(*each.find("variables"));
    if (each.find("text")->is_null()) {
      EXPECT_FALSE(out);
      ++refused;
      continue;
    }
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(*out, each.find("text")->as_string());
    ++rendered;
  }
  EXPECT_GT(rendered, 60);
  EXPECT_GT(refused, 0);
}

class pretrained_chat_test : public with_references {
 protected:
  const std::vector<chat_message> messages_ = {{"system", "You are terse."}, {"user", "Hi"}};
  const std::string prompt_ =
      "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
};

TEST_F(pretrained_chat_test, of_a_gguf_file_makes_prompts) {
  const auto chat = pretrained_chat::open(reference("smollm2/model.gguf"));
  ASSERT_TRUE(chat) << chat.error().message;
  const auto tokens = chat->prompt_of(messages_);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(chat->words().decode(*tokens, /*with_special=*/true), prompt_);
  EXPECT_EQ(tokens->front(), 1);
  EXPECT_THAT(chat->ends(), testing::ElementsAre(2));
}

TEST_F(pretrained_chat_test, of_a_folder_makes_prompts) {
  const temporary_folder folder;
  folder.write("tokenizer.json", read_text_file(reference("tokenizers/smollm2/tokenizer.json")).value());
  EXPECT_THAT(pretrained_chat::open(folder.path()).error().message, HasSubstr("no chat template"));
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": [
    {"name": "tool_use", "template": "{{ 1 / 0 }}"}, {"name": "default", "template":
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + eos_token + '\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"}]})");
  folder.write("generation_config.json", R"({"eos_token_id": [0, 2]})");
  const auto chat = pretrained_chat::open(folder.path());
  ASSERT_TRUE(chat) << chat.error().message;
  const auto tokens = chat->prompt_of(messages_);
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(chat->words().decode(*tokens, /*with_special=*/true), prompt_);
  EXPECT_THAT(chat->ends(), testing::ElementsAre(0, 2));
}

std::string problem_of(const std::string& source, const json& variables = json::make_object()) {
  const auto made = chat_template::make(source);
  if (!made) return made.error().message;
  const auto out = made->render(variables);
  return out ? "none" : out.error().message;
}

TEST(chat_template, says_what_it_does_not_support_and_where) {
  EXPECT_THAT(problem_of("a\n{% macro f(x) %}{% endmacro %}"), HasSubstr("line 2: the block \"macro\""));
  EXPECT_THAT(problem_of("{{ x | pprint }}"), HasSubstr("line 1: the filter \"pprint\""));
  EXPECT_THAT(problem_of("{{ 'a'.zfill(3) }}"), HasSubstr("the method \"zfill\""));
  EXPECT_THAT(problem_of("{{ lipsum() }}"), HasSubstr("the function \"lipsum\""));
  EXPECT_THAT(problem_of("{% if 1 is sameas 1 %}{% endif %}"), HasSubstr("the test \"sameas\""));
  EXPECT_THAT(problem_of("{% set x %}a{% endset %}"), HasSubstr("set NAME = VALUE"));
}

TEST(chat_template, refuses_what_is_not_whole) {
  EXPECT_THAT(problem_of("{{ 'a"), HasSubstr("does not end"));
  EXPECT_THAT(problem_of("{% if x %}"), HasSubstr("does not end"));
  EXPECT_THAT(problem_of("{% endif %}"), HasSubstr("ends nothing"));
  EXPECT_THAT(problem_of("{{ 1 + }}"), HasSubstr("a value is expected"));
  EXPECT_THAT(problem_of("{{ a b }}"), HasSubstr("the end of the tag is expected"));
  EXPECT_THAT(problem_of("{{ " + std::string(10'000, '(') + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(problem_of("{{ " + std::string(10'000, '-') + "1 }}"), HasSubstr("nested deeper"));
}

TEST(chat_template, refuses_values_that_do_not_fit) {
  EXPECT_THAT(problem_of("{{ 'a' + missing }}"), HasSubstr("a text + undefined is not possible"));
  EXPECT_THAT(problem_of("{{ missing.x }}"), HasSubstr("no attribute x"));
  EXPECT_THAT(problem_of("{{ raise_exception('no system role') }}"), HasSubstr("no system role"));
  EXPECT_THAT(problem_of("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
              HasSubstr("steps"));
}

}  // namespace
}  // namespace cudal1
