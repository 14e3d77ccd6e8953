#include "tests/policy/proof_cases.hpp"

#include <stdexcept>

namespace cudal1::test {

namespace {

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

}  // namespace

task read(const short_task& t) {
  const std::string text = R"({"format": 1, "name": "t", "family": "test", "inputs": )" + listed(t.inputs, declared) +
                           R"(, "weights": )" + listed(t.weights, declared) + R"(, "steps": )" +
                           listed(t.steps, written_step) + R"(, "outputs": [)" + t.outputs + "]}";
  auto made = read_task(text, "cpu");
  if (!made) throw std::runtime_error(made.error().message + ": " + text);
  return std::move(*made);
}

namespace {

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
  return {
      {"a_softmax_over_one_element",
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
         R"(y = reshape("self": "t", "shape": [12, 16]))"}}},
      // Whole turns in a group; in the twin they are no groups of the parts' elements.
      {"parts_that_take_turns_in_groups",
       "interleave",
       {{"x [12, 8]", "z [12, 8]", "s [12, 4, 1]"},
        {},
        {R"(n = neg("self": "x"))", R"(e = exp("self": "z"))", R"(t = stack("tensors": ["n", "e"], "dim": -1))",
         R"(v = view("self": "t", "size": [12, 4, 4]))", R"(y = mul.Tensor("self": "v", "other": "s"))"}},
       {{"x [12, 8]", "z [12, 8]", "s [12, 2, 1]"},
        {},
        {R"(n = neg("self": "x"))", R"(e = exp("self": "z"))", R"(t = stack("tensors": ["n", "e"], "dim": -1))",
         R"(v = transpose.int("self": "t", "dim0": 1, "dim1": 2))", R"(y = mul.Tensor("self": "v", "other": "s"))"}}},
      {"a_product_with_zero",
       "constant",
       {{"x [12, 16]"}, {}, {R"(e = tanh("self": "x"))", R"(y = mul.Scalar("self": "e", "other": 0))"}},
       {{"x [12, 16]"},
        {},
        {R"(e = div.Scalar("self": "x", "other": 0))", R"(y = mul.Scalar("self": "e", "other": 0))"}}},
      {"a_value_less_itself",
       "constant",
       {{"x [12, 16]"}, {}, {R"(e = tanh("self": "x"))", R"(y = sub.Tensor("self": "e", "other": "e"))"}},
       {{"x [12, 16]"}, {}, {R"(e = reciprocal("self": "x"))", R"(y = sub.Tensor("self": "e", "other": "e"))"}}},
      {"a_clamp_to_one_side",
       "constant",
       {{"x [12, 16]"},
        {},
        {R"(m = clamp_max("self": "x", "max": 0.25))", R"(y = clamp("self": "m", "min": 0.25, "max": 1))"}},
       {{"x [12, 16]"},
        {},
        {R"(l = log("self": "x"))", R"(m = clamp_max("self": "l", "max": 0.25))",
         R"(y = clamp("self": "m", "min": 0.25, "max": 1))"}}}};
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
          {"weights_that_are_stacked",
           "set_up",
           {{"x [12, 16]"},
            {"w [12, 8]", "v [12, 8]"},
            {R"(t = stack("tensors": ["w", "v"], "dim": -1))", R"(r = reshape("self": "t", "shape": [12, 16]))",
             R"(y = mul.Tensor("self": "x", "other": "r"))"}},
           // With an input.
           {{"x [12, 16]", "v [12, 8]"},
            {"w [12, 8]"},
            {R"(t = stack("tensors": ["w", "v"], "dim": 0))", R"(r = reshape("self": "t", "shape": [12, 16]))",
             R"(y = mul.Tensor("self": "x", "other": "r"))"}}},
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

}  // namespace

void PrintTo(const proof_case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<proof_case> proof_cases() {
  std::vector<proof_case> out;
  for (auto& some : {folds(), compositions(), drops(), constants(), set_ups()})
    out.insert(out.end(), some.begin(), some.end());
  return out;
}

}  // namespace cudal1::test
