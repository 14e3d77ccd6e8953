#include "tests/policy/pattern_tasks.hpp"

#include <iterator>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cudal1::test {
namespace {

std::string input(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& draw = "") {
  const std::string drawn = draw.empty() ? "" : R"(, "draw": )" + draw;
  return fmt::format(R"({{"name": "{}", "dtype": "{}", "shape": {}{}}})", name, type, shape, drawn);
}

std::string mask(const std::string& name, const std::string& shape) {
  return input(name, "bool", shape, R"({"distribution": "bernoulli", "probability": 0.3})");
}

// "add.Tensor", R"("self": "x", "other": "r")", "h".
std::string step(const std::string& op, const std::string& args, const std::string& out) {
  return fmt::format(R"({{"aten": "aten::{}", "args": {{{}}}, "out": ["{}"]}})", op, args, out);
}

std::string halves(const std::string& x, const std::string& first, const std::string& second) {
  return fmt::format(
      R"({{"aten": "aten::chunk", "args": {{"self": "{}", "chunks": 2, "dim": -1}}, "out": ["{}", "{}"]}})", x, first,
      second);
}

std::string to(const std::string& x, const std::string& type, const std::string& out) {
  return step("to.dtype", fmt::format(R"("self": "{}", "dtype": "{}")", x, type), out);
}

std::string product(const std::string& a, const std::string& b, const std::string& out) {
  return step("mul.Tensor", fmt::format(R"("self": "{}", "other": "{}")", a, b), out);
}

std::string sum(const std::string& a, const std::string& b, const std::string& out) {
  return step("add.Tensor", fmt::format(R"("self": "{}", "other": "{}")", a, b), out);
}

struct pattern {
  std::string name;
  std::vector<std::string> inputs, weights, steps, outputs;
  int kernels = 1;
  std::vector<std::string> library = {};
};

pattern_task made(const pattern& p, const std::string& type) {
  std::vector<std::string> outputs;
  for (const auto& o : p.outputs)
    outputs.push_back('"' + o + '"');
  auto read =
      read_task(fmt::format(R"({{"format": 1, "name": "{}_{}", "summary": "a test", "family": "test", "inputs": [{}],
                      "weights": [{}], "steps": [{}], "outputs": [{}]}})",
                            p.name, type, fmt::join(p.inputs, ", "), fmt::join(p.weights, ", "),
                            fmt::join(p.steps, ", "), fmt::join(outputs, ", ")),
                "cpu");
  if (!read) throw std::runtime_error(p.name + ": " + read.error().message);
  return {std::move(*read), p.kernels, p.library};
}

// Gated layers, with the gate and the value in one tensor, and in two.
std::vector<pattern> gated(const std::string& t) {
  return {{"swiglu",
           {input("x", t, "[12, 160]")},
           {},
           {halves("x", "g", "u"), step("silu", R"("self": "g")", "s"), product("s", "u", "y")},
           {"y"}},
          {"geglu",
           {input("x", t, "[6, 2, 72]")},
           {},
           {R"({"aten": "aten::split.Tensor", "args": {"self": "x", "split_size": 36, "dim": -1}, "out": ["a", "b"]})",
            step("gelu", R"("self": "a", "approximate": "tanh")", "g"), product("g", "b", "y")},
           {"y"}},
          {"gate_of_odd_width",
           {input("g", t, "[7, 37]"), input("u", t, "[7, 37]")},
           {},
           {step("silu", R"("self": "g")", "s"), product("s", "u", "y")},
           {"y"}},
          {"gate_in_float32",
           {input("g", t, "[8, 64]"), input("u", t, "[8, 64]")},
           {},
           {to("g", "float32", "f"), step("gelu", R"("self": "f")", "e"), to("e", t, "h"), product("h", "u", "y")},
           {"y"}}};
}

std::vector<std::string> root_mean_square(const std::string& x, const std::string& out) {
  return {step("pow.Tensor_Scalar", fmt::format(R"("self": "{}", "exponent": 2)", x), "squares"),
          step("mean.dim", R"("self": "squares", "dim": [-1], "keepdim": true)", "mean"),
          step("add.Scalar", R"("self": "mean", "other": 1e-06)", "shifted"),
          step("rsqrt", R"("self": "shifted")", "scale"), product(x, "scale", out)};
}

std::vector<pattern> norms(const std::string& t) {
  std::vector<std::string> by_hand{sum("x", "r", "h"), to("h", "float32", "f")};
  for (auto& s : root_mean_square("f", "n"))
    by_hand.push_back(std::move(s));
  by_hand.push_back(to("n", t, "c"));
  by_hand.push_back(product("w", "c", "y"));
  return {{"residual_rms_norm",
           {input("x", t, "[9, 96]"), input("r", t, "[9, 96]")},
           {input("w", t, "[96]")},
           by_hand,
           {"y", "h"}},
          {"rms_norm",
           {input("x", t, "[5, 3, 40]")},
           {input("w", t, "[40]")},
           {step("rms_norm", R"("input": "x", "normalized_shape": [40], "weight": "w", "eps": 1e-05)", "y")},
           {"y"}},
          {"residual_layer_norm_of_float32_weights",
           {input("x", t, "[6, 200]"), input("r", t, "[6, 200]")},
           {input("w", "float32", "[200]"), input("b", "float32", "[200]")},
           {sum("x", "r", "h"),
            step("layer_norm", R"("input": "h", "normalized_shape": [200], "weight": "w", "bias": "b")", "y")},
           {"y"}},
          {"mean_of_the_batch",
           {input("x", t, "[33, 24]")},
           {},
           {step("tanh", R"("self": "x")", "h"), step("mean.dim", R"("self": "h", "dim": [0])", "y")},
           {"y"}}};
}

std::vector<pattern> softmaxes(const std::string& t) {
  return {
      {"masked_softmax",
       {input("x", t, "[2, 3, 10, 24]"), mask("m", "[10, 24]")},
       {},
       {step("mul.Scalar", R"("self": "x", "other": 0.125)", "s"),
        step("masked_fill.Scalar", R"("self": "s", "mask": "m", "value": -10000.0)", "f"),
        step("softmax.int", R"("self": "f", "dim": -1)", "y")},
       {"y"}},
      {"biased_softmax_in_float32",
       {input("x", t, "[2, 3, 5, 40]"), input("b", t, "[1, 3, 5, 40]")},
       {},
       {sum("x", "b", "s"), step("softmax.int", R"("self": "s", "dim": -1, "dtype": "float32")", "f"), to("f", t, "y")},
       {"y"}},
      {"logsumexp_of_channels",
       {input("x", t, "[3, 11, 40]")},
       {},
       {step("logsumexp", R"("self": "x", "dim": [1])", "y")},
       {"y"}},
      {"sum_of_one_long_row",
       {input("x", t, "[98304]")},
       {},
       {step("sum", R"("self": "x", "dtype": "float32")", "y")},
       {"y"},
       3}};
}

std::vector<std::string> turned(const std::string& x, const std::string& out) {
  const auto name = [&](const char* part) { return out + "_" + part; };
  return {product(x, "c", name("cos")),
          halves(x, name("low"), name("high")),
          step("neg", fmt::format(R"("self": "{}")", name("high")), name("minus")),
          step("cat", fmt::format(R"("tensors": ["{}", "{}"], "dim": -1)", name("minus"), name("low")), name("half")),
          product(name("half"), "s", name("sin")),
          sum(name("cos"), name("sin"), out)};
}

// Pairs of neighbours instead of halves.
std::vector<std::string> turned_pairs(const std::string& x, const std::string& out) {
  const auto name = [&](const char* part) { return out + "_" + part; };
  const auto every_second = [&](int first, const std::string& to) {
    return step("slice.Tensor", fmt::format(R"("self": "{}", "dim": -1, "start": {}, "step": 2)", x, first), to);
  };
  return {
      every_second(0, name("even")),
      every_second(1, name("odd")),
      step("neg", fmt::format(R"("self": "{}")", name("odd")), name("minus")),
      step("stack", fmt::format(R"("tensors": ["{}", "{}"], "dim": -1)", name("minus"), name("even")), name("both")),
      step("flatten.using_ints", fmt::format(R"("self": "{}", "start_dim": -2)", name("both")), name("pairs")),
      product(x, "c", name("cos")),
      product(name("pairs"), "s", name("sin")),
      sum(name("cos"), name("sin"), out)};
}

std::vector<std::string> with(std::vector<std::string> steps, std::vector<std::string> more) {
  steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return steps;
}

std::string transposed(const std::string& x, const std::string& out) {
  return step("transpose.int", fmt::format(R"("self": "{}", "dim0": 1, "dim1": 2)", x), out);
}

std::vector<pattern> rotary(const std::string& t) {
  const std::vector<std::string> both = with(turned("q", "y"), turned("k", "z"));
  return {
      {"rotary",
       {input("q", t, "[2, 6, 10, 64]"), input("k", t, "[2, 3, 10, 64]")},
       {input("c", t, "[10, 64]"), input("s", t, "[10, 64]")},
       both,
       {"y", "z"},
       2},
      // Results whose heads and tokens lie in the other order in memory, as those of the operators do.
      {"rotary_of_transposed_heads",
       {input("q", t, "[2, 10, 6, 64]")},
       {input("c", t, "[10, 64]"), input("s", t, "[10, 64]")},
       with({transposed("q", "x")}, turned("x", "y")),
       {"y"}},
      {"gates_of_transposed_heads",
       {input("a", t, "[3, 5, 7, 24]"), input("b", t, "[3, 5, 7, 24]")},
       {},
       {transposed("a", "x"), transposed("b", "z"), step("silu", R"("self": "x")", "g"), product("g", "z", "y"),
        step("softmax.int", R"("self": "y", "dim": -1)", "w")},
       {"y", "w"}},
      {"rotary_of_pairs",
       {input("q", t, "[2, 6, 10, 64]")},
       {input("c", t, "[10, 64]"), input("s", t, "[10, 64]")},
       turned_pairs("q", "y"),
       {"y"}},
      {"rotary_of_pairs_that_leaves_its_steps",
       {input("q", t, "[3, 7, 10]"), input("c", "float32", "[7, 10]"), input("s", "float32", "[7, 10]")},
       {},
       turned_pairs("q", "y"),
       {"y", "y_pairs", "y_minus"}},
      {"rotary_of_odd_width",
       {input("q", t, "[3, 7, 10]"), input("c", "float32", "[7, 10]"), input("s", "float32", "[7, 10]")},
       {},
       turned("q", "y"),
       {"y", "y_half"}},
      {"joined_columns",
       {input("a", t, "[5, 4, 6]"), input("b", t, "[5, 4, 6]"), input("d", t, "[5, 4, 6]"), input("e", t, "[12, 6]")},
       {},
       {step("relu", R"("self": "a")", "r"), step("cat", R"("tensors": ["r", "b", "d"], "dim": 1)", "j"),
        sum("j", "e", "y")},
       {"y", "r"}}};
}

// A small tensor is computed where a larger one needs it.
std::vector<pattern> repeated(const std::string& t) {
  return {{"bias_of_a_mask",
           {input("x", t, "[2, 3, 5, 40]"), input("m", t, "[2, 1, 1, 40]"), input("s", t, "[3, 1, 1]")},
           {},
           {step("rsub.Scalar", R"("self": "m", "other": 1)", "o"),
            step("mul.Scalar", R"("self": "o", "other": -8)", "k"), step("exp", R"("self": "s")", "z"),
            product("x", "z", "u"), sum("u", "k", "v"), step("softmax.int", R"("self": "v", "dim": -1)", "y")},
           {"y"}},
          {"row_and_column",
           {input("x", t, "[7, 33]"), input("r", t, "[7, 1]"), input("c", t, "[33]")},
           {},
           {step("tanh", R"("self": "r")", "a"), step("sigmoid", R"("self": "c")", "d"), product("a", "d", "e"),
            sum("x", "e", "y")},
           {"y"}}};
}

std::vector<pattern> tables(const std::string& t) {
  const auto ids = [](const std::string& shape, int below) {
    return input("i", "int64", shape, fmt::format(R"({{"distribution": "integer", "low": 0, "high": {}}})", below));
  };
  const std::string rows = step("embedding", R"("weight": "w", "indices": "i")", "e");
  const auto loss = [](const std::string& of, const std::string& more) {
    return step("cross_entropy_loss", fmt::format(R"("self": "{}", "target": "i"{})", of, more), "y");
  };
  return {
      {"embedding_and_position",
       {ids("[3, 10]", 50)},
       {input("w", t, "[50, 48]"), input("p", t, "[10, 48]"), input("n", t, "[48]"), input("b", t, "[48]")},
       {rows, sum("e", "p", "h"),
        step("layer_norm", R"("input": "h", "normalized_shape": [48], "weight": "n", "bias": "b")", "y")},
       {"y"}},
      {"embedding_of_positions",
       {ids("[3, 10]", 50), input("at", "int64", "[1, 10]", R"({"distribution": "integer", "low": 0, "high": 16})")},
       {input("w", t, "[50, 48]"), input("p", t, "[16, 48]"), input("n", t, "[48]"), input("b", t, "[48]")},
       {rows, step("embedding", R"("weight": "p", "indices": "at")", "q"), sum("e", "q", "h"),
        step("layer_norm", R"("input": "h", "normalized_shape": [48], "weight": "n", "bias": "b")", "y")},
       {"y"}},
      {"embedding_of_odd_width",
       {ids("[23]", 7), input("x", t, "[23, 5]")},
       {input("w", t, "[7, 5]")},
       {rows, sum("e", "x", "h"), step("silu", R"("self": "h")", "y")},
       {"y"}},
      {"cross_entropy", {input("x", t, "[37, 5000]"), ids("[37]", 5000)}, {}, {loss("x", "")}, {"y"}, 4},
      {"cross_entropy_with_ignored_rows",
       {input("x", t, "[300, 40]"), ids("[300]", 40)},
       {},
       {to("x", "float32", "f"), loss("f", R"(, "ignore_index": 3, "reduction": 2)")},
       {"y"},
       t == "float32" ? 3 : 2},
      {"likelihood_of_a_log_softmax",
       {input("x", t, "[37, 500]"), ids("[37]", 500)},
       {},
       {step("relu", R"("self": "x")", "r"), step("log_softmax.int", R"("self": "r", "dim": -1)", "l"),
        step("nll_loss_nd", R"("self": "l", "target": "i")", "y")},
       {"y"},
       4},
      {"likelihood_of_all_but_the_last",
       {input("x", t, "[3, 18, 500]"), ids("[51]", 500)},
       {},
       {step("slice.Tensor", R"("self": "x", "dim": 1, "end": -1)", "s"),
        step("log_softmax.int", R"("self": "s", "dim": -1)", "l"),
        step("view", R"("self": "l", "size": [51, 500])", "v"),
        step("nll_loss_nd", R"("self": "v", "target": "i")", "y")},
       {"y"},
       2},
      {"cross_entropy_of_a_part_of_the_float_logits",
       {input("x", t, "[3, 18, 500]"), ids("[51]", 500)},
       {},
       {to("x", "float32", "f"), step("slice.Tensor", R"("self": "f", "dim": 1, "end": -1)", "s"),
        step("contiguous", R"("self": "s")", "c"), step("view", R"("self": "c", "size": [51, 500])", "v"),
        loss("v", "")},
       {"y"},
       t == "float32" ? 3 : 2},
      {"cross_entropy_of_rows_in_a_batch",
       {input("x", t, "[3, 17, 400]"), ids("[3, 17]", 400)},
       {},
       {step("transpose.int", R"("self": "x", "dim0": 1, "dim1": 2)", "s"), loss("s", R"(, "ignore_index": 3)")},
       {"y"},
       2}};
}

// Long rows that begin anywhere in memory: GPUs take them in vectors that are shifted from row to row. Those that do
// not fit in registers are read once for a maximum and a sum of exponentials.
std::vector<pattern> odd_rows(const std::string& t) {
  const std::string softmax = step("softmax.int", R"("self": "h", "dim": -1)", "y");
  const auto ids = [](int classes) {
    return input("i", "int64", "[5]", fmt::format(R"({{"distribution": "integer", "low": 0, "high": {}}})", classes));
  };
  const std::string loss = step("cross_entropy_loss", R"("self": "x", "target": "i")", "y");
  return {
      {"softmax_of_odd_rows", {input("x", t, "[9, 4099]")}, {}, {step("relu", R"("self": "x")", "h"), softmax}, {"y"}},
      {"masked_softmax_of_odd_rows",
       {input("x", t, "[2, 3, 4101]"), mask("m", "[2, 3, 4101]")},
       {},
       {step("masked_fill.Scalar", R"("self": "x", "mask": "m", "value": "-inf")", "h"), softmax},
       {"y"}},
      {"masked_softmax_of_long_odd_rows",
       {input("x", t, "[2, 33013]"), mask("m", "[2, 33013]")},
       {},
       {step("masked_fill.Scalar", R"("self": "x", "mask": "m", "value": "-inf")", "h"), softmax},
       {"y"}},
      {"norm_of_odd_rows",
       {input("x", t, "[2, 5, 4097]"), input("r", t, "[2, 5, 4097]")},
       {},
       {sum("x", "r", "h"), step("layer_norm", R"("input": "h", "normalized_shape": [4097])", "y")},
       {"h", "y"}},
      {"weighted_norm_of_unequal_rows",
       {input("x", t, "[5, 4097]")},
       {input("w", t, "[4097]")},
       {step("layer_norm", R"("input": "x", "normalized_shape": [4097], "weight": "w")", "y")},
       {"y"}},
      {"sums_of_even_rows",
       {input("x", t, "[17, 4102]")},
       {},
       {product("x", "x", "h"), step("logsumexp", R"("self": "h", "dim": [-1])", "y")},
       {"y"}},
      {"scaled_maxima_of_odd_rows",
       {input("x", t, "[5, 4111]"), input("s", t, "[5, 1]")},
       {},
       {product("x", "s", "h"), step("amax", R"("self": "h", "dim": [-1], "keepdim": true)", "m"),
        step("sub.Tensor", R"("self": "h", "other": "m")", "y")},
       {"y"}},
      {"cross_entropy_of_odd_rows", {input("x", t, "[5, 4099]"), ids(4099)}, {}, {loss}, {"y"}, 4},
      {"cross_entropy_of_long_odd_rows", {input("x", t, "[5, 40009]"), ids(40009)}, {}, {loss}, {"y"}, 4}};
}

std::string bits(const std::string& op, const std::string& x, int number, const std::string& out) {
  return step(op, fmt::format(R"("self": "{}", "other": {})", x, number), out);
}

// Two weights of a byte, in groups of 32 that have a zero and a scale each; converted to `type` when they are joined.
std::vector<std::string> scaled_groups(const std::string& low, const std::string& high, const std::string& type = "") {
  std::vector<std::string> out = {step("stack", fmt::format(R"("tensors": ["{}", "{}"], "dim": -1)", low, high), "p"),
                                  step("view", R"("self": "p", "size": [40, 4, 32])", "v"),
                                  step("unsqueeze", R"("self": "z", "dim": 2)", "zs"),
                                  step("unsqueeze", R"("self": "s", "dim": 2)", "ss")};
  if (!type.empty()) out.push_back(to("v", type, "f"));
  out.push_back(step("sub.Tensor", fmt::format(R"("self": "{}", "other": "zs")", type.empty() ? "v" : "f"), "d"));
  out.push_back(product("d", "ss", "y"));
  return out;
}

std::vector<pattern> dequantized(const std::string& t) {
  const auto codes = [](const std::string& type, int low, int high) {
    return input("q", type, "[40, 64]",
                 fmt::format(R"({{"distribution": "integer", "low": {}, "high": {}}})", low, high));
  };
  return {
      {"dequantized_weight",
       {input("x", t, "[6, 64]"), codes("int8", -127, 128)},
       {input("s", t, "[40, 1]")},
       {to("q", t, "f"), product("f", "s", "w"), step("linear", R"("input": "x", "weight": "w")", "y")},
       {"y"},
       1,
       {"aten::linear"}},
      {"dequantized_codes",
       {codes("uint8", 0, 256)},
       {input("s", t, "[40, 1]")},
       {to("q", t, "f"), step("sub.Scalar", R"("self": "f", "other": 128)", "d"), product("d", "s", "y")},
       {"y"}},
      {"nibbles_in_groups",
       {codes("uint8", 0, 256), input("z", t, "[40, 4]"), input("s", t, "[40, 4]")},
       {},
       with({bits("__and__.Scalar", "q", 15, "l"), bits("__rshift__.Scalar", "q", 4, "h"), to("l", t, "a"),
             to("h", t, "b")},
            scaled_groups("a", "b")),
       {"y"}},
      {"nibbles_that_are_joined_as_bytes",
       {codes("uint8", 0, 256), input("z", t, "[40, 4]"), input("s", t, "[40, 4]")},
       {},
       with({bits("bitwise_and.Scalar", "q", 15, "a"), bits("bitwise_right_shift.Tensor_Scalar", "q", 4, "b")},
            scaled_groups("a", "b", t)),
       {"y"}},
      {"signed_nibbles",
       {codes("int8", -128, 128), input("s", t, "[40, 1]")},
       {},
       {bits("__lshift__.Scalar", "q", 4, "u"), bits("__rshift__.Scalar", "u", 4, "l"),
        bits("__rshift__.Scalar", "q", 4, "h"), step("stack", R"("tensors": ["l", "h"], "dim": -1)", "p"),
        step("flatten.using_ints", R"("self": "p", "start_dim": -2)", "v"), to("v", t, "f"), product("f", "s", "y")},
       {"y"}},
      {"nibbles_about_eight",
       {codes("uint8", 0, 256), input("s", t, "[40, 1]")},
       {},
       {bits("__and__.Scalar", "q", 15, "l"), to("l", "int8", "i"), bits("sub.Scalar", "i", 8, "d"), to("d", t, "f"),
        product("f", "s", "y")},
       {"y"}}};
}

std::string loss(const std::string& op, const std::string& of, const std::string& more) {
  return step(op, fmt::format(R"("self": "{}", "target": "t", {})", of, more), "y");
}

std::vector<pattern> losses_of_elements(const std::string& t) {
  const std::string x = input("x", t, "[37, 65]"), y = input("t", t, "[37, 65]");
  const std::string relu = step("relu", R"("self": "x")", "r"), sign = step("sign", R"("self": "v")", "t"),
                    share = step("sigmoid", R"("self": "v")", "t"), v = input("v", t, "[37, 65]");
  const std::vector<std::string> signs = {"aten::sign"};
  return {{"smooth_l1", {x, y}, {}, {relu, loss("smooth_l1_loss", "r", R"("beta": 0.5)")}, {"y"}, 2},
          {"huber", {x, y}, {}, {loss("huber_loss", "x", R"("delta": 0.7, "reduction": 2)")}, {"y"}, 2},
          {"huber_of_elements", {x, y}, {}, {relu, loss("huber_loss", "r", R"("delta": 0.7, "reduction": 0)")}, {"y"}},
          {"squares_of_broadcast_operands",
           {input("x", t, "[37, 1]"), input("t", t, "[4, 1, 65]")},
           {},
           {loss("mse_loss", "x", R"("reduction": 1)")},
           {"y"},
           2},
          {"divergence", {x, v}, {}, {share, loss("kl_div", "x", R"("reduction": 1)")}, {"y"}, 2},
          {"entropy",
           {x, v},
           {},
           {step("sigmoid", R"("self": "x")", "s"), share, loss("binary_cross_entropy", "s", R"("reduction": 0)")},
           {"y"}},
          {"entropy_of_logits",
           {x, v},
           {},
           {share, loss("binary_cross_entropy_with_logits", "x", R"("reduction": 1)")},
           {"y"},
           2},
          {"hinge", {x, v}, {}, {sign, loss("hinge_embedding_loss", "x", R"("margin": 0.8)")}, {"y"}, 2, signs},
          {"soft_margin", {x, v}, {}, {sign, loss("soft_margin_loss", "x", R"("reduction": 0)")}, {"y"}, 1, signs},
          // The exponential is infinite, and so is the loss by its definition.
          {"soft_margin_of_large_values",
           {x, v},
           {},
           {sign, step("mul.Scalar", R"("self": "x", "other": 3000)", "m"),
            loss("soft_margin_loss", "m", R"("reduction": 0)")},
           {"y"},
           1,
           signs},
          {"ranking",
           {x, v, input("z", t, "[37, 65]")},
           {},
           {sign, step("margin_ranking_loss", R"("input1": "x", "input2": "z", "target": "t", "margin": 0.2)", "y")},
           {"y"},
           2,
           signs}};
}

std::vector<pattern> losses_of_rows(const std::string& t) {
  const auto rows = [&](const std::string& shape) {
    return std::vector{input("a", t, shape), input("b", t, shape), input("c", t, shape)};
  };
  const auto triplet = [](const std::string& more) {
    return step("triplet_margin_loss", R"("anchor": "a", "positive": "b", "negative": "c", )" + more, "l");
  };
  const std::string scaled = step("mul.Scalar", R"("self": "l", "other": 3)", "y");
  const auto pair = [](const std::string& op, const std::string& more) {
    return step(op, R"("x1": "a", "x2": "b", )" + more, "l");
  };
  const auto two = [&](const std::string& shape) { return std::vector{input("a", t, shape), input("b", t, shape)}; };
  return {{"cosine", two("[37, 65]"), {}, {pair("cosine_similarity", R"("dim": 1)"), scaled}, {"y"}},
          {"cosine_of_columns",
           two("[3, 20, 9]"),
           {},
           {pair("cosine_similarity", R"("dim": -2, "eps": 0.5)"), scaled},
           {"y"}},
          {"distance", two("[5, 7, 130]"), {}, {pair("pairwise_distance", R"("keepdim": true)"), scaled}, {"y"}},
          {"absolute_distance", two("[33, 12]"), {}, {pair("pairwise_distance", R"("p": 1)"), scaled}, {"y"}},
          {"cubic_distance",
           two("[33, 12]"),
           {},
           {pair("pairwise_distance", R"("p": 3)"), scaled},
           {"y"},
           1,
           {"aten::pairwise_distance"}},
          {"triplets", rows("[37, 65]"), {}, {triplet(R"("margin": 0.7)"), scaled}, {"y"}, 2},
          {"summed_triplets", rows("[5, 7, 130]"), {}, {triplet(R"("swap": true, "reduction": 2)"), scaled}, {"y"}, 2},
          {"triplets_of_rows", rows("[37, 65]"), {}, {triplet(R"("swap": true, "reduction": 0)"), scaled}, {"y"}},
          {"cosine_embedding",
           {input("a", t, "[37, 65]"), input("b", t, "[37, 65]"), input("c", t, "[37]")},
           {},
           {step("sign", R"("self": "c")", "t"),
            step("cosine_embedding_loss", R"("input1": "a", "input2": "b", "target": "t", "margin": 0.1)", "y")},
           {"y"},
           2,
           {"aten::sign"}}};
}

// Of equal extrema, as the zeros that relu makes, it is the first one.
std::vector<pattern> indices(const std::string& t) {
  const std::string relu = step("relu", R"("self": "x")", "r");
  return {
      {"index_in_a_row", {input("x", t, "[37, 65]")}, {}, {step("argmax", R"("self": "x", "dim": -1)", "y")}, {"y"}},
      {"first_index_in_a_column",
       {input("x", t, "[3, 20, 9]")},
       {},
       {relu, step("argmin", R"("self": "r", "dim": 1, "keepdim": true)", "y")},
       {"y"},
       2},
      {"index_in_everything", {input("x", t, "[4, 7, 50]")}, {}, {step("argmax", R"("self": "x")", "y")}, {"y"}, 2}};
}

// What a proof shortens.
std::vector<pattern> shortened(const std::string& t) {
  if (t != "float32") return {};
  return {
      {"softmax_of_shifted_rows",
       {input("x", t, "[37, 50]"), input("m", t, "[37, 1]")},
       {},
       {step("sub.Tensor", R"("self": "x", "other": "m")", "s"), step("softmax.int", R"("self": "s", "dim": -1)", "y")},
       {"y"}},
      {"instance_norm_of_biased_channels",
       {input("x", t, "[2, 6, 10, 7]")},
       {input("b", t, "[6, 1, 1]")},
       {sum("x", "b", "s"),
        step(
            "instance_norm",
            R"("input": "s", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": false)",
            "y")},
       {"y"}},
      {"linear_of_linear_of_linear",
       {input("x", t, "[12, 64]")},
       {input("w", t, "[96, 64]"), input("b", t, "[96]"), input("v", t, "[80, 96]"), input("u", t, "[16, 80]"),
        input("c", t, "[16]")},
       {step("linear", R"("input": "x", "weight": "w", "bias": "b")", "l"),
        step("linear", R"("input": "l", "weight": "v")", "m"),
        step("linear", R"("input": "m", "weight": "u", "bias": "c")", "n"), step("relu", R"("self": "n")", "y")},
       {"y"},
       1,
       {"aten::linear"}}};
}

}  // namespace

std::vector<pattern_task> pattern_tasks(const std::string& type) {
  std::vector<pattern_task> out;
  for (const auto& family :
       {gated(type), norms(type), softmaxes(type), rotary(type), tables(type), repeated(type), dequantized(type),
        losses_of_elements(type), losses_of_rows(type), indices(type), shortened(type), odd_rows(type)}) {
    for (const auto& p : family)
      out.push_back(made(p, type));
  }
  return out;
}

}  // namespace cudal1::test
