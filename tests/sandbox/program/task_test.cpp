// Tasks: sizes, draws, facts, and the built-in ones.
#include "sandbox/program/task.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "config/base/hash.hpp"
#include "sandbox/program/size_expression.hpp"
#include "tests/sandbox/program/examples.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

TEST(evaluate_size, supports_the_four_operations) {
  const size_names names = {{"N", 6}, {"C_2", 8}};
  for (const auto& [text, value] : std::vector<std::pair<std::string, int64_t>>{{"7", 7},
                                                                                {" N * C_2 / 4 ", 12},
                                                                                {"N+C_2*2", 22},
                                                                                {"(N+C_2)*2", 28},
                                                                                {"N-C_2-1", -3},
                                                                                {"-1", -1},
                                                                                {"--N", 6},
                                                                                {"N/-1", -6},
                                                                                {"2*(N-(1+1))/4", 2}}) {
    const auto size = evaluate_size(text, names);
    ASSERT_TRUE(size) << size.error().message;
    EXPECT_EQ(*size, value) << text;
  }
}

TEST(evaluate_size, reports_what_is_wrong) {
  const size_names names = {{"N", 6}, {"BATCH", 8}, {"LOWEST", INT64_MIN}};
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"", "ends where a number or a name should be"},
           {"N*", "ends where"},
           {"N N", "there is 'N' where an operator should be"},
           {"(N", "a ) is missing"},
           {"N)", "there is ')' where an operator"},
           {"N/4", "6 / 4 leaves a remainder"},
           {"N/0", "divides by 0"},
           {"N/(3-3)", "divides by 0"},
           {"BATHC", "there is no size \"BATHC\"; did you mean \"BATCH\"?"},
           {"9223372036854775807+1", "does not fit 64 bits"},
           {"9223372036854775807*2", "does not fit 64 bits"},
           {"9223372036854775808", "does not fit 64 bits"},
           {"LOWEST/-1", "does not fit 64 bits"},
           {"-LOWEST", "does not fit 64 bits"},
           {"LOWEST-1", "does not fit 64 bits"},
           {"N;", "there is ';'"},
           {std::string(100, '('), "nested too deep"},
           {std::string(100, '-') + "1", "nested too deep"},
           {std::string(300, '1'), "too long"}}) {
    const auto size = evaluate_size(text, names);
    ASSERT_FALSE(size) << text;
    EXPECT_THAT(size.error().message, HasSubstr(wanted)) << text;
  }
}

const std::string task_text = R"({ "format": 1, "name": "masked", "summary": "a masked product", "family": "matmul",
  "sizes": {"cpu": {"N": 8, "C": 4}, "cuda": {"N": 4096, "C": 512}},
  "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", "C*2"],
              "draw": {"distribution": "uniform", "low": -1, "high": 1, "min": -10}, "facts": ["upper_triangular", "diagonal"]},
             {"name": "label", "dtype": "int64", "shape": ["N"], "draw": {"distribution": "integer", "low": 0, "high": "C"}}],
  "weights": [{"name": "w", "dtype": "float32", "shape": ["C*2", "C"]}],
  "steps": [{"aten": "aten::mm", "args": {"self": "x", "mat2": "w"}, "out": ["h"]},
            {"aten": "aten::view", "args": {"self": "h", "size": ["N*C/4", 4]}, "out": ["v"]},
            {"aten": "aten::softmax.int", "args": {"self": "v", "dim": 1}, "out": ["y"]}],
  "outputs": ["y"] })";

TEST(read_task, evaluates_the_sizes_of_the_profile) {
  const auto t = read_task(task_text, "cpu");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->name, "masked");
  EXPECT_EQ(t->family, "matmul");
  EXPECT_EQ(t->profile, "cpu");
  EXPECT_EQ(t->reference.types.at("x").text(), "float32[8, 8]");
  EXPECT_EQ(t->reference.types.at("v").text(), "float32[8, 4]");
  EXPECT_TRUE(t->reference.is_pure_aten());
  EXPECT_EQ(t->inputs[0].draw.kind, distribution::uniform);
  EXPECT_EQ(t->inputs[0].draw.low, -1);
  EXPECT_EQ(t->inputs[0].draw.min, -10);
  EXPECT_FALSE(t->inputs[0].draw.max);
  EXPECT_EQ(t->inputs[1].draw.high, 4);
  EXPECT_EQ(t->weights[0].draw, draw_spec()) << "the standard normal";
  EXPECT_TRUE(t->has_fact("x", fact::diagonal));
  EXPECT_TRUE(t->has_fact("x", fact::upper_triangular));
  EXPECT_FALSE(t->has_fact("x", fact::symmetric));
  EXPECT_FALSE(t->has_fact("w", fact::diagonal));
  EXPECT_FALSE(t->has_fact("unknown", fact::diagonal));
  const auto large = read_task(task_text, "cuda");
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->reference.types.at("x").text(), "float32[4096, 1024]");
  EXPECT_NE(large->id, t->id);
}

TEST(read_task, gives_the_same_task_back_from_its_canonical_text) {
  const auto t = read_task(task_text, "cpu");
  ASSERT_TRUE(t) << t.error().message;
  const auto text = canonical_text(*t);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto again = read_task(text, "cuda");
  ASSERT_TRUE(again) << again.error().message << text;
  EXPECT_EQ(again->id, t->id);
  EXPECT_EQ(again->profile, "cpu");
  EXPECT_EQ(again->inputs, t->inputs);
  EXPECT_EQ(again->weights, t->weights);
  EXPECT_EQ(again->reference.text, t->reference.text);
  EXPECT_EQ(canonical_text(*again), text);
}

TEST(read_task, gives_an_id_that_is_the_same_on_every_machine) {
  EXPECT_EQ(read_task(task_text, "cpu")->id, "cff25d10589071cfd15e502fd59fcb99fab7469f1400fb70e58437680f6fe51b");
}

TEST(read_task, gives_an_id_that_does_not_depend_on_descriptions) {
  std::string reworded = task_text;
  const std::string from = "\"summary\": \"";
  ASSERT_NE(reworded.find(from), std::string::npos);
  reworded.replace(reworded.find(from), from.size(), from + "In other words: ");
  const auto t = read_task(task_text, "cpu"), other = read_task(reworded, "cpu");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_NE(other->summary, t->summary);
  EXPECT_EQ(other->id, t->id);
}

TEST(read_task, takes_names_in_any_script) {
  for (const std::string name : {"nétz", "сеть", "ネット", "网络.v2"}) {
    std::string text = task_text;
    const std::string from = "\"name\": \"masked\"";
    text.replace(text.find(from), from.size(), "\"name\": \"" + name + "\"");
    const auto t = read_task(text, "cpu");
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(t->name, name);
  }
}

TEST(read_task, names_the_task_the_field_and_the_reason) {
  for (const auto& [from, to, wanted] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"\"name\": \"masked\"", "\"name\": \"../x\"", "name: should have 1 to 100 letters"},
           {"\"name\": \"masked\"", "\"name\": \"a\u202eb\"", "name: should have 1 to 100 letters"},
           {"\"name\": \"masked\"", "\"name\": \"a\u00a0b\"", "name: should have 1 to 100 letters"},
           {"\"name\": \"masked\",", "", "the task: the key \"name\" is missing"},
           {"\"format\": 1", "\"format\": 3", "task masked: format: 3 is not 1"},
           {"\"summary\"", "\"sumary\"", "unknown key \"sumary\"; did you mean \"summary\"?"},
           {"\"cpu\":", "\"cpuu\":",
            "task masked: sizes: there is no profile \"cpu\"; did you mean \"cpuu\"? (there are cpuu, cuda)"},
           {"\"N\": 8", "\"N\": 8.5", "sizes, cpu, N: should be an integer, but is a number"},
           {"\"N\": 8", "\"N\": \"8\"", "sizes, cpu, N: should be an integer, but is a string"},
           {"\"N\": 8", "\"n 1\": 8", "sizes, cpu: \"n 1\" is not a valid name"},
           {"[\"N\", \"C*2\"]", "[\"N\", \"D*2\"]",
            "inputs[0] (x), shape[1]: the size \"D*2\": there is no size \"D\""},
           {"[\"N\", \"C*2\"]", "[\"N\", \"C/3\"]", "4 / 3 leaves a remainder"},
           {"[\"N\", \"C*2\"]", "[\"N\", \"C-5\"]", "inputs[0] (x), shape[1]: -1 is negative"},
           {"\"N*C/4\"", "\"N*C/5\"",
            "step 2 (aten::view), args.size[0]: the size \"N*C/5\": 32 / 5 leaves a remainder"},
           {"\"dim\": 1", "\"dim\": \"Q\"",
            "step 3 (aten::softmax.int), args.dim: the size \"Q\": there is no size \"Q\""},
           {"\"uniform\"", "\"unifrom\"",
            "inputs[0] (x), draw, distribution: there is no \"unifrom\"; did you mean \"uniform\"?"},
           {"\"low\": -1", "\"mean\": -1", "inputs[0] (x), draw (uniform): unknown key \"mean\""},
           {"\"low\": -1", "\"low\": 1", "inputs[0] (x), draw: low (1) should be below high (1)"},
           {"\"low\": -1", "\"low\": true", "inputs[0] (x), draw, low: should be a number or a size, but is a boolean"},
           {"\"min\": -10", "\"min\": 3, \"max\": 2", "min (3) is above max (2)"},
           {"\"integer\", \"low\": 0", "\"integer\", \"low\": 0.5", "low and high should be whole numbers"},
           {"\"integer\", \"low\": 0", "\"uniform\", \"low\": 0",
            "inputs[1] (label), draw, distribution: int64 needs integer"},
           {", \"draw\": {\"distribution\": \"integer\", \"low\": 0, \"high\": \"C\"}", "",
            "inputs[1] (label), draw: int64 needs one, such as"},
           {"\"diagonal\"]", "\"diagonl\"]",
            "inputs[0] (x), facts[1]: there is no \"diagonl\"; did you mean \"diagonal\"?"},
           {"\"diagonal\"]", "\"upper_triangular\"]", "facts[1]: upper_triangular appears twice"},
           {"\"high\": \"C\"}", "\"high\": \"C\"}, \"facts\": [\"diagonal\"]",
            "inputs[1] (label), facts[0]: diagonal needs two dimensions, but the tensor has 1"},
           {"[\"C*2\", \"C\"]", "[\"C*2\", \"C\"], \"facts\": [\"symmetric\"]",
            "weights[0] (w), facts[0]: symmetric needs a square matrix, but the last two dimensions are 8 and 4"},
           {"{\"aten\": \"aten::mm\", \"args\": {\"self\": \"x\", \"mat2\": \"w\"}, \"out\": [\"h\"]}",
            "{\"alloc\": \"h\", \"dtype\": \"float32\", \"shape\": [8, 4]}",
            "step 1: should have the key aten; a task has ATen steps only"},
           {"\"mat2\": \"w\"", "\"mat2\": \"ww\"",
            "task masked: step 1 (aten::mm), args.mat2: there is no value \"ww\"; did you mean \"w\"?"},
           {"\"outputs\": [\"y\"]", "\"outputs\": [\"z\"]", "task masked: outputs[0]: there is no value \"z\""},
           {"\"outputs\": [\"y\"]", "\"outputs\": [\"y\"], \"setup\": []", "unknown key \"setup\""},
           {"\"family\": \"matmul\"", "\"profile\": \"cpu\"", "sizes: a text with a \"profile\" is for one profile"}}) {
    const auto t = read_task(replaced(task_text, from, to), "cpu");
    ASSERT_FALSE(t) << to;
    EXPECT_THAT(t.error().message, HasSubstr(wanted)) << to;
  }
}

const std::string weights_blob = std::string(64, 'a') + ".safetensors", source_blob = std::string(64, 'b') + ".py";

// A text as the importer writes it: weights with content, one of them fixed, and the origin.
std::string imported_text() {
  return replaced(R"({ "format": 1, "name": "imported", "summary": "a layer", "family": "matmul",
  "origin": {"kind": "kernelbench", "level": 1, "problem": 23, "source": "SOURCE", "seed": 42,
             "modes": {"training": ["net.norm"], "evaluation": [""]}},
  "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 4], "draw": {"distribution": "simplex"}},
             {"name": "sign", "dtype": "float32", "shape": [8, 4], "draw": {"distribution": "signs"}},
             {"name": "one", "dtype": "float32", "shape": [1], "draw": {"distribution": "constant", "value": 1.5}}],
  "weights": [{"name": "fc_weight", "dtype": "float32", "shape": [3, 4], "draw": {"distribution": "uniform", "low": -1, "high": 1},
               "content": {"file": "WEIGHTS", "tensor": "fc.weight"}},
              {"name": "index", "dtype": "int64", "shape": [2],
               "content": {"file": "WEIGHTS", "tensor": "index", "fixed": true}}],
  "steps": [{"aten": "aten::mul.Tensor", "args": {"self": "x", "other": "sign"}, "out": ["s"]},
            {"aten": "aten::mul.Tensor", "args": {"self": "s", "other": "one"}, "out": ["t"]},
            {"aten": "aten::linear", "args": {"input": "t", "weight": "fc_weight"}, "out": ["h"]},
            {"aten": "aten::index_select", "args": {"self": "h", "dim": 1, "index": "index"}, "out": ["y"]}],
  "outputs": ["y"] })",
                  "SOURCE", source_blob);
}

std::string with_blob(std::string text) {
  for (std::size_t at = 0; (at = text.find("WEIGHTS", at)) != std::string::npos;)
    text.replace(at, 7, weights_blob);
  return text;
}

TEST(read_task, keeps_the_content_of_weights_and_the_origin) {
  const auto t = read_task(with_blob(imported_text()), "cuda");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->weights[0].content, (tensor_content{weights_blob, "fc.weight", false}));
  EXPECT_EQ(t->weights[0].draw.kind, distribution::uniform);
  EXPECT_EQ(t->weights[1].content, (tensor_content{weights_blob, "index", true}));
  EXPECT_EQ(t->content_files(), std::vector<std::string>{weights_blob});
  EXPECT_EQ(
      t->origin,
      (task_origin{origin_kind::kernelbench, 1, 23, source_blob, 42, module_modes{{"net.norm"}, {""}}, {}, {}, {}}));
  EXPECT_EQ(t->inputs[0].draw.kind, distribution::simplex);
  EXPECT_EQ(t->inputs[1].draw.kind, distribution::signs);
  EXPECT_EQ(t->inputs[2].draw.value, 1.5);
  EXPECT_TRUE(t->folder.empty());
  const auto again = read_task(canonical_text(*t), "cpu");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->id, t->id);
  EXPECT_EQ(again->inputs, t->inputs);
  EXPECT_EQ(again->weights, t->weights);
  EXPECT_EQ(again->origin, t->origin);
}

// Two inputs of no known distribution, and one whose values have a random scale.
TEST(read_task, keeps_recorded_draws_and_random_scales) {
  const auto recorded = [](const std::string& more) {
    return "\"content\": {\"file\": \"" + weights_blob + "\", \"tensor\": \"x\", \"draws\": 8" + more + "}";
  };
  auto text = replaced(with_blob(imported_text()), "\"draw\": {\"distribution\": \"signs\"}",
                       R"("draw": {"distribution": "normal", "std": 2, "min": -1}, )" + recorded(""));
  text = replaced(text, "\"simplex\"", R"("simplex", "of": {"distribution": "uniform", "low": -1, "high": 2,
                                                              "factor": {"low": 0.5, "high": 4}})");
  const auto t = read_task(text, "cuda");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->inputs[1].content, (tensor_content{weights_blob, "x", false, 8}));
  EXPECT_EQ(t->inputs[1].draw.std, 2);
  const auto& simplex = t->inputs[0].draw;
  EXPECT_EQ(simplex.kind, distribution::simplex);
  EXPECT_EQ(simplex.of, distribution::uniform);
  EXPECT_EQ(std::pair(simplex.low, simplex.high), std::pair(-1.0, 2.0));
  EXPECT_EQ(simplex.factor, (draw_factor{0.5, 4}));
  const auto again = read_task(canonical_text(*t), "cpu");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->id, t->id);
  EXPECT_EQ(again->inputs, t->inputs);
}

// What a task is must not change with words that it does not use: its id is what all that is known of it is kept by.
TEST(read_task, says_nothing_new_of_tasks_that_were_there_before) {
  const auto t = read_task(with_blob(imported_text()), "cpu");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->id, "8086f0501b3316220d7e99ccadb3c16eda858fd3afe49935096bffe5689f109e");
}

// y = x + h, which is kept in h; x becomes x * h.
std::string text_with_states(const std::string& states, const std::string& returns) {
  return R"({"format": 1, "name": "n", "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4]},
                                                   {"name": "h", "dtype": "float32", "shape": [3, 4]}],
             "steps": [{"aten": "aten::add.Tensor", "args": {"self": "x", "other": "h"}, "out": ["y"]},
                       {"aten": "aten::mul.Tensor", "args": {"self": "x", "other": "h"}, "out": ["p"]},
                       {"aten": "aten::sum", "args": {"self": "x"}, "out": ["s"]}],
             "outputs": ["y", "p", "s"], "states": )" +
         states + (returns.empty() ? "" : ", \"returns\": " + returns) + "}";
}

TEST(read_task, keeps_states_and_what_forward_returns) {
  const std::string states =
      R"([{"name": "x", "kind": "argument", "input": "x", "output": "p"},
          {"name": "cell.h", "kind": "assigned", "input": "h", "output": "y"}])";
  const std::string returns =
      R"({"tuple": [0, {"list": [2, null]}, {"dict": [["a key", 1]]}, {"object": ["a.b:Out.In", ["y", 0], ["n", null]]}]})";
  const auto t = read_task(text_with_states(states, returns), "cuda");
  ASSERT_TRUE(t) << t.error().message;
  ASSERT_EQ(t->states.size(), 2U);
  EXPECT_EQ(t->states[0].kind, state_kind::argument);
  EXPECT_EQ(t->states[1], (task_state{"cell.h", state_kind::assigned, "h", "y"}));
  const auto again = read_task(canonical_text(*t), "cpu");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->states, t->states);
  EXPECT_EQ(again->returns, *json::parse(returns));
  const auto other = read_task(replaced(text_with_states(states, returns), "cell.h", "cell.g"), "cuda");
  ASSERT_TRUE(other);
  EXPECT_NE(other->id, t->id);
}

TEST(read_task, reports_what_is_wrong_with_states) {
  const std::string states =
      R"([{"name": "x", "kind": "argument", "input": "x", "output": "p"},
          {"name": "h", "kind": "in_place", "input": "h", "output": "y"}])";
  for (const auto& [from, to, wanted] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"\"input\": \"h\"", "\"input\": \"g\"", "states[1], input: \"g\" is none of the program's inputs"},
           {"\"output\": \"y\"", "\"output\": \"z\"", "states[1], output: \"z\" is none of the program's outputs"},
           {"\"output\": \"y\"", "\"output\": \"s\"",
            "states[1]: the input is float32[3, 4], and the output float32[]"},
           {"\"input\": \"h\"", "\"input\": \"x\"", "states[1]: an earlier state has its name or its input"},
           {"\"argument\"", "\"assigned\"", ""},
           {"\"in_place\"", "\"kept\"", "states[1], kind: there is no \"kept\""},
           {"\"name\": \"h\"", "\"name\": \"\"", "states[1], name: should be a name of 1 to 500 bytes"}}) {
    const auto read = read_task(text_with_states(replaced(states, from, to), "0"), "cpu");
    EXPECT_EQ(read.has_value(), wanted.empty()) << to;
    EXPECT_THAT(read ? "" : read.error().message, HasSubstr(wanted)) << to;
  }
  const auto first =
      read_task(text_with_states(R"([{"name": "x", "kind": "assigned", "input": "x", "output": "p"}])", "0"), "cpu");
  ASSERT_FALSE(first);
  EXPECT_THAT(first.error().message, HasSubstr("states: \"x\" should come after the inputs that forward is given"));
  EXPECT_THAT(read_task(text_with_states(states, ""), "cpu").error().message, HasSubstr("says what forward returns"));
  for (const auto* wrong :
       {"3", "-1", "1.5", "[0]", R"({"tuple": 0})", R"({"set": [0]})", R"({"dict": [0]})", R"({"dict": [["a", 7]]})",
        R"({"tuple": [0], "list": []})", R"({"object": []})", R"({"object": ["a b"]})",
        R"({"object": ["os:system:x"]})", R"({"object": ["Out", ["a b", 0]]})", R"({"object": ["Out", 0]})"})
    EXPECT_FALSE(read_task(text_with_states(states, wrong), "cpu")) << wrong;
}

TEST(read_task, keeps_why_its_model_was_not_compared_with_it) {
  std::string text = with_blob(imported_text());
  const auto compared = read_task(text, "cpu");
  ASSERT_TRUE(compared);
  EXPECT_FALSE(is_uncompared(*compared));
  const std::string seed = R"("seed": 42,)";
  text.replace(text.find(seed), seed.size(), seed + R"( "uncompared": "it is slow",)");
  const auto t = read_task(text, "cpu");
  ASSERT_TRUE(t);
  EXPECT_TRUE(is_uncompared(*t));
  EXPECT_EQ(t->origin->uncompared, "it is slow");
  EXPECT_EQ(t->id, compared->id);
  const auto again = read_task(canonical_text(*t), "cpu");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->origin, t->origin);
}

TEST(read_task, gives_an_id_that_depends_on_content_but_not_on_origin) {
  const auto id_of = [](const std::string& text) {
    const auto t = read_task(text, "cpu");
    EXPECT_TRUE(t) << t.error().message;
    return t ? t->id : "";
  };
  const auto text = with_blob(imported_text());
  const auto id = id_of(text);
  EXPECT_EQ(id_of(replaced(text, "\"problem\": 23", "\"problem\": 24")), id);
  EXPECT_EQ(id_of(replaced(text, source_blob, std::string(64, 'c') + ".py")), id);
  EXPECT_NE(id_of(replaced(text, weights_blob, std::string(64, 'c') + ".safetensors")), id);
  EXPECT_NE(id_of(replaced(text, "fc.weight", "fd.weight")), id);
  EXPECT_NE(id_of(replaced(replaced(text, ", \"fixed\": true", ""), "\"shape\": [2],",
                           R"("shape": [2], "draw": {"distribution": "integer", "high": 1},)")),
            id);
}

TEST(read_task, keeps_recorded_distributions_which_are_no_part_of_the_id) {
  const auto text = with_blob(imported_text());
  const auto bare = read_task(text, "cuda");
  ASSERT_TRUE(bare) << bare.error().message;
  const std::string produced = std::get<aten_step>(bare->reference.text.steps.front()).results.front();
  auto more = replaced(text, "\"draw\": {\"distribution\": \"simplex\"}",
                       R"("draw": {"distribution": "normal"}, "quantiles": [-1, 0.5, 2])");
  more = replaced(more, "\"level\": 1", "\"values\": {\"" + produced + "\": [0, 0, 4]}, \"level\": 1");
  const auto t = read_task(more, "cuda");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_THAT(t->inputs[0].quantiles, testing::ElementsAre(-1, 0.5, 2));
  EXPECT_THAT(t->origin->values.at(produced), testing::ElementsAre(0, 0, 4));
  const auto again = read_task(canonical_text(*t), "cuda");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->inputs, t->inputs);
  EXPECT_EQ(again->origin, t->origin);
  const auto without = read_task(replaced(more, ", \"quantiles\": [-1, 0.5, 2]", ""), "cuda");
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_EQ(without->id, t->id);
  EXPECT_NE(bare->id, t->id) << "its draw is another one";
}

TEST(read_task, reports_what_is_wrong_with_content_and_origin) {
  for (const auto& [from, to, wanted] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {weights_blob, "../weights.safetensors",
            "weights[0] (fc_weight), content, file: \"../weights.safetensors\" should be 64 hexadecimal digits"},
           {weights_blob, std::string(64, 'A') + ".safetensors", "should be 64 hexadecimal digits"},
           {"\"tensor\": \"fc.weight\"", "\"name\": \"fc.weight\"", "weights[0] (fc_weight), content: unknown key"},
           {"\"tensor\": \"fc.weight\"", "\"tensor\": \"\"", "content, tensor: should be a name of 1 to 500 bytes"},
           {"\"fixed\": true", "\"fixed\": 1", "content, fixed: should be a boolean, but is an integer"},
           {", \"fixed\": true", "", "weights[1] (index), draw: int64 needs one, such as"},
           {"\"simplex\"}", "\"simplex\"}, \"content\": {\"file\": \"" + weights_blob + "\", \"tensor\": \"x\"}",
            "inputs[0] (x), content: \"draws\" is required for an input and not allowed for a weight"},
           {"\"fixed\": true", "\"draws\": 2, \"fixed\": true", "weights[1] (index), content: \"draws\" is required"},
           {"\"simplex\"}",
            "\"simplex\"}, \"content\": {\"file\": \"" + weights_blob + R"(", "tensor": "x", "draws": 0})",
            "inputs[0] (x), content, draws: should be 1 to 1024"},
           {"\"simplex\"}", R"("simplex", "of": {"distribution": "signs"}})", "draw, of: should be uniform or normal"},
           {"\"simplex\"}", R"("simplex", "factor": {"low": 0, "high": 1}})", "unknown key \"factor\""},
           {"\"simplex\"}", R"("normal", "factor": {"low": 1, "high": 1}})",
            "factor: low (1) should be below high (1)"},
           {"\"simplex\"}", R"("normal", "factor": {"low": 1}})", "factor: the key \"high\" is missing"},
           {"\"simplex\"}", "\"simplex\", \"min\": 0}", "inputs[0] (x), draw (simplex): unknown key \"min\""},
           {"\"simplex\"}", "\"simplex\"}, \"facts\": [\"one_hot\"]", "facts[0]: rows of a simplex are not one_hot"},
           {"\"signs\"}", "\"constant\"}", "inputs[1] (sign), draw: the key \"value\" is missing"},
           {"\"kind\": \"kernelbench\"", "\"kind\": \"kernelbank\"", "origin, kind: there is no \"kernelbank\""},
           {"\"kind\": \"kernelbench\"", "\"kind\": \"python\"", "other tasks do not"},
           {", \"problem\": 23", "", "other tasks do not"},
           {"\"level\": 1", "\"level\": -1", "origin, level: -1 is negative"},
           {"\"level\": 1", R"("level": 1, "values": {"nothing": [0, 1]})", "values: no step produces \"nothing\""},
           {"\"level\": 1", R"("level": 1, "values": {"y": [1, 0]})",
            "values, \"y\": should be 2 to 129 finite numbers"},
           {"\"simplex\"}", R"("normal"}, "quantiles": [3])", "inputs[0] (x), quantiles: should be 2 to 129"},
           {"\"simplex\"}", R"("simplex"}, "quantiles": [0, 1])", "inputs[0] (x), quantiles: need a floating tensor"},
           {"[\"net.norm\"]", "[1]", "origin, modes, training[0]: should be a string"},
           {", \"evaluation\": [\"\"]", "", "origin, modes: the key \"evaluation\" is missing"},
           {source_blob, "model.py", "origin, source: \"model.py\" should be 64 hexadecimal digits and \".py\""}}) {
    const auto t = read_task(replaced(with_blob(imported_text()), from, to), "cpu");
    ASSERT_FALSE(t) << to;
    EXPECT_THAT(t.error().message, HasSubstr(wanted)) << to;
  }
}

TEST(read_task, keeps_values_in_the_range_of_their_type) {
  const auto with = [](const std::string& type, const std::string& draw) {
    const auto t = read_task(R"({"format": 1, "name": "n", "inputs": [{"name": "x", "dtype": ")" + type +
                                 R"(", "shape": [2], "draw": )" + draw +
                                 R"(}], "steps": [{"aten": "aten::clone", "args": {"self": "x"}, "out": ["y"]}],
                                 "outputs": ["y"]})",
                             "cpu");
    return t ? std::string() : t.error().message;
  };
  EXPECT_EQ(with("int8", R"({"distribution": "signs"})"), "");
  EXPECT_EQ(with("bool", R"({"distribution": "constant", "value": 1})"), "");
  EXPECT_EQ(with("float16", R"({"distribution": "constant", "value": -0.5})"), "");
  EXPECT_THAT(with("uint8", R"({"distribution": "signs"})"), HasSubstr("uint8 needs integer, bernoulli or constant"));
  EXPECT_THAT(with("int8", R"({"distribution": "constant", "value": 128})"),
              HasSubstr("draw, value: 128 is not a valid int8"));
  EXPECT_THAT(with("bool", R"({"distribution": "constant", "value": 0.5})"),
              HasSubstr("value: 0.5 is not a valid bool"));
  EXPECT_THAT(with("bool", R"({"distribution": "signs"})"), HasSubstr("a bool is drawn from bernoulli, or constant"));
  EXPECT_THAT(with("int64", R"({"distribution": "simplex"})"), HasSubstr("int64 needs integer, bernoulli, signs"));
}

// A temporary folder, removed by the destructor.
struct scratch_folder {
  std::string path;
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "cudal1-tasks-XXXXXX").string();
    if (::mkdtemp(name.data())) path = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void write(const std::string& file, const std::string& text) const { std::ofstream(path + "/" + file) << text; }
};

TEST(load_tasks, reads_a_folder_by_name) {
  const scratch_folder folder;
  folder.write("b.json", task_text);
  folder.write("z.json", replaced(task_text, "masked", "another"));
  folder.write("notes.txt", "not a task");
  const auto tasks = load_tasks(folder.path, "cpu");
  ASSERT_TRUE(tasks) << tasks.error().message;
  ASSERT_EQ(tasks->size(), 2u);
  EXPECT_EQ(tasks->at(0).name, "another");
  EXPECT_EQ(tasks->at(1).name, "masked");
  EXPECT_EQ(tasks->at(1).folder, folder.path);
}

TEST(load_tasks, reports_which_file_is_wrong) {
  const scratch_folder folder;
  EXPECT_THAT(load_tasks(folder.path, "cpu").error().message, HasSubstr("has no *.json"));
  EXPECT_THAT(load_tasks(folder.path + "/none", "cpu").error().message, HasSubstr("/none: No such file"));
  folder.write("a.json", task_text);
  folder.write("b.json", task_text);
  EXPECT_THAT(load_tasks(folder.path, "cpu").error().message,
              testing::AllOf(HasSubstr("b.json: the task masked is in "), HasSubstr("a.json already")));
  folder.write("b.json", "{");
  EXPECT_THAT(load_tasks(folder.path, "cpu").error().message, HasSubstr("b.json: JSON, line 1"));
  EXPECT_THAT(load_task(folder.path + "/none.json", "cpu").error().message, HasSubstr("none.json: cannot be opened"));
}

TEST(builtin_task_folder, prefers_the_environment_variable) {
  const scratch_folder folder;
  ::setenv("CUDAL1_TASKS", folder.path.c_str(), 1);
  EXPECT_EQ(builtin_task_folder().value_or(""), folder.path);
  ::setenv("CUDAL1_TASKS", (folder.path + "/none").c_str(), 1);
  const auto missing = builtin_task_folder();
  ::unsetenv("CUDAL1_TASKS");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("CUDAL1_TASKS names"));
  EXPECT_TRUE(builtin_task_folder());
}

class builtin_tasks : public testing::TestWithParam<const char*> {
 protected:
  std::vector<task> load() const {
    const auto folder = builtin_task_folder();
    EXPECT_TRUE(folder) << folder.error().message;
    auto tasks = load_tasks(*folder, GetParam());
    EXPECT_TRUE(tasks) << tasks.error().message;
    return tasks ? std::move(*tasks) : std::vector<task>();
  }
};

TEST_P(builtin_tasks, load_with_stable_ids_and_texts_that_read_back) {
  const auto tasks = load(), again = load();
  ASSERT_GE(tasks.size(), 18u);
  ASSERT_EQ(tasks.size(), again.size());
  std::set<std::string> ids;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto& t = tasks[i];
    EXPECT_EQ(t.id, again[i].id) << t.name;
    EXPECT_TRUE(ids.insert(t.id).second) << t.name;
    const auto back = read_task(canonical_text(t), "another");
    ASSERT_TRUE(back) << t.name << ": " << back.error().message;
    EXPECT_EQ(back->id, t.id) << t.name;
    EXPECT_EQ(back->profile, GetParam());
    EXPECT_TRUE(t.reference.is_pure_aten()) << t.name;
    EXPECT_GE(t.summary.size(), 20u) << t.name;
    EXPECT_NE(t.family, "other") << t.name;
  }
}

TEST_P(builtin_tasks, have_exact_outputs_in_float64) {
  for (const auto& t : load()) {
    const auto wide = to_float64(t.reference.text);
    ASSERT_TRUE(wide) << wide.error().message;
    const auto checked = check_program(*wide);
    ASSERT_TRUE(checked) << checked.error().message;
    for (const auto& name : t.reference.text.outputs)
      EXPECT_EQ(checked->types.at(name).type, dtype::float64) << t.name;
  }
}

// FLOPs of the reference's matrix products, some of which algebra may avoid in variants.
double product_flops(const checked_program& p) {
  double flops = 0;
  for (const auto& s : p.text.steps) {
    const auto& step = std::get<aten_step>(s);
    if (step.op != "aten::mm" && step.op != "aten::linear") continue;
    const auto left = std::ranges::find_if(
        step.args, [](const auto& argument) { return argument.first == "self" || argument.first == "input"; });
    const auto inner = p.types.at(std::string(left->second.as_string())).shape.back();
    flops += 2.0 * static_cast<double>(p.types.at(step.results.at(0)).numel()) * static_cast<double>(inner);
  }
  return flops;
}

TEST_P(builtin_tasks, move_or_multiply_enough_to_be_worth_timing) {
  const bool gpu = std::string(GetParam()) == "cuda";
  const int64_t least_bytes = gpu ? int64_t{64} << 20 : int64_t{256} << 10;
  const double least_flops = gpu ? 10e9 : 100e6;  // 0.2 ms of an H200's float32
  for (const auto& t : load()) {
    int64_t bytes = 0;
    for (const auto& [name, type] : t.reference.types)
      if (!t.reference.view_of.contains(name)) bytes += type.storage_bytes();
    EXPECT_TRUE(bytes >= least_bytes || product_flops(t.reference) >= least_flops)
        << t.name << ": " << bytes << " bytes, " << product_flops(t.reference) << " FLOPs";
  }
}

INSTANTIATE_TEST_SUITE_P(profiles, builtin_tasks, testing::Values("cpu", "cuda"),
                         [](const auto& profile) { return std::string(profile.param); });

}  // namespace
}  // namespace cudal1
