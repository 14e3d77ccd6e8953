// Floors in the tables of a GPU, on stores with real records.
#include "tools/cli/report/floors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "config/base/describe.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/verdict_text.hpp"

namespace cudal1::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class floors : public testing::Test {
 protected:
  temporary_folder folder_;
  prepared ids_ = prepare_gpu_store(folder_.path(), "NVIDIA H200");
  finished_program run(std::vector<std::string> arguments, const std::map<std::string, std::string>& variables = {}) {
    arguments.insert(arguments.end(), {"--data", folder_.path()});
    return run_cudal1(arguments, variables);
  }
};

std::string line_with(const std::string& text, const std::string& what) {
  for (const auto& line : split_lines(text))
    if (line.find(what) != std::string::npos) return line;
  return "";
}

TEST_F(floors, are_in_a_gpus_table_with_call_and_device_times) {
  const auto p = run({"best"});
  ASSERT_EQ(p.code, 0) << p.err;
  // The roof: 134234112 bytes at 4.2 TB/s are 31.96 us; with the call, 43.96; 31.96 / 45 is 71%.
  EXPECT_THAT(
      line_with(p.out, "diagonal_matmul"),
      ContainsRegex("diagonal_matmul +2.75 ms +55.0 µs +50.0x \\[49.0, 51.0\\] +2.74 ms +45.0 µs +44.0 µs +71% +1 +" +
                    ids_.best.substr(0, 12)));
  EXPECT_THAT(line_with(p.out, "softmax"),
              ContainsRegex("softmax +200 µs +200 µs +1.00x +180 µs +180 µs +140 µs +71% +1 +- +the reference itself"));
  EXPECT_THAT(p.out, HasSubstr("floor: the call time that"));
  // log(50) / (log(2750 / 43.96) + log(200 / 139.83)) = 3.912 / (4.136 + 0.358)
  EXPECT_THAT(p.out, HasSubstr("geometric mean 7.07x; 87% of the log gap to the floor is closed."));
}

TEST_F(floors, fit_into_120_columns_with_the_moves) {
  for (const std::size_t width : {70, 100, 120}) {
    const auto p = run({"best"}, {{"COLUMNS", std::to_string(width)}});
    ASSERT_EQ(p.code, 0);
    for (const auto& line : split_lines(p.out))
      EXPECT_LE(display_width(line), width) << line;
    EXPECT_THAT(line_with(p.out, "diagonal_m"), HasSubstr("71%"));
    if (width == 120) {
      EXPECT_THAT(line_with(p.out, "diagonal_m"), ContainsRegex("44.0 µs +71% .*fuse"));
    }
  }
}

TEST_F(floors, are_exact_in_json) {
  const auto document = document_of(run({"best", "--json"}));
  EXPECT_NEAR(at(document, "tasks.0.roof_us").as_number(), 134234112 / 4.2e6, 1e-6);
  EXPECT_NEAR(at(document, "tasks.0.floor_us").as_number(), 12 + 134234112 / 4.2e6, 1e-6);
  EXPECT_EQ(at(document, "tasks.0.roof_limit"), json("memory"));
  EXPECT_NEAR(at(document, "tasks.0.roof_share").as_number(), 134234112 / 4.2e6 / 45, 1e-9);
  EXPECT_EQ(at(document, "tasks.0.best_device_us").as_number(), 45);
  EXPECT_NEAR(at(document, "gap_closed").as_number(), 0.8705, 1e-3);
  const auto ranked = document_of(run({"best", "diagonal_matmul", "--json"}));
  EXPECT_NEAR(at(ranked, "variants.0.roof_us").as_number(), 134234112 / 4.2e6, 1e-6);
}

TEST_F(floors, are_in_the_ranking_of_one_task_and_in_show) {
  EXPECT_THAT(run({"best", "diagonal_matmul"}).out, ContainsRegex("55.0 µs +45.0 µs +71% +yes"));
  const auto p = run({"show", ids_.best});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("50.0x the reference, 71% of the memory roof (32.0 µs); device time: reference 2.74 ms, "
                               "variant 45.0 µs; floor of a call 44.0 µs"));
  EXPECT_THAT(p.out, HasSubstr("row_scale 32 registers, 4.00 KiB of shared memory, no spills"));
  EXPECT_THAT(p.out, HasSubstr("spilling 255 registers, 64 B of stack, spills 16 B out and 24 B in"));
  EXPECT_THAT(p.out, HasSubstr("graph: input \"a\" is copied"));
  const auto document = document_of(run({"show", ids_.best, "--json"}));
  EXPECT_NEAR(at(document, "roofs.0.memory_us").as_number(), 134234112 / 4.2e6, 1e-6);
  EXPECT_EQ(at(document, "verdicts.0.resources.1.spill_load_bytes"), json(24));
}

TEST_F(floors, are_exported_with_their_legend) {
  const std::string out = folder_ / "winners";
  const auto p = run({"export", out});
  ASSERT_EQ(p.code, 0) << p.err;
  const auto readme = read_file(out + "/README.md");
  EXPECT_THAT(readme, HasSubstr("| 44.0 µs | 71% |"));
  EXPECT_THAT(readme, HasSubstr("floor: the call time that"));
}

TEST(unknown_gpu, has_no_floor_and_the_report_says_so_and_how_to_add_one) {
  const temporary_folder folder;
  prepare_gpu_store(folder.path(), "NVIDIA Imaginary 1");
  const auto p = run_cudal1({"best", "--data", folder.path()});
  ASSERT_EQ(p.code, 0) << p.err;
  EXPECT_THAT(p.out, HasSubstr("No floors for NVIDIA Imaginary 1: its specifications are not known."));
  EXPECT_THAT(line_with(p.out, "diagonal_matmul"), ContainsRegex("2.74 ms +45.0 µs +- +- +1"));
  EXPECT_THAT(p.out, Not(HasSubstr("log gap")));

  const std::string own = folder / "devices";
  ASSERT_EQ(::mkdir(own.c_str(), 0700), 0);
  auto text = read_file(CUDAL1_SOURCE "/config/devices/h200.toml");
  const std::string model = "\"NVIDIA H200\"";
  text.replace(text.find(model), model.size(), "\"NVIDIA Imaginary *\"");
  write_file(own + "/imaginary.toml", text);
  const auto known = run_cudal1({"best", "--data", folder.path()}, {{"CUDAL1_DEVICES", own}});
  EXPECT_THAT(line_with(known.out, "diagonal_matmul"), ContainsRegex("45.0 µs +44.0 µs +71%"));
  write_file(own + "/imaginary.toml", "name = ");
  const auto broken = run_cudal1({"best", "--data", folder.path()}, {{"CUDAL1_DEVICES", own}});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.err, HasSubstr("imaginary.toml:1"));
}

TEST(tasks_of_a_gpu, show_their_floors_there) {
  const temporary_folder folder;
  write_gpu_tasks(folder.path());
  const auto tasks = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "tasks");
    arguments.insert(arguments.end(), {"--tasks", folder.path()});
    return run_cudal1(arguments);
  };
  const auto list = tasks({"--gpu", "H200"});
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("floor, H200"));
  EXPECT_THAT(line_with(list.out, "GFLOP"), ContainsRegex("product .* 320 MiB +275 GFLOP +1.06 ms"));
  const auto one = tasks({"softmax", "--gpu", "NVIDIA H200"});
  EXPECT_THAT(one.out, HasSubstr("floor on H200: 140 µs a call, of which 128 µs on the device, limited by memory"));
  const auto unknown = tasks({"--gpu", "H2000"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("H200,"));
  const auto document = document_of(tasks({"softmax", "--gpu", "H200", "--json"}));
  EXPECT_EQ(at(document, "tasks.0.work.input_bytes"), json(268435456));
  EXPECT_NEAR(at(document, "tasks.0.floor.memory_us").as_number(), 536870912 / 4.2e6, 1e-6);
}

}  // namespace
}  // namespace cudal1::cli
