// The example variants are legal programs that fit their tasks; node_test.cpp evaluates them.
#include <gtest/gtest.h>

#include "sandbox/program/check.hpp"
#include "sandbox/program/task.hpp"
#include "tests/tools/tools_fixture.hpp"

namespace cudal1::cli {
namespace {

TEST(example_programs, have_the_inputs_and_outputs_of_their_tasks) {
  const std::pair<std::string, std::string> examples[] = {{"row_scale.cu1", "diagonal_matmul"},
                                                          {"wrong_row_scale.cu1", "diagonal_matmul"},
                                                          {"softmax_rows.cu1", "softmax"}};
  for (const auto& [file, name] : examples) {
    const auto program = check_program_text(read_file(examples_folder() + "/" + file));
    ASSERT_TRUE(holds(program)) << file;
    const auto task = load_task(builtin_tasks() + "/" + name + ".json", "cpu");
    ASSERT_TRUE(holds(task)) << name;
    EXPECT_EQ(program->text.inputs, task->reference.text.inputs) << file;
    ASSERT_EQ(program->text.outputs.size(), task->reference.text.outputs.size()) << file;
    for (std::size_t i = 0; i < program->text.outputs.size(); ++i)
      EXPECT_EQ(program->types.at(program->text.outputs[i]), task->reference.types.at(task->reference.text.outputs[i]))
          << file;
  }
}

}  // namespace
}  // namespace cudal1::cli
