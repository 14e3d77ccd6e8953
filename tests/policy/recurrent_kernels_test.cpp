// Recurrent layers as kernels of a template: the gates accept all cells, in one direction and in two, with and without
// biases, of odd sizes, for each division of the work; and they compile for a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/product_cases.hpp"

namespace cudal1::test {
namespace {

struct sizes {
  int64_t layers = 1, steps = 3, batch = 2, input = 4, hidden = 8;
  bool two_directions = false, biases = true, batch_first = false;
};

product_case recurrent(const std::string& name, const std::string& cell, const sizes& s,
                       const std::string& values = "") {
  const int64_t directions = s.two_directions ? 2 : 1, gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
  std::string weights, params;
  const auto weight = [&](const std::string& own, int64_t rows, int64_t columns) {
    weights += (weights.empty() ? "" : ", ") +
               tensor(own, columns > 0 ? fmt::format("{}, {}", rows, columns) : std::to_string(rows));
    params += fmt::format("{}\"{}\"", params.empty() ? "" : ", ", own);
  };
  for (int64_t l = 0; l < s.layers; ++l)
    for (int64_t d = 0; d < directions; ++d) {
      const auto of = fmt::format("{}_{}", l, d);
      weight("wi" + of, gates * s.hidden, l == 0 ? s.input : directions * s.hidden);
      weight("wh" + of, gates * s.hidden, s.hidden);
      if (s.biases) weight("bi" + of, gates * s.hidden, 0);
      if (s.biases) weight("bh" + of, gates * s.hidden, 0);
    }
  const auto state = fmt::format("{}, {}, {}", s.layers * directions, s.batch, s.hidden);
  const bool is_lstm = cell == "lstm";
  const auto inputs = tensor("x", fmt::format("{}, {}, {}", s.batch_first ? s.batch : s.steps,
                                              s.batch_first ? s.steps : s.batch, s.input)) +
                      ", " + tensor("h0", state) + (is_lstm ? ", " + tensor("c0", state) : "");
  const auto step = fmt::format(
      R"({{"aten": "aten::{}.input", "args": {{"input": "x", "hx": {}, "params": [{}], "has_biases": {}, "num_layers": {},
          "dropout": 0.0, "train": false, "bidirectional": {}, "batch_first": {}}}, "out": ["y", "hn"{}]}})",
      cell, is_lstm ? R"(["h0", "c0"])" : R"("h0")", params, s.biases, s.layers, s.two_directions, s.batch_first,
      is_lstm ? R"(, "cn")" : "");
  return {name, made(name, inputs, weights, step, is_lstm ? R"("y", "hn", "cn")" : R"("y", "hn")"),
          "template(step=0, kernel=recurrent_layers" + values + ")", 1,
          s.batch_first ? 1 : 0};  // a view of what is written
}

std::vector<product_case> cases() {
  std::vector<product_case> out;
  for (const char* cell : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    const auto named = [&](const char* what) { return fmt::format("{}_{}", cell, what); };
    out.push_back(recurrent(named("one"), cell, {}));
    out.push_back(recurrent(named("wave"), cell, {.layers = 3, .steps = 4}));
    out.push_back(recurrent(named("two_directions"), cell, {.layers = 2, .two_directions = true}));
  }
  out.push_back(recurrent("no_biases", "lstm", {.layers = 2, .biases = false}));
  out.push_back(recurrent("no_biases_gru", "gru", {.biases = false, .batch_first = true}));
  out.push_back(recurrent("batch_first", "lstm", {.layers = 2, .steps = 5, .batch_first = true}));
  out.push_back(recurrent("odd_sizes", "lstm", {.layers = 2, .steps = 3, .batch = 3, .input = 5, .hidden = 7}));
  out.push_back(recurrent("odd_gru", "gru", {.layers = 1, .steps = 2, .batch = 3, .input = 9, .hidden = 6}));
  out.push_back(recurrent("one_step", "gru", {.layers = 2, .steps = 1, .batch = 1}));
  out.push_back(recurrent("large_input", "gru", {.layers = 1, .steps = 2, .batch = 1, .input = 70, .hidden = 8}));
  out.push_back(recurrent("many", "lstm", {.layers = 1, .steps = 2, .batch = 40, .input = 4, .hidden = 8}));
  const sizes whole{.layers = 2, .steps = 2, .batch = 2, .input = 12, .hidden = 32};
  for (const int units : {8, 16, 32})
    out.push_back(recurrent(fmt::format("units_{}", units), "lstm", whole, fmt::format(", units={}", units)));
  for (const int rows : {1, 2, 4})
    out.push_back(recurrent(fmt::format("rows_{}", rows), "gru", whole, fmt::format(", units=16, rows={}", rows)));
  for (const int terms : {16, 32, 64})
    out.push_back(recurrent(fmt::format("terms_{}", terms), "lstm", whole, fmt::format(", units=16, terms={}", terms)));
  out.push_back(recurrent("all_chosen", "gru", whole, ", units=16, rows=2, terms=32"));
  return out;
}

TEST(RecurrentKernels, AreAcceptedByTheGates) {
  expect_accepted(cases());
}

TEST(RecurrentKernels, CompileForAnH100) {
  auto all = cases();
  const sizes real{.layers = 6, .steps = 512, .batch = 10, .input = 128, .hidden = 256, .batch_first = true};
  all.push_back(recurrent("real_lstm", "lstm", real));
  all.push_back(recurrent("real_gru", "gru", real));
  auto both = real;
  both.two_directions = true;
  all.push_back(recurrent("real_both", "gru", both));
  expect_compiled(all);
}

TEST(RecurrentKernels, AreOfferedWhereTheyFit) {
  EXPECT_TRUE(offers(recurrent("fits", "lstm", {}).what, "template", for_cuda()));
  EXPECT_FALSE(offers(recurrent("cpu", "lstm", {}).what, "template", for_cpu()));
  EXPECT_FALSE(offers(recurrent("large_batch", "lstm", {.batch = 65}).what, "template", for_cuda()));
  EXPECT_THAT(
      refusal_of(recurrent("x", "lstm", {.hidden = 12}).what, "template(step=0, kernel=recurrent_layers, units=8)"),
      HasSubstr("layers of 12 units with 4 inputs do not fit"));
  EXPECT_THAT(refusal_of(recurrent("x", "lstm", {.hidden = 2048}).what, "template(step=0, kernel=recurrent_layers)"),
              HasSubstr("do not fit the registers of 132 blocks"));
  EXPECT_THAT(refusal_of(recurrent("x", "lstm", {.hidden = 32}).what,
                         "template(step=0, kernel=recurrent_layers, units=8, rows=4, terms=64)"),
              HasSubstr("8 units of 4 rows and 64 terms a thread: too many weights for a thread's registers"));
}

}  // namespace
}  // namespace cudal1::test
