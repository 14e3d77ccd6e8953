// Chat templates against transformers' renderings, and what is refused.
#include "policy/model/chat_template/chat_template.hpp"

#include <gmock/gmock.h>

#include "config/base/text_file.hpp"
#include "tests/policy/model/references.hpp"

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
