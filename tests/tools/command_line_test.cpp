// The manners of the command line: the overview, hints for misspelt words, completion, CSV, width, and how much is
// said.
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/csv.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST(command_line, without_a_command_is_the_overview) {
  const auto overview = run_cudal1({"--help"}).out;
  for (const auto& words : std::vector<std::vector<std::string>>{{}, {"help"}}) {
    const auto p = run_cudal1(words);
    EXPECT_EQ(p.code, 0) << p.err;
    EXPECT_EQ(p.out, overview);
  }
  EXPECT_EQ(run_cudal1({"help", "tasks", "import"}).out, run_cudal1({"tasks", "import", "--help"}).out);
  const auto none = run_cudal1({"help", "taks"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("did you mean \"tasks\"?"));
}

TEST(command_line, hints_at_the_command_option_or_task_that_was_meant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {
      {{"rnu"}, "there is no command \"rnu\"; did you mean \"run\"? see `cudal1 --help`"},
      {{"run", "--evalutions", "3"},
       "there is no option --evalutions; did you mean \"--evaluations\"? see `cudal1 run --help`"},
      {{"best", "--dta", "x"}, "did you mean \"--data\"?"},
      {{"cluster", "inti"}, "there is no command \"cluster inti\"; did you mean \"init\"? see `cudal1 cluster --help`"},
      {{"tasks", "sofmax"}, "did you mean \"softmax\"?"},
      {{"experiments", "e1", "e2"}, "\"e2\" is one word too many"},
  };
  for (const auto& [words, says] : lines) {
    const auto p = run_cudal1(words);
    EXPECT_EQ(p.code, 2) << p.err;
    EXPECT_THAT(p.err, AllOf(StartsWith("cudal1: "), HasSubstr(says)));
    EXPECT_THAT(p.out, IsEmpty());
  }
}

std::vector<std::string> completed(std::vector<std::string> words, const std::string& data = "/nonexistent") {
  words.insert(words.begin(), "__complete");
  std::vector<std::string> found;
  for (const auto& line : split_lines(run_cudal1(words, {{"CUDAL1_DATA", data}}).out))
    found.push_back(line.substr(0, line.find('\t')));
  return found;
}

TEST(completion, knows_commands_options_choices_and_tasks) {
  EXPECT_THAT(completed({"ru"}), ElementsAre("run"));
  EXPECT_THAT(completed({""}), AllOf(Contains("run"), Contains("completion")));
  EXPECT_THAT(completed({"tasks", "im"}), ElementsAre("import"));
  EXPECT_THAT(completed({"run", "--eval"}), ElementsAre("--evaluations"));
  EXPECT_THAT(completed({"run", "--dat"}), ElementsAre("--data")) << "a parent's";
  EXPECT_THAT(completed({"run", "--policy", "ev"}), ElementsAre("evolutionary"));
  EXPECT_THAT(completed({"run", "--policy", "=", "ev"}), ElementsAre("evolutionary"));
  EXPECT_THAT(completed({"run", "--time", ""}), IsEmpty());
  EXPECT_THAT(completed({"run", "--task", "softm"}), ElementsAre("softmax"));
  EXPECT_THAT(completed({"evaluate", "diagonal"}), ElementsAre("diagonal_matmul"));
  EXPECT_THAT(completed({"evaluate", "softmax", "softm"}), IsEmpty()) << "a file";
  const temporary_folder data;
  std::filesystem::create_directories(data / "imported/a");
  write_file(data / "imported/a/report", "{}");
  write_file(data / "imported/a/my_net.json", "{}");
  EXPECT_THAT(completed({"tasks", "my"}, data.path()), ElementsAre("my_net"));
}

TEST(completion, works_in_bash) {
  const temporary_folder folder;
  const auto script = folder.write("try.sh", fmt::format(R"(set -e
source <('{0}' completion bash)
COMP_WORDS=('{0}' run --policy evo)
COMP_CWORD=3
_cudal1
[[ "${{COMPREPLY[*]}}" == evolutionary ]]
COMP_WORDS=('{0}' tasks "")
COMP_CWORD=2
_cudal1
[[ " ${{COMPREPLY[*]}} " == *" import "* && " ${{COMPREPLY[*]}} " == *" softmax "* ]]
)",
                                                         CUDAL1_PROGRAM));
  const auto tasks = "CUDAL1_TASKS='" + builtin_tasks() + "' ";
  EXPECT_EQ(std::system((tasks + "bash " + script).c_str()), 0);
  EXPECT_THAT(run_cudal1({"completion", "zsh"}).out, StartsWith("#compdef cudal1\n"));
  EXPECT_THAT(run_cudal1({"completion", "fish"}).out, HasSubstr("complete -c cudal1"));
  EXPECT_EQ(run_cudal1({"completion", "sh"}).code, 2);
}

TEST(csv, has_a_column_for_each_member_and_quotes_what_needs_it) {
  const auto document = json::parse(R"({"n": 1, "rows": [{"a": 1.5, "b": {"low": 1, "high": 2}, "c": ["x", "y"]},
                                                         {"a": null, "d": "say \"so\", twice"}]})");
  ASSERT_TRUE(holds(document));
  EXPECT_EQ(csv_text(*document, {"tasks", "rows"}),
            "a,b.low,b.high,c,d\n"
            "1.5,1,2,\"[\"\"x\"\",\"\"y\"\"]\",\n"
            ",,,,\"say \"\"so\"\", twice\"\n");
}

TEST(csv, is_printed_in_place_of_a_table) {
  const temporary_folder data;
  const auto ids = prepare_store(data.path());
  const auto best = run_cudal1({"best", "--csv", "--data", data.path()});
  ASSERT_EQ(best.code, 0) << best.err;
  const auto lines = split_lines(best.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], StartsWith("task,name,evaluations,"));
  EXPECT_THAT(lines[1], AllOf(HasSubstr(",diagonal_matmul,3,"), HasSubstr(ids.best)));
  EXPECT_THAT(run_cudal1({"experiments", "--csv", "--data", data.path()}).out, StartsWith("id,"));
  EXPECT_EQ(run_cudal1({"best", "--csv", "--json", "--data", data.path()}).code, 2);
}

TEST(width, of_80_columns_breaks_lines_between_words) {
  const temporary_folder data;
  const auto ids = prepare_store(data.path());
  const std::vector<std::vector<std::string>> commands = {
      {"--help"}, {"run", "--help"}, {"tasks", "import", "--help"}, {"operators"}, {"audit", ids.best}};
  for (auto words : commands) {
    words.insert(words.end(), {"--data", data.path()});
    const auto wide = run_cudal1(words).out, narrow = run_cudal1(words, {{"COLUMNS", "80"}}).out;
    for (const auto& line : split_lines(narrow))
      EXPECT_LE(display_width(line), 80U) << line;
    const auto words_of = [](const std::string& text) {
      std::string kept;
      for (const char c : text)
        if (c != ' ' && c != '\n') kept += c;
      return kept;
    };
    if (words.front() != "operators") {
      EXPECT_EQ(words_of(narrow), words_of(wide));
    }
  }
}

TEST(quiet, leaves_out_notes_and_verbose_adds_some) {
  const temporary_folder data;
  EXPECT_THAT(run_cudal1({"prompt", "softmax", "--data", data.path()}).err, HasSubstr("tokens"));
  const auto quiet = run_cudal1({"prompt", "softmax", "-q", "--data", data.path()});
  EXPECT_THAT(quiet.err, IsEmpty());
  EXPECT_THAT(quiet.out, Not(IsEmpty()));
  EXPECT_THAT(run_cudal1({"-q", "tasks", "no_such_task"}).err, HasSubstr("there is no task")) << "errors stay";
  prepare_store(data.path());
  EXPECT_THAT(run_cudal1({"best", "-v", "--data", data.path()}).err, HasSubstr("reading " + data.path() + "/store"));
  EXPECT_EQ(run_cudal1({"best", "-v", "-q", "--data", data.path()}).code, 2);
}

TEST(follow, says_where_nothing_can_be_followed) {
  const temporary_folder data;
  const auto p = run_cudal1({"follow", "e1", "--data", data.path()});
  EXPECT_EQ(p.code, 2);
  EXPECT_THAT(p.err, HasSubstr("no node runs on " + data.path()));
}

}  // namespace
}  // namespace cudal1::cli
