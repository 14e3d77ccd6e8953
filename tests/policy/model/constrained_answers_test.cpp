// Answers of a model with random weights: whatever it would say, what it may say can be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/model/language_model.hpp"
#include "policy/model/local/local_answer.hpp"
#include "policy/moves/lowering.hpp"
#include "policy/prompt/answer_code.hpp"
#include "policy/prompt/answer_reader.hpp"
#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/tile_pattern.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/program/task_fit.hpp"
#include "tests/policy/model/tiny_model.hpp"
#include "tests/policy/prompt/prompt_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

constexpr int64_t answer_tokens = 600;

class constrained_answers : public testing::Test {
 protected:
  void SetUp() override {
    write_tiny_model(folder_.path() + "/tiny", 3, 4096);
    files_ = value_of(local_checkpoint::open(folder_.path() + "/tiny"));
    model_ = value_of(language_model::open(folder_.path() + "/tiny", model_precision::float32));
  }

  std::vector<chat_answer> answers(const task& t, answer_form form, std::size_t count,
                                   int64_t most_tokens = answer_tokens) {
    return answers_in(std::make_shared<const byte_automaton>(
                          value_of(shape_of_answer(t, *value_of(find_lowering_target("cpu")), form))),
                      count, most_tokens);
  }

  std::vector<chat_answer> answers_in(const std::shared_ptr<const byte_automaton>& shape, std::size_t count,
                                      int64_t most_tokens = answer_tokens) {
    const auto masks = std::make_shared<const token_masks>(value_of(files_->trie()), shape);
    chat_request r;
    r.messages = {{"user", "Write."}};
    r.temperature = 1;
    r.top_p = 1;
    r.max_tokens = most_tokens;
    const auto prompt = value_of(files_->chat().prompt_of(r.messages));
    const auto engine = value_of(model_->make_engine({.answers_at_once = static_cast<int64_t>(count)}));
    std::vector<chat_answer> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      r.sample = static_cast<int64_t>(i);
      auto request = value_of(generation_of(r, prompt, masks, files_->chat().ends()));
      request.done = [&, i](expected<generated_tokens> made) {
        all[i] = answer_of(value_of(std::move(made)), static_cast<int64_t>(prompt.size()), *files_);
      };
      value_of(engine->submit(std::move(request)));
    }
    while (engine->step()) {
    }
    return all;
  }

  temporary_folder folder_;
  std::shared_ptr<const local_checkpoint> files_;
  std::unique_ptr<language_model> model_;
};

struct counted {
  int parse = 0, legal = 0;
};

// By the way that answers go in a search. `legal`: what the steps mean together holds, too.
counted read_programs(const task& t, const std::vector<chat_answer>& all) {
  counted out;
  for (const auto& a : all) {
    const auto read = read_answer(a.text, {&t, nullptr, answer_form::program, a.finish_reason});
    const auto program = read_program(read.code);
    EXPECT_TRUE(program) << program.error().message << "\n" << a.text;
    EXPECT_EQ(a.finish_reason, "stop");
    if (program) {
      EXPECT_EQ(program->inputs, t.reference.text.inputs);
      EXPECT_EQ(program->outputs, t.reference.text.outputs);
      ++out.parse;
    }
    out.legal += read.problem ? 0 : 1;
    if (read.problem) {
      EXPECT_THAT(read.problem->message, testing::Not(testing::HasSubstr("the source has no \"__global__"))) << a.text;
    }
  }
  return out;
}

TEST_F(constrained_answers, a_thousand_programs_can_be_read) {
  counted sum;
  for (const char* name : {"softmax", "matmul_epilogue", "huber_loss", "attention"}) {
    SCOPED_TRACE(name);
    const auto t = builtin_task(name, "cpu");
    const auto count = read_programs(*t, answers(*t, answer_form::program, 250));
    sum.parse += count.parse;
    sum.legal += count.legal;
  }
  EXPECT_EQ(sum.parse, 1000);
  fmt::print("{} programs parse, {} are legal\n", sum.parse, sum.legal);
}

TEST_F(constrained_answers, schedules_have_moves_of_the_task) {
  const auto t = builtin_task("rms_norm", "cpu");
  int legal = 0;
  for (const auto& a : answers(*t, answer_form::schedule, 100)) {
    const auto read =
        read_answer(a.text, {t.get(), value_of(find_lowering_target("cpu")), answer_form::schedule, a.finish_reason});
    const auto plan = parse_schedule(read.code);
    ASSERT_TRUE(plan) << plan.error().message << "\n" << a.text;
    EXPECT_FALSE(plan->moves.empty());
    legal += read.problem ? 0 : 1;
  }
  fmt::print("{} of 100 schedules are legal\n", legal);
  EXPECT_EQ(legal, 100);
}

TEST_F(constrained_answers, kernels_in_the_tile_vocabulary_can_be_read) {
  int parsed = 0, legal = 0;
  for (const char* name : {"softmax", "matmul_epilogue", "huber_loss"}) {
    SCOPED_TRACE(name);
    const auto t = builtin_task(name, "cpu");
    for (const auto& a : answers(*t, answer_form::tile, 10)) {
      EXPECT_EQ(a.finish_reason, "stop");
      const auto read = read_answer(a.text, {t.get(), nullptr, answer_form::tile, a.finish_reason});
      const auto code = read_tile(read.code, *t);
      ASSERT_TRUE(code || code.error().code != errc::parse_error) << a.text;
      ++parsed;
      legal += read.problem ? 0 : 1;
    }
  }
  fmt::print("{} kernels parse, {} are legal\n", parsed, legal);
}

// Whatever their expressions are.
TEST_F(constrained_answers, bodies_of_frames_are_legal_and_compile) {
  host_compiler_options options;
  options.allow_weak_confinement = true;
  const auto compiler = value_of(host_compiler::create(options));
  for (const char* name : {"scaled_masked_softmax", "matmul_epilogue"}) {
    const auto t = builtin_task(name, "cpu");
    const auto shape = std::make_shared<const byte_automaton>(value_of(byte_automaton::make(byte_pattern::sequence(
        {byte_pattern::text("## Code\n```\n"), body_pattern(frames_of(*t).front()), byte_pattern::text("```")}))));
    int compiled = 0;
    for (const auto& a : answers_in(shape, 12)) {
      const auto read = read_answer(a.text, {t.get(), nullptr, answer_form::tile, a.finish_reason});
      ASSERT_FALSE(read.problem) << read.problem->message << "\n" << a.text;
      constexpr int most_compiled = 3;
      if (compiled++ == most_compiled) break;
      const auto made = compiler->compile(*read.program, 60);
      EXPECT_TRUE(made) << made.error().message << "\n" << read.code;
    }
  }
}

TEST_F(constrained_answers, end_within_the_tokens_that_they_may_have) {
  const auto t = builtin_task("softmax", "cpu");
  const auto shape = value_of(shape_of_answer(*t, *value_of(find_lowering_target("cpu")), answer_form::program));
  const int64_t least = shape.distance(shape.begin()) + 1;
  read_programs(*t, answers(*t, answer_form::program, 20, least));
  read_programs(*t, answers(*t, answer_form::program, 20, least + 7));
  EXPECT_FALSE(constraint_of(
      std::make_shared<const token_masks>(value_of(files_->trie()), std::make_shared<const byte_automaton>(shape)),
      least - 1, files_->chat().ends()));
}

// What a schedule is lowered to could have been written, once its kernels have an answer's names.
TEST_F(constrained_answers, include_generated_programs_by_other_names) {
  const std::string words = "## Performance analysis\nOne pass.\n## Design\nRows.\n## Code\n```\n";
  // Those of a GPU have __launch_bounds__ before their names.
  for (const auto& [name, schedule, kind] : {std::tuple("softmax", "row_kernel(steps=0)", "cpu"),
                                             {"gelu_by_hand", "fuse(steps=0..7)", "cpu"},
                                             {"softmax", "row_kernel(steps=0); block(group=0, threads=256)", "cuda"}}) {
    SCOPED_TRACE(fmt::format("{} {}", name, kind));
    const auto* target = value_of(find_lowering_target(kind));
    const auto t = builtin_task(name, kind);
    const auto shape = value_of(shape_of_answer(*t, *target, answer_form::program));
    const auto made = value_of(lower(*t, value_of(parse_schedule(schedule)), *target));
    const auto text = [&](const program& p) {
      auto code = print_program(p);
      code.erase(code.find_last_not_of('\n') + 1);
      return words + code + "\n```";
    };
    EXPECT_FALSE(shape.accepts(text(made.checked.text)));
    EXPECT_TRUE(shape.accepts(text(with_answer_names(made.checked.text))))
        << text(with_answer_names(made.checked.text));
    EXPECT_TRUE(check_program(with_answer_names(made.checked.text)));
  }
}

TEST(names_of_answers, are_given_in_the_order_of_the_source) {
  program p;
  for (const char* name : {"b", "a", "b"}) {
    launch_step launch;
    launch.kernel = name;
    p.steps.emplace_back(launch);
  }
  p.source = "__global__ void a(int ab) {}\n__global__ void b(int b_, int a1) {}\n";
  const auto named = with_answer_names(p);
  EXPECT_EQ(named.source,
            "__global__ void first_kernel(int ab) {}\n__global__ void second_kernel(int b_, int a1) {}\n");
  EXPECT_EQ(std::get<launch_step>(named.steps[0]).kernel, "second_kernel");
  EXPECT_EQ(std::get<launch_step>(named.steps[1]).kernel, "first_kernel");
  EXPECT_EQ(with_answer_names(named), named);
  p.source += "int first_kernel;";
  EXPECT_EQ(with_answer_names(p), p) << "the name is taken";
}

// The programs of the library, but those with steps that the shape leaves out, could have been written.
TEST_F(constrained_answers, include_programs_as_people_write_them) {
  const auto t = builtin_task("softmax", "cpu");
  const auto shape = value_of(shape_of_answer(*t, *value_of(find_lowering_target("cpu")), answer_form::program));
  const std::string words = "## Performance analysis\nOne pass `over` each row.\n\n## Design\nRows.\n\n## Code\n```\n";
  const std::string source =
      "__global__ void kernel(const float* x, float* y) {\n  y[threadIdx.x] = x[threadIdx.x];\n}\n```";
  const std::string launch =
      R"({"launch":"kernel","grid":[128,1,1],"block":[16,1,1],"shared_bytes":0,"args":[{"in":"x"},{"out":"y"},{"i32":-7},{"f32":0.5}]})";
  const std::string declared =
      R"("inputs":[{"name":"x","dtype":"float32","shape":[2048,1024]}],"weights":[],"setup":[],)";
  const std::string one_line = R"({"format":1,"name":"softmax",)" + declared +
                               R"("steps":[{"alloc":"y","dtype":"float32","shape":[2048,1024]},)" + launch +
                               R"(],"outputs":["y"],"execution":{"graph":false,"lanes":1}})";
  EXPECT_TRUE(shape.accepts(words + one_line + "\n---\n" + source));
  const auto readable =
      print_program_head(value_of(read_program(one_line + "\n---\n" + source.substr(0, source.size() - 3))));
  EXPECT_TRUE(shape.accepts(words + readable + "---\n" + source));
  EXPECT_TRUE(shape.accepts("<think>a ``` b</think>\n\n" + words + readable + "---\n// Rows.\n" + source));
  EXPECT_FALSE(shape.accepts(words + readable + "---\n" + source + "\n```"));
  // A head launches what its source has.
  auto two = one_line;
  two.replace(two.find(launch), launch.size(), launch + "," + launch);
  for (const char* name : {"first_kernel", "second_kernel"})
    two.replace(two.find("\"kernel\""), 8, fmt::format("\"{}\"", name));
  const std::string first = "__global__ void first_kernel(float* y) {}\n",
                    second = "__global__ void second_kernel(float* y) {}\n";
  EXPECT_TRUE(shape.accepts(words + two + "\n---\n" + first + second + "```"));
  EXPECT_FALSE(shape.accepts(words + two + "\n---\n" + first + "```"));
  EXPECT_FALSE(shape.accepts(words + two + "\n---\n" + source));
  EXPECT_FALSE(shape.accepts(words + one_line + "\n---\n" + second + "```"));
  EXPECT_FALSE(shape.accepts(words + one_line + "\n---\n__global__ void kernel(int a; {}\n```")) << "no parameters";
  // Where a line begins, and nowhere else.
  for (const auto& [before, accepted] : {std::pair("float a;\n", true), {"// a\n", true}, {"a", false}, {"// ", false}})
    EXPECT_EQ(shape.accepts(words + one_line + "\n---\n" + before + source), accepted) << before;
  // Names that are not bound, other outputs, too many threads.
  for (const auto& [was, is] :
       {std::pair("\"in\":\"x\"", "\"in\":\"z\""), std::pair("\"outputs\":[\"y\"]", "\"outputs\":[\"x\"]"),
        std::pair("\"block\":[16,1,1]", "\"block\":[1024,2,1]"), std::pair("1024]}", "1023]}")}) {
    auto wrong = one_line;
    const auto at = wrong.find(was);
    ASSERT_NE(at, std::string::npos) << was;
    wrong.replace(at, std::string(was).size(), is);
    EXPECT_FALSE(shape.accepts(words + wrong + "\n---\n" + source)) << is;
  }
}

}  // namespace
}  // namespace cudal1
