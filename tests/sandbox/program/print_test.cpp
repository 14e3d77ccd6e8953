// The canonical form and the id.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/program/examples.hpp"

namespace cudal1 {
namespace {

TEST(print_program, is_read_back_as_the_same_program) {
  for (const auto& text : {row_scale_text, prepacked_text, hopper_text}) {
    const auto p = read_program(text);
    ASSERT_TRUE(p) << p.error().message;
    const auto printed = print_program(*p);
    const auto again = read_program(printed);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *p);
    EXPECT_EQ(print_program(*again), printed);
    const auto head = print_program_head(*p);
    const auto from_head = read_program(head + "---\n" + p->source);
    ASSERT_TRUE(from_head) << from_head.error().message << head;
    EXPECT_EQ(*from_head, *p) << "the head for display is the same program";
  }
}

TEST(print_program, has_one_form_that_must_not_change) {
  const auto p =
      read_program(replaced(row_scale_text, "\"shape\": [64, 32]}]", "\"shape\": [64, 32], \"strides\": [1, 64]}]"));
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_EQ(print_program(*p).substr(0, print_program(*p).find("---")),
            R"({"format":1,"name":"row_scale","inputs":[{"name":"a","dtype":"float32","shape":[64]},)"
            R"({"name":"b","dtype":"float32","shape":[64,32],"strides":[1,64]}],"weights":[],"setup":[],"steps":[)"
            R"({"alloc":"y","dtype":"float32","shape":[64,32]},{"launch":"row_scale","grid":[64,1,1],"block":[32,1,1],)"
            R"("shared_bytes":0,"args":[{"in":"a"},{"in":"b"},{"out":"y"},{"i32":32}]},)"
            R"({"aten":"aten::relu","args":{"self":"y"},"out":["z"]}],"outputs":["z"],)"
            R"("execution":{"graph":false,"lanes":1}})"
            "\n");
}

TEST(print_program, has_maps_and_attributes_only_where_a_launch_has_them) {
  const auto p = read_program(hopper_text);
  ASSERT_TRUE(p) << p.error().message;
  EXPECT_THAT(
      print_program(*p),
      testing::HasSubstr(R"({"launch":"tiles","grid":[4,1,1],"block":[32,1,1],"shared_bytes":0,"args":[)"
                         R"({"in":"a","map":{"box":[32,64],"swizzle":128}},{"out":"b","map":{"box":[32,8]}}]})"));
  EXPECT_THAT(
      print_program(*p),
      testing::HasSubstr(
          R"("shared_bytes":0,"cooperative":true,"programmatic":true,"args":[{"in":"b"},{"out":"y"},{"i32":6400}]})"));
  const auto id = program_id(*p);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{", \"swizzle\": 128", ""},
                                                        {"[32, 8]", "[16, 8]"},
                                                        {"\"cooperative\": true", "\"cooperative\": false"},
                                                        {", \"programmatic\": true", ""}})
    EXPECT_NE(program_id(*read_program(replaced(hopper_text, from, to))), id) << to;
  EXPECT_EQ(check_program_text(hopper_text)->text, *p);
}

TEST(program_id, is_the_same_on_every_machine) {
  EXPECT_EQ(program_id(*read_program(row_scale_text)),
            "36aeaa5bf4857555bf7386145b59a1cd31f284bd2d22e1b92bd56afc13ba4c15");
  EXPECT_EQ(program_id(*read_program(prepacked_text)),
            "2efc879076c837ca89801fa7c346628b032a01309584cac9f45cf96e9e001f3b");
}

TEST(program_id, depends_on_the_headers_but_not_on_their_order) {
  const auto with = [](const std::string& headers) {
    const auto text = replaced(row_scale_text, "\"outputs\": [\"z\"]", "\"outputs\": [\"z\"], \"headers\": " + headers);
    const auto p = read_program(text);
    EXPECT_TRUE(p) << p.error().message;
    const auto again = read_program(print_program(*p));
    EXPECT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *p);
    return program_id(*p);
  };
  const auto none = program_id(*read_program(row_scale_text));
  EXPECT_EQ(with("[]"), none);
  EXPECT_NE(with("[\"cub\"]"), none);
  EXPECT_EQ(with("[\"cub\", \"cuda\"]"), with("[\"cuda\", \"cub\"]"));
}

TEST(program_id, does_not_depend_on_layout_or_the_order_of_arguments) {
  const auto id = program_id(*read_program(prepacked_text));
  const auto reordered = replaced(prepacked_text, R"("self": "doubled", "dim0": 0, "dim1": 1)",
                                  R"("dim1": 1,   "self": "doubled", "dim0": 0)");
  EXPECT_EQ(program_id(*read_program(reordered)), id);
  const auto p = read_program(prepacked_text);
  ASSERT_TRUE(p);
  auto in_memory = *p;
  auto& args = std::get<aten_step>(in_memory.setup[1]).args;
  std::swap(args[0], args[2]);
  EXPECT_EQ(program_id(in_memory), id) << "made in memory";
  EXPECT_EQ(check_program(in_memory)->text, *p);
}

TEST(program_id, changes_with_everything_that_is_run) {
  const auto id = program_id(*read_program(row_scale_text));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"name\": \"row_scale\"", "\"name\": \"r\""},
                                                        {"[32, 1, 1]", "[16, 2, 1]"},
                                                        {"\"shared_bytes\": 0", "\"shared_bytes\": 4"},
                                                        {"{\"i32\": 32}", "{\"i64\": 32}"},
                                                        {"// Multiplies", "// multiplies"}})
    EXPECT_NE(program_id(*read_program(replaced(row_scale_text, from, to))), id) << to;
}

TEST(check_program, gives_the_id_of_what_it_accepted) {
  const auto checked = check_program_text(prepacked_text);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->id, program_id(checked->text));
  EXPECT_EQ(checked->id, program_id(*read_program(prepacked_text)));
}

}  // namespace
}  // namespace cudal1
