// What the reader of answers forgives, and what it does not.
#include "policy/prompt/answer_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/prompt/prompt_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* head = R"({ "format": 1, "name": "gelu",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [768, 512]}],
  "steps": [
    {"alloc": "y", "dtype": "float32", "shape": [768, 512]},
    {"launch": "gelu", "grid": [1536], "block": [256], "args": [{"in": "x"}, {"out": "y"}, {"i32": 393216}]}
  ],
  "outputs": ["y"] }
)";
constexpr const char* source = R"(// # not a heading
__global__ void gelu(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
)";

std::string program() {
  return std::string(head) + "---\n" + source;
}

std::string indented(const std::string& text) {
  std::string out = "  ";
  for (const char c : text)
    out += c == '\n' ? "\n  " : std::string(1, c);
  return out;
}

class answers : public testing::Test {
 protected:
  answer read(const std::string& text, answer_form form = answer_form::program, const std::string& finish = "stop") {
    return read_answer(text, {task_.get(), target_, form, finish});
  }
  // The answer has the program above and nothing is wrong with it.
  void expect_program(const std::string& text) {
    const auto a = read(text);
    ASSERT_FALSE(a.problem) << a.problem->message << "\n" << text;
    ASSERT_TRUE(a.program) << text;
    EXPECT_EQ(a.program->id, value_of(check_program_text(program())).id) << text;
  }
  std::string problem_of(const std::string& text, answer_form form = answer_form::program,
                         const std::string& finish = "stop") {
    const auto a = read(text, form, finish);
    EXPECT_TRUE(a.problem) << text;
    EXPECT_FALSE(a.problem && a.program) << text;
    return a.problem ? a.problem->message : "";
  }

  std::shared_ptr<const task> task_ = builtin_task("gelu_by_hand", "cpu");
  const lowering_target* target_ = value_of(find_lowering_target("cpu"));
};

TEST_F(answers, have_three_sections) {
  const auto a =
      read("## Performance analysis\nVariant 1 is fast.\n\n- one pass\n\n## Design\nOne kernel.\n\n## Code\n```\n" +
           program() + "```\n");
  ASSERT_FALSE(a.problem) << a.problem->message;
  EXPECT_EQ(a.analysis, "Variant 1 is fast.\n\n- one pass");
  EXPECT_EQ(a.design, "One kernel.");
  EXPECT_EQ(print_program(a.program->text), print_program(value_of(check_program_text(program())).text));
  EXPECT_EQ(a.code, program());
}

TEST_F(answers, may_have_other_headings_and_fences_and_text_around) {
  expect_program("# 1. Performance Analysis:\nx\n# 2. Algorithm design\ny\n# 3. Code\n```cuda\n" + program() +
                 "```\nDone!");
  expect_program("**Performance analysis**\nx\n\n**Code**\n~~~c++\n" + program() + "~~~\n");
  expect_program("Sure, here it is:\n\n````text\n" + program() + "````\nGood luck.");
  expect_program("Code\n====\n\n```\n" + program() + "```");
  expect_program("### Implementation\n" + indented("```json\n" + program() + "```"));
}

TEST_F(answers, may_lack_the_analysis) {
  const auto a = read("```\n" + program() + "```");
  ASSERT_FALSE(a.problem);
  EXPECT_THAT(a.analysis, IsEmpty());
}

TEST_F(answers, may_have_windows_line_ends) {
  std::string text;
  for (const char c : "## Code\n```\n" + program() + "```\n")
    text += c == '\n' ? "\r\n" : std::string(1, c);
  expect_program(text);
}

TEST_F(answers, may_have_thoughts_with_programs_that_do_not_count) {
  expect_program("<think>Maybe\n```\n{\"format\": 1, \"steps\": []}\n```\n</think>\n## Code\n```\n" + program() +
                 "```");
  expect_program("let me see\n```\nfoo\n</think>\n```\n" + program() + "```");
}

TEST_F(answers, may_have_the_head_and_the_source_in_blocks_of_their_own) {
  expect_program(std::string("## Code\n```json\n") + head + "```\nand\n```cuda\n" + source + "```\n");
  expect_program(std::string("## Code\n```cuda\n") + source + "```\n```json\n" + head + "```\n");
  expect_program(std::string("## Code\n```json\n") + head + "```\n```cuda\n---\n" + source + "```\n");
}

TEST_F(answers, may_have_comments_and_trailing_commas_in_the_head) {
  auto text = program();
  text.insert(text.find("\"steps\""), "// what happens, [\n  /* all \"of\" it */ ");
  text.insert(text.find("\n  ],"), ",");
  expect_program("```\n" + text + "```");
  expect_program("```\n// the program\n" + text + "```");
}

TEST_F(answers, may_have_blanks_behind_the_separator) {
  expect_program(std::string("```\n") + head + "---  \n" + source + "```");
}

TEST_F(answers, may_quote_code_in_the_analysis_when_the_code_section_has_the_program) {
  expect_program(std::string("## Performance analysis\n```\n") + head + "---\n" +
                 "__global__ void gelu(const float* x, float* y, int n) {}\n```\n## Code\n```\n" + program() + "```");
}

TEST_F(answers, may_have_the_same_program_twice) {
  expect_program("## Code\n```\n" + program() + "```\nAgain:\n```\n" + program() + "```");
}

TEST_F(answers, may_have_a_program_without_a_fence) {
  expect_program("## Design\nx\n## Code\n" + program());
}

TEST_F(answers, with_two_programs_are_refused) {
  auto other = program();
  other.replace(other.find("\"gelu\""), 6, "\"other\"");
  EXPECT_THAT(problem_of("## Code\n```\n" + program() + "```\n```\n" + other + "```"),
              HasSubstr("2 different programs in the answer, but one is asked for; write exactly one fenced block"));
}

TEST_F(answers, without_a_program_are_refused) {
  EXPECT_THAT(problem_of("I cannot do that."), HasSubstr("there is no program in the answer; write exactly one"));
  EXPECT_THAT(problem_of(""), HasSubstr("there is no program"));
  EXPECT_THAT(problem_of(std::string("## Code\n```\n") + source + "```"),
              HasSubstr("CUDA source without the JSON head that launches it"));
}

TEST_F(answers, that_were_cut_off_are_refused_even_if_a_program_was_complete) {
  EXPECT_THAT(problem_of("## Code\n```\n" + program() + "```", answer_form::program, "length"),
              HasSubstr("cut off at its limit of tokens"));
  EXPECT_THAT(problem_of("<think>so long"), HasSubstr("cut off"));
  EXPECT_THAT(problem_of("## Code\n```\n" + program()), HasSubstr("not closed"));
}

TEST_F(answers, with_an_illegal_program_keep_what_was_written) {
  auto text = program();
  text.replace(text.find("\"grid\""), 6, "\"grids\"");
  const auto a = read("## Performance analysis\nfast\n## Code\n```\n" + text + "```");
  ASSERT_TRUE(a.problem);
  EXPECT_THAT(a.problem->message, HasSubstr("unknown key \"grids\"; did you mean \"grid\"?"));
  EXPECT_EQ(a.code, text);
  EXPECT_EQ(a.analysis, "fast");
  EXPECT_FALSE(a.program);
}

TEST_F(answers, have_the_tasks_inputs_and_outputs) {
  auto text = program();
  text.replace(text.find("\"x\""), 3, "\"input\"");
  text.replace(text.find("{\"in\": \"x\"}"), 11, "{\"in\": \"input\"}");
  EXPECT_THAT(problem_of("```\n" + text + "```"),
              HasSubstr("[0] is input float32[768, 512], but should be x float32[768, 512]"));
}

TEST_F(answers, may_be_schedules) {
  const auto a = read("## Performance analysis\nx\n## Code\n```\nfuse(steps=0..7)\nblock(group=0, threads=256);\n```",
                      answer_form::schedule);
  ASSERT_FALSE(a.problem) << a.problem->message;
  EXPECT_EQ(print_schedule(*a.plan), "fuse(steps=0..7); block(group=0, threads=256)");
  EXPECT_EQ(a.explanation.size(), 2u);
  EXPECT_TRUE(a.program);
}

TEST_F(answers, with_an_illegal_schedule_say_which_move_and_why) {
  EXPECT_THAT(problem_of("```\nfuse(steps=0..7); blok(group=0)\n```", answer_form::schedule), HasSubstr("blok"));
  EXPECT_THAT(problem_of("```\nfuse steps\n```", answer_form::schedule), HasSubstr("no schedule in the answer"));
  EXPECT_THAT(problem_of("```\nfuse(steps=0..7)\n```\n```\nfuse(steps=0..6)\n```", answer_form::schedule),
              HasSubstr("2 different schedules"));
}

TEST_F(answers, of_one_form_are_not_taken_for_the_other) {
  EXPECT_THAT(problem_of("```\n" + program() + "```", answer_form::schedule), HasSubstr("no schedule"));
  EXPECT_THAT(problem_of("```\nfuse(steps=0..7)\n```"), HasSubstr("there is no program"));
}

}  // namespace
}  // namespace cudal1
