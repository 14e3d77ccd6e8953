// Tasks on which one proof alone decides, each beside a twin on which it must not apply. What a proof makes of a task
// is judged by the gates.
#include <algorithm>
#include <set>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A task in short: tensors as "name [shape]", or "name [shape] facts"; steps as "result = operator(arguments)".
struct short_task {
  std::vector<std::string> inputs, weights, steps;
  std::string outputs = R"("y")";
};

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

std::string declared(const std::string& text) {
  const auto open = text.find('['), close = text.find(']');
  std::string out = R"({"name": )" + quoted(text.substr(0, open - 1)) + R"(, "dtype": "float32", "shape": )" +
                    text.substr(open, close + 1 - open);
  if (close + 2 < text.size()) out += R"(, "facts": [)" + quoted(text.substr(close + 2)) + "]";
  return out + "}";
}

std::string written_step(const std::string& text) {
  const auto equals = text.find(" = "), open = text.find('(');
  return R"({"aten": "aten::)" + text.substr(equals + 3, open - equals - 3) + R"(", "args": {)" +
         text.substr(open + 1, text.rfind(')') - open - 1) + R"(}, "out": [)" + quoted(text.substr(0, equals)) + "]}";
}

std::string listed(const std::vector<std::string>& items, std::string (*as)(const std::string&)) {
  std::string out;
  for (const auto& item : items)
    out += (out.empty() ? "" : ", ") + as(item);
  return "[" + out + "]";
}

task read(const short_task& t) {
  const std::string text = R"({"format": 1, "name": "t", "family": "test", "inputs": )" + listed(t.inputs, declared) +
                           R"(, "weights": )" + listed(t.weights, declared) + R"(, "steps": )" +
                           listed(t.steps, written_step) + R"(, "outputs": [)" + t.outputs + "]}";
  auto made = read_task(text, "cpu");
  if (!made) throw std::runtime_error(made.error().message + ": " + text);
  return std::move(*made);
}

schedule proofs_of(const task& t) {
  return partitions_of(t, for_cpu()).proofs;
}

std::vector<std::string> names_of(const schedule& s) {
  std::vector<std::string> out;
  for (const auto& m : s.moves)
    if (out.empty() || out.back() != m.name) out.push_back(m.name);
  return out;
}

std::string what_is_computed(const aten_step& s) {
  std::string out = s.op;
  for (const auto& [name, value] : s.args)
    out += " " + name + "=" + value.text();
  return out;
}

struct proof_case {
  const char* name;
  const char* move;  // the only kind that the proofs of `applies` consist of
  short_task applies, twin;
};

void PrintTo(const proof_case& c, std::ostream* out) {
  *out << c.name;
}

const char* k_layer = R"(l = linear("input": "x", "weight": "w", "bias": "b"))";
const std::vector<std::string> k_weights = {"w [24, 16]", "b [24]", "s [24]", "one [1]"};

std::string batch_norm(const std::string& statistics) {
  return R"(n = batch_norm("input": "l", "weight": "g", "bias": "h", )" + statistics +
         R"(, "momentum": 0.1, "eps": 0.1, "cudnn_enabled": true))";
}

const char* k_fixed = R"("running_mean": "m", "running_var": "v", "training": false)";
const char* k_own = R"("running_mean": null, "running_var": null, "training": true)";

std::vector<proof_case> folds() {
  return {{"features_that_are_scaled_and_shifted",
           "fold_into_layer",
           {{"x [12, 16]"},
            k_weights,
            {k_layer, R"(m = mul.Tensor("self": "l", "other": "s"))", R"(d = div.Scalar("self": "m", "other": 3))",
             R"(y = sub.Tensor("self": "d", "other": "one"))"}},
           // A scale for each row.
           {{"x [12, 16]"},
            {"w [24, 16]", "b [24]", "s [12, 1]"},
            {k_layer, R"(y = mul.Tensor("self": "l", "other": "s"))"}}},
          {"a_residual_of_the_layer_itself",
           "fold_into_layer",
           {{"x [12, 16]"},
            k_weights,
            {k_layer, R"(m = mul.Tensor("self": "l", "other": "s"))",
             R"(y = add.Tensor("self": "m", "other": "l", "alpha": 2))"}},
           // The layer's result is read by a ReLU as well.
           {{"x [12, 16]"},
            k_weights,
            {k_layer, R"(m = mul.Tensor("self": "l", "other": "s"))", R"(r = relu("self": "l"))",
             R"(y = add.Tensor("self": "m", "other": "r"))"}}},
          {"channels_of_a_convolution",
           "fold_into_layer",
           {{"x [2, 3, 9, 9]"},
            {"w [4, 3, 3, 3]", "b [4]", "s [4, 1, 1]"},
            {R"(l = conv2d("input": "x", "weight": "w", "bias": "b", "stride": [2, 2]))",
             R"(m = mul.Tensor("self": "s", "other": "l"))", R"(y = add.Tensor("self": "m", "other": "s"))"}},
           // A number for each column of the result.
           {{"x [2, 3, 9, 9]"},
            {"w [4, 3, 3, 3]", "b [4]", "s [4, 1, 4]"},
            {R"(l = conv2d("input": "x", "weight": "w", "bias": "b", "stride": [2, 2]))",
             R"(y = mul.Tensor("self": "l", "other": "s"))"}}},
          {"a_batch_norm_with_fixed_statistics",
           "fold_into_layer",
           {{"x [2, 3, 9, 9]"},
            {"w [4, 3, 3, 3]", "g [4]", "h [4]", "m [4]", "v [4] non_negative"},
            {R"(l = conv2d("input": "x", "weight": "w"))", batch_norm(k_fixed), R"(y = neg("self": "n"))"}},
           // Statistics of its own input.
           {{"x [2, 3, 9, 9]"},
            {"w [4, 3, 3, 3]", "g [4]", "h [4]", "m [4]", "v [4] non_negative"},
            {R"(l = conv2d("input": "x", "weight": "w"))", batch_norm(k_own), R"(y = neg("self": "n"))"}}},
          {"channels_of_a_transposed_convolution",
           "fold_into_layer",
           {{"x [2, 3, 6]"},
            {"w [3, 4, 3]", "s [4, 1]"},
            {R"(l = conv_transpose1d("input": "x", "weight": "w", "stride": [2]))",
             R"(y = mul.Tensor("self": "l", "other": "s"))"}},
           // The weight comes with the inputs.
           {{"x [2, 3, 6]", "w [3, 4, 3]"},
            {"s [4, 1]"},
            {R"(l = conv_transpose1d("input": "x", "weight": "w", "stride": [2]))",
             R"(y = mul.Tensor("self": "l", "other": "s"))"}}}};
}

std::vector<proof_case> compositions() {
  return {
      {"a_layer_of_a_layer",
       "compose_linear",
       {{"x [12, 16]"}, {"w [64, 16]", "b [64]", "v [8, 64]"}, {k_layer, R"(y = linear("input": "l", "weight": "v"))"}},
       // One layer from 16 to 8 features would be more work.
       {{"x [12, 16]"}, {"w [4, 16]", "b [4]", "v [8, 4]"}, {k_layer, R"(y = linear("input": "l", "weight": "v"))"}}},
      {"a_product_with_a_diagonal",
       "diagonal_matmul",
       {{"x [16, 16] diagonal", "z [16, 24]"}, {}, {R"(y = mm("self": "x", "mat2": "z"))"}},
       {{"x [16, 16] upper_triangular", "z [16, 24]"}, {}, {R"(y = mm("self": "x", "mat2": "z"))"}}}};
}

std::vector<proof_case> drops() {
  return {{"a_triangle_of_a_triangle",
           "drop",
           {{"x [16, 16] upper_triangular", "z [16, 16] upper_triangular"},
            {},
            {R"(p = mm("self": "x", "mat2": "z"))", R"(y = triu("self": "p"))"}},
           {{"x [16, 16] upper_triangular", "z [16, 16]"},
            {},
            {R"(p = mm("self": "x", "mat2": "z"))", R"(y = triu("self": "p"))"}}},
          {"a_shift_before_a_softmax",
           "drop",
           {{"x [12, 16]", "c [12, 1]"},
            {},
            {R"(d = sub.Tensor("self": "x", "other": "c"))", R"(y = softmax.int("self": "d", "dim": 1))"}},
           {{"x [12, 16]", "c [1, 16]"},
            {},
            {R"(d = sub.Tensor("self": "x", "other": "c"))", R"(y = softmax.int("self": "d", "dim": 1))"}}},
          {"a_norm_that_is_spread_over_its_row",
           "drop",
           {{"x [12, 16]"},
            {},
            {R"(n = linalg_vector_norm("self": "x", "ord": 2, "dim": [1], "keepdim": true))",
             R"(e = expand_as("self": "n", "other": "x"))", R"(y = div.Tensor("self": "x", "other": "e"))"}},
           // What reads it has no other operand of that size.
           {{"x [12, 16]"},
            {},
            {R"(n = linalg_vector_norm("self": "x", "ord": 2, "dim": [1], "keepdim": true))",
             R"(e = expand("self": "n", "size": [12, 16]))", R"(y = sum.dim_IntList("self": "e", "dim": [0]))"}}},
          {"a_row_that_is_spread_over_a_batch",
           "drop",
           {{"x [16]", "z [3, 12, 16]"},
            {},
            {R"(r = relu("self": "x"))", R"(e = expand("self": "r", "size": [3, 12, 16]))",
             R"(y = mul.Tensor("self": "e", "other": "z"))"}},
           // Both operands are spread.
           {{"x [16]", "z [12, 1]"},
            {},
            {R"(r = relu("self": "x"))", R"(e = expand("self": "r", "size": [12, 16]))",
             R"(y = mul.Tensor("self": "e", "other": "z"))"}}},
          {"a_dominated_clamp",
           "drop",
           {{"x [12, 16]"}, {}, {R"(s = sigmoid("self": "x"))", R"(y = clamp("self": "s", "min": 0, "max": 1.5))"}},
           {{"x [12, 16]"}, {}, {R"(s = sigmoid("self": "x"))", R"(y = clamp("self": "s", "min": 0.1, "max": 1.5))"}}},
          {"an_operator_that_undoes_itself",
           "drop",
           {{"x [12, 16]"}, {}, {R"(n = neg("self": "x"))", R"(m = neg("self": "n"))", R"(y = exp("self": "m"))"}},
           {{"x [12, 16]"}, {}, {R"(n = neg("self": "x"))", R"(m = abs("self": "n"))", R"(y = exp("self": "m"))"}}}};
}

std::vector<proof_case> constants() {
  return {{"a_softmax_over_one_element",
           "constant",
           {{"x [12, 1]"}, {}, {R"(y = softmax.int("self": "x", "dim": 1))"}},
           {{"x [1, 12]"}, {}, {R"(y = softmax.int("self": "x", "dim": 1))"}}},
          {"parts_that_take_turns",
           "interleave",
           {{"x [12, 8]", "z [12, 8]"},
            {},
            {R"(n = neg("self": "x"))", R"(e = exp("self": "z"))", R"(t = stack("tensors": ["n", "e"], "dim": -1))",
             R"(y = reshape("self": "t", "shape": [12, 16]))"}},
           {{"x [12, 8]", "z [12, 8]"},
            {},
            {R"(n = neg("self": "x"))", R"(e = exp("self": "z"))", R"(t = stack("tensors": ["n", "e"], "dim": 1))",
             R"(y = reshape("self": "t", "shape": [12, 16]))"}}}};
}

std::vector<proof_case> set_ups() {
  return {{"weights_that_are_normalised",
           "set_up",
           {{"x [12, 16]"},
            {"w [24, 16]"},
            {R"(n = linalg_vector_norm("self": "w", "ord": 2, "dim": [1], "keepdim": true))",
             R"(c = clamp_min("self": "n", "min": 1e-12))", R"(e = expand_as("self": "c", "other": "w"))",
             R"(u = div.Tensor("self": "w", "other": "e"))", R"(y = linear("input": "x", "weight": "u"))"}},
           // The norm of an input.
           {{"x [12, 16]", "z [24, 16]"},
            {"w [24, 16]"},
            {R"(n = linalg_vector_norm("self": "z", "ord": 2, "dim": [1], "keepdim": true))",
             R"(c = clamp_min("self": "n", "min": 1e-12))", R"(u = div.Tensor("self": "w", "other": "c"))",
             R"(y = linear("input": "x", "weight": "u"))"}}},
          {"a_low_rank_change_of_a_weight",
           "set_up",
           {{"x [12, 16]"},
            {"w [24, 16]", "up [24, 4]", "down [4, 16]"},
            {R"(d = mm("self": "up", "mat2": "down"))", R"(u = add.Tensor("self": "w", "other": "d", "alpha": 0.5))",
             R"(y = linear("input": "x", "weight": "u"))"}},
           // The change itself is an output, which needs memory of its own in each call.
           {{"x [12, 16]"},
            {"up [24, 4]", "down [4, 16]"},
            {R"(y = mm("self": "up", "mat2": "down"))", R"(z = linear("input": "x", "weight": "y"))"},
            R"("y", "z")"}}};
}

std::vector<proof_case> all_cases() {
  std::vector<proof_case> out;
  for (auto& some : {folds(), compositions(), drops(), constants(), set_ups()})
    out.insert(out.end(), some.begin(), some.end());
  return out;
}

class proof_tasks : public testing::TestWithParam<proof_case> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

INSTANTIATE_TEST_SUITE_P(all, proof_tasks, testing::ValuesIn(all_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(proof_tasks, are_proved_and_accepted) {
  const task t = read(GetParam().applies);
  const schedule plan = proofs_of(t);
  std::vector<std::string> names = names_of(plan);
  std::erase_if(names, [](const std::string& name) { return name == "drop"; });  // of what a rewriting leaves dead
  if (names.empty()) names = names_of(plan);
  EXPECT_THAT(names, ElementsAre(GetParam().move));
  const auto made = lower(t, plan, for_cpu());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_FALSE(made->certificates.empty());
  std::set<std::string> results;  // of set-up, which computes nothing twice
  for (const auto& each : made->checked.text.setup)
    EXPECT_TRUE(results.insert(what_is_computed(std::get<aten_step>(each))).second);
  judged_task judged(t);
  EXPECT_EQ(judged.problem_of(made->checked.text), "") << print_schedule(plan);
}

// A rewritten layer is a part like any other; only what became an operator of our own is in none.
TEST_P(proof_tasks, are_cut_into_parts_that_make_the_whole) {
  const task t = read(GetParam().applies);
  judged_task judged(t);
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto parts = partitions_of(t, *target);
    const std::string move = GetParam().move;
    if (move == "fold_into_layer" || move == "compose_linear") {
      EXPECT_THAT(parts.replaced, IsEmpty());
    }
    known_parts known;
    for (const task* part : distinct_tasks(parts)) {
      judged_task own(*part);
      EXPECT_EQ(own.problem_of(part->reference.text), "") << canonical_text(*part);
      const auto whole = whole_schedules(*part, *target);
      known[part->id] = known_part{whole.empty() ? schedule() : whole.front(), 5, 10};
    }
    for (const auto& whole : assemble(t, *target, parts, known)) {
      const auto made = lower(t, whole.plan, *target);
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(judged.problem_of(made->checked.text), "") << whole.name << ": " << print_schedule(whole.plan);
    }
  }
}

TEST_P(proof_tasks, have_twins_without_the_proof) {
  const task t = read(GetParam().twin);
  EXPECT_THAT(names_of(proofs_of(t)), Not(Contains(GetParam().move)));
}

// On a GPU a library's convolution adds its bias in a pass of its own.
TEST(proof_targets, a_convolution_without_bias_gets_one_where_that_costs_nothing) {
  const task t = read({{"x [2, 3, 9, 9]"},
                       {"w [4, 3, 3, 3]", "s [4, 1, 1]"},
                       {R"(l = conv2d("input": "x", "weight": "w"))", R"(y = add.Tensor("self": "l", "other": "s"))"}});
  EXPECT_TRUE(lower(t, *parse_schedule("fold_into_layer(step=1)"), for_cpu()));
  const auto refused = lower(t, *parse_schedule("fold_into_layer(step=1)"), for_cuda());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("would be a pass of its own"));
}

}  // namespace
}  // namespace cudal1::test
