#include "tests/policy/task_texts.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace cudal1::test {
namespace {

task made(const std::string& name, const std::string& inputs, const std::string& steps, const std::string& outputs) {
  auto read =
      read_task(R"({"format": 1, "name": ")" + name + R"(", "summary": "a test", "family": "test", "inputs": [)" +
                    inputs + R"(], "weights": [], "steps": [)" + steps + R"(], "outputs": [)" + outputs + "]}",
                "cpu");
  if (!read) throw std::runtime_error(name + ": " + read.error().message);
  return std::move(*read);
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& facts = "") {
  return R"({"name": ")" + name + R"(", "dtype": "float32", "shape": )" + shape +
         R"(, "draw": {"distribution": "normal", "mean": 0, "std": 1}, "facts": [)" + facts + "]}";
}

std::string step(const std::string& op, const std::string& args, const std::string& out) {
  return R"({"aten": "aten::)" + op + R"(", "args": {)" + args + R"(}, "out": [)" + out + "]}";
}

// With the statistics of the batch.
std::string batch_norm(const std::string& of, const std::string& parameters, const std::string& out) {
  return step("batch_norm", "\"input\": \"" + of + "\", " + parameters + R"(, "running_mean": null, "running_var": null,
              "training": true, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": true)",
              "\"" + out + "\"");
}
constexpr const char* no_parameters = R"("weight": null, "bias": null)";

std::vector<task> make_small() {
  std::vector<task> out;
  const auto one = [&](const std::string& name, const std::string& shape, const std::string& op,
                       const std::string& args) {
    out.push_back(made(name, tensor("x", shape), step(op, R"("self": "x")" + args, "\"y\""), "\"y\""));
  };
  for (const char* op : {"relu", "abs", "exp", "tanh", "sigmoid", "silu", "gelu", "mish", "softplus", "hardswish",
                         "elu", "leaky_relu", "hardtanh", "erf", "neg"})
    one(op, "[7, 19]", op, "");
  one("gelu_tanh", "[7, 19]", "gelu", R"(, "approximate": "tanh")");
  one("clamp", "[7, 19]", "clamp", R"(, "min": -0.5, "max": 0.5)");
  one("softmax_rows", "[5, 77]", "softmax.int", R"(, "dim": -1)");
  one("softmax_channels", "[3, 11, 40]", "softmax.int", R"(, "dim": 1)");
  one("log_softmax_rows", "[5, 77]", "log_softmax.int", R"(, "dim": 1)");
  one("logsumexp_rows", "[5, 77]", "logsumexp", R"(, "dim": [1])");
  one("amax_rows", "[5, 77]", "amax", R"(, "dim": [1])");
  one("amin_rows", "[6, 64]", "amin", R"(, "dim": [1], "keepdim": true)");
  one("sum_rows", "[3, 5000]", "sum.dim_IntList", R"(, "dim": [1])");
  one("sum_columns", "[300, 70]", "sum.dim_IntList", R"(, "dim": [0])");
  one("mean_all", "[96, 1024]", "mean", "");
  one("mean_spatial", "[2, 3, 9, 7]", "mean.dim", R"(, "dim": [2, 3], "keepdim": true)");
  one("cumsum_rows", "[5, 77]", "cumsum", R"(, "dim": 1)");
  one("cumsum_columns", "[77, 40]", "cumsum", R"(, "dim": 0)");
  out.push_back(made("broadcast", tensor("x", "[4, 6, 10, 10]") + ", " + tensor("b", "[6, 1, 1]"),
                     step("add.Tensor", R"("self": "x", "other": "b", "alpha": 0.5)", "\"s\"") + ", " +
                         step("relu", R"("self": "s")", "\"y\""),
                     "\"y\""));
  // Limits of which some are NaN, where inputs are special.
  out.push_back(made("clamp_by_tensors",
                     tensor("x", "[9, 37]") + ", " + tensor("l", "[37]") + ", " + tensor("h", "[9, 1]"),
                     step("clamp.Tensor", R"("self": "x", "min": "l", "max": "h")", "\"y\""), "\"y\""));
  out.push_back(made("two_outputs", tensor("x", "[9, 33]"),
                     step("tanh", R"("self": "x")", "\"t\"") + ", " +
                         step("sum.dim_IntList", R"("self": "t", "dim": [1], "keepdim": true)", "\"s\"") + ", " +
                         step("div.Tensor", R"("self": "t", "other": "s")", "\"y\""),
                     R"("t", "y")"));
  for (const auto& [name, start] : {std::pair("odd_slice", 1), std::pair("even_slice", 4)})
    out.push_back(made(name, tensor("x", "[40, 64]"),
                       step("slice.Tensor",
                            R"("self": "x", "dim": 1, "start": )" + std::to_string(start) + R"(, "end": )" +
                                std::to_string(start + 16),
                            "\"s\"") +
                           ", " + step("relu", R"("self": "s")", "\"y\""),
                       "\"y\""));
  // Operators that no move supports, between others that some do: lists of views, recurrent layers, contractions.
  out.push_back(made("gates_of_a_split", tensor("x", "[6, 40]"),
                     step("split.Tensor", R"("self": "x", "split_size": 10, "dim": 1)", R"("i", "f", "", "g")") + ", " +
                         step("sigmoid", R"("self": "i")", "\"s\"") + ", " + step("tanh", R"("self": "g")", "\"t\"") +
                         ", " + step("mul.Tensor", R"("self": "s", "other": "t")", "\"m\"") + ", " +
                         step("add.Tensor", R"("self": "m", "other": "f")", "\"y\""),
                     "\"y\""));
  out.push_back(
      made("recurrent_layer",
           tensor("x", "[2, 5, 12]") + ", " + tensor("h", "[1, 2, 8]") + ", " + tensor("c", "[1, 2, 8]") + ", " +
               tensor("p", "[32, 12]") + ", " + tensor("q", "[32, 8]"),
           step("tanh", R"("self": "x")", "\"z\"") + ", " +
               step("lstm.input", R"("input": "z", "hx": ["h", "c"], "params": ["p", "q"], "has_biases": false,
                              "num_layers": 1, "dropout": 0.0, "train": true, "bidirectional": false,
                              "batch_first": true)",
                    R"("o", "", "last")") +
               ", " + step("select.int", R"("self": "o", "dim": 1, "index": -1)", "\"e\"") + ", " +
               step("softmax.int", R"("self": "e", "dim": -1)", "\"y\"") + ", " +
               step("sigmoid", R"("self": "last")", "\"w\""),
           R"("y", "w")"));
  out.push_back(made("scores_of_an_einsum", tensor("q", "[2, 5, 3, 8]") + ", " + tensor("k", "[2, 7, 3, 8]"),
                     step("einsum", R"("equation": "bqhd,bkhd->bhqk", "tensors": ["q", "k"])", "\"s\"") + ", " +
                         step("mul.Scalar", R"("self": "s", "other": 0.25)", "\"t\"") + ", " +
                         step("softmax.int", R"("self": "t", "dim": -1)", "\"y\""),
                     "\"y\""));
  // Norms over a channel of the batch or of a sample, and the average of a channel.
  out.push_back(made(
      "batch_norm_relu", tensor("x", "[4, 6, 5, 7]") + ", " + tensor("w", "[6]") + ", " + tensor("b", "[6]"),
      batch_norm("x", R"("weight": "w", "bias": "b")", "n") + ", " + step("relu", R"("self": "n")", "\"y\""), "\"y\""));
  out.push_back(made("batch_norm_of_features", tensor("x", "[40, 12]"),
                     step("tanh", R"("self": "x")", "\"t\"") + ", " + batch_norm("t", no_parameters, "y"), "\"y\""));
  out.push_back(made("instance_norm",
                     tensor("x", "[3, 5, 6, 7]") + ", " + tensor("w", "[5]") + ", " + tensor("b", "[5]"),
                     step("instance_norm", R"("input": "x", "weight": "w", "bias": "b", "running_mean": null,
                          "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 1e-05,
                          "cudnn_enabled": true)",
                          "\"n\"") +
                         ", " + step("div.Scalar", R"("self": "n", "other": 2.0)", "\"y\""),
                     "\"y\""));
  out.push_back(made("global_average_of_one_sample", tensor("x", "[5, 4, 6]"),
                     step("adaptive_avg_pool2d", R"("self": "x", "output_size": [1, 1])", "\"y\""), "\"y\""));
  out.push_back(made("global_average", tensor("x", "[3, 5, 4, 6]"),
                     step("relu", R"("self": "x")", "\"r\"") + ", " +
                         step("adaptive_avg_pool2d", R"("self": "r", "output_size": [1, 1])", "\"p\"") + ", " +
                         step("sigmoid", R"("self": "p")", "\"y\""),
                     "\"y\""));
  out.push_back(made("column_scale", tensor("b", "[12, 20]") + ", " + tensor("a", "[20, 20]", "\"diagonal\""),
                     step("mm", R"("self": "b", "mat2": "a")", "\"y\""), "\"y\""));
  out.push_back(made(
      "plain_product", tensor("a", "[20, 20]") + ", " + tensor("b", "[20, 20]"),
      step("mm", R"("self": "a", "mat2": "b")", "\"p\"") + ", " + step("triu", R"("self": "p")", "\"y\""), "\"y\""));
  return out;
}

const task& found(const std::vector<task>& among, const std::string& name) {
  for (const auto& t : among) {
    if (t.name == name) return t;
  }
  throw std::runtime_error("no task " + name);
}

}  // namespace

const lowering_target& target_named(const std::string& name) {
  const auto found = find_lowering_target(name);
  if (!found) throw std::runtime_error(found.error().message);
  return **found;
}

const std::vector<task>& builtin_tasks() {
  static const std::vector<task> tasks = [] {
    auto folder = builtin_task_folder();
    if (!folder) throw std::runtime_error(folder.error().message);
    auto read = load_tasks(*folder, "cpu");
    if (!read) throw std::runtime_error(read.error().message);
    return std::move(*read);
  }();
  return tasks;
}

const std::vector<task>& shrunk_builtin_tasks() {
  static const std::vector<task> tasks = [] {
    auto folder = builtin_task_folder();
    if (!folder) throw std::runtime_error(folder.error().message);
    std::vector<task> out;
    for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
      std::ifstream file(entry.path());
      auto document = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
      if (!document) throw std::runtime_error(document.error().message);
      json sizes = json::make_object();
      for (const auto& [name, size] : document->find("sizes")->find("cpu")->as_object()) {
        const int64_t value = size.as_int();
        sizes.set(name, value <= 16 ? value : value <= 64 ? 16 : 48);
      }
      json profiles = json::make_object();
      profiles.set("cpu", std::move(sizes));
      document->set("sizes", std::move(profiles));
      auto read = read_task(document->text(), "cpu");
      if (!read) throw std::runtime_error(entry.path().string() + ": " + read.error().message);
      out.push_back(std::move(*read));
    }
    return out;
  }();
  return tasks;
}

const std::vector<task>& small_tasks() {
  static const std::vector<task> tasks = make_small();
  return tasks;
}

const std::vector<task>& row_tasks() {
  static const std::vector<task> tasks = [] {
    std::vector<task> out;
    const auto one = [&](const std::string& shape, const std::string& op, const std::string& args) {
      out.push_back(made(op.substr(0, op.find('.')) + std::to_string(out.size()), tensor("x", shape),
                         step(op, R"("self": "x")" + args, "\"y\""), "\"y\""));
    };
    for (const char* shape : {"[3, 1]", "[5, 33]", "[2, 1025]", "[1, 1028]", "[4, 4098]", "[2, 40000]"}) {
      one(shape, "softmax.int", R"(, "dim": 1)");
    }
    for (const char* shape : {"[3, 1]", "[2, 40000]"})
      one(shape, "sum.dim_IntList", R"(, "dim": [1])");
    for (const char* shape : {"[3, 1]", "[5, 33]", "[2, 1025]", "[40, 260]", "[1, 6000]"})
      one(shape, "cumsum", R"(, "dim": 1)");
    one("[3000, 12]", "sum.dim_IntList", R"(, "dim": [0])");
    one("[3000, 12]", "log_softmax.int", R"(, "dim": 0)");
    one("[2, 5, 3000]", "amax", R"(, "dim": [0, 2])");
    one("[3, 8, 100]", "mean.dim", R"(, "dim": [0])");
    // Too long for registers: the maximum and the sum of exponentials are found in one pass. Then with rows in which
    // most values, or all, are infinite.
    one("[2, 40009]", "softmax.int", R"(, "dim": 1)");
    one("[99, 24580]", "logsumexp", R"(, "dim": [1])");
    for (const char* op : {"log", "reciprocal"})
      for (const char* least : {"3", "9"})
        for (const auto& [last, args] :
             {std::pair("softmax.int", R"("dim": 1)"), std::pair("logsumexp", R"("dim": [1])")})
          out.push_back(made("infinite" + std::to_string(out.size()), tensor("x", "[2, 40009]"),
                             step("sub.Scalar", fmt::format(R"("self": "x", "other": {})", least), "\"d\"") + ", " +
                                 step("relu", R"("self": "d")", "\"r\"") + ", " + step(op, R"("self": "r")", "\"l\"") +
                                 ", " + step(last, R"("self": "l", )" + std::string(args), "\"y\""),
                             "\"y\""));
    out.push_back(made("batch_norm_over_its_input", tensor("x", "[4, 3, 64, 65]"),
                       step("flip", R"("self": "x", "dims": [0])", "\"f\"") + ", " +
                           batch_norm("f", no_parameters, "n") + ", " + step("relu", R"("self": "n")", "\"y\""),
                       "\"y\""));
    for (const char* shape : {"[4, 3, 64, 65]", "[2, 200, 3, 3]"})
      out.push_back(made("batch_norm" + std::to_string(out.size()), tensor("x", shape),
                         batch_norm("x", no_parameters, "y"), "\"y\""));
    return out;
  }();
  return tasks;
}

const task& builtin(const std::string& name) {
  return found(builtin_tasks(), name);
}
const task& small(const std::string& name) {
  return found(small_tasks(), name);
}

namespace {

std::string in_quotes(const std::string& value) {
  return "\"" + value + "\"";
}

void add_step(std::string& steps, const std::string& op, const std::string& args, const std::string& out) {
  steps += (steps.empty() ? "" : ", ") + step(op, args, in_quotes(out));
}

}  // namespace

task chained_network(int chains) {
  std::string steps, before = "x";
  for (int i = 0; i < chains; ++i) {
    const auto name = [&](const char* of) { return of + std::to_string(i); };
    add_step(steps, "mm", "\"self\": " + in_quotes(before) + ", \"mat2\": \"w\"", name("product"));
    add_step(steps, "add.Tensor", "\"self\": " + in_quotes(name("product")) + ", \"other\": \"bias\"", name("biased"));
    before = name("end");
    if (i % 2 == 0) {
      add_step(steps, "sigmoid", "\"self\": " + in_quotes(name("biased")), before);
    } else {
      add_step(steps, "softmax.int", "\"self\": " + in_quotes(name("biased")) + ", \"dim\": 1", before);
    }
  }
  return made("chained_network",
              tensor("x", "[8, 16]") + ", " + tensor("w", "[16, 16]") + ", " + tensor("bias", "[16]"), steps,
              in_quotes(before));
}

task residual_network(int blocks) {
  std::string steps, before = "x";
  for (int i = 0; i < blocks; ++i) {
    const auto name = [&](const char* of) { return of + std::to_string(i); };
    const auto add = [&](const std::string& op, const std::string& args, const std::string& out) {
      add_step(steps, op, args, out);
    };
    add("mm", "\"self\": " + in_quotes(before) + ", \"mat2\": \"w\"", name("product"));
    add("add.Tensor", "\"self\": " + in_quotes(name("product")) + ", \"other\": \"bias\"", name("biased"));
    add("relu", "\"self\": " + in_quotes(name("biased")), name("positive"));
    add("add.Tensor", "\"self\": " + in_quotes(name("positive")) + ", \"other\": " + in_quotes(before), name("sum"));
    before = name("sum");
  }
  return made("residual_network",
              tensor("x", "[8, 16]") + ", " + tensor("w", "[16, 16]") + ", " + tensor("bias", "[16]"), steps,
              in_quotes(before));
}

}  // namespace cudal1::test
