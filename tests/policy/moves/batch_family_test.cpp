// Kernels for every batch size of a range: which moves allow it, what the texts are, and what is refused.
#include "policy/moves/batch_family.hpp"

#include <map>
#include <set>

#include <fmt/format.h>

#include "config/base/text_file.hpp"
#include "sandbox/program/batch_size.hpp"
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1 {
namespace {

using namespace test;

constexpr const char* k_inputs =
    R"("inputs": [{"name": "x", "dtype": "float32", "shape": [64, 48]}, {"name": "y", "dtype": "float32", "shape": [64, 31]}],
       "weights": [{"name": "w", "dtype": "float32", "shape": [31, 48]}, {"name": "b", "dtype": "float32", "shape": [31]}],)";

task task_of(const std::string& steps, const std::string& output, const std::string& inputs = k_inputs) {
  const auto read = read_task(R"({"format": 1, "name": "t", "summary": "s", "family": "f", )" + inputs +
                                  R"("steps": [)" + steps + R"(], "outputs": [")" + output + "\"]}",
                              "cpu");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

task layers() {
  return task_of(
      R"({"aten": "aten::linear", "args": {"input": "x", "weight": "w", "bias": "b"}, "out": ["l"]},
         {"aten": "aten::gelu", "args": {"self": "l"}, "out": ["g"]},
         {"aten": "aten::add.Tensor", "args": {"self": "g", "other": "y"}, "out": ["a"]},
         {"aten": "aten::softmax.int", "args": {"self": "a", "dim": 1}, "out": ["s"]})",
      "s");
}

task network() {
  return task_of(
      R"({"aten": "aten::conv2d", "args": {"input": "i", "weight": "k", "bias": "b", "padding": [1, 1]}, "out": ["c"]},
         {"aten": "aten::relu", "args": {"self": "c"}, "out": ["r"]},
         {"aten": "aten::max_pool2d", "args": {"self": "r", "kernel_size": [2, 2], "stride": [2, 2]}, "out": ["p"]},
         {"aten": "aten::flatten.using_ints", "args": {"self": "p", "start_dim": 1, "end_dim": -1}, "out": ["f"]},
         {"aten": "aten::linear", "args": {"input": "f", "weight": "w"}, "out": ["l"]},
         {"aten": "aten::layer_norm", "args": {"input": "l", "normalized_shape": [10]}, "out": ["n"]})",
      "n",
      R"("inputs": [{"name": "i", "dtype": "float32", "shape": [32, 3, 8, 8]}],
         "weights": [{"name": "k", "dtype": "float32", "shape": [4, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [4]},
                     {"name": "w", "dtype": "float32", "shape": [10, 64]}],)");
}

std::string refusal_over_batches(const task& t, const std::string& moves, batch_range range = {1, 256}) {
  const auto made = batch_family_of(t, parsed(moves), for_cpu(), range);
  return made ? "accepted" : made.error().message;
}

TEST(batch_numbers, are_linear_or_rounded_down) {
  const std::vector<int64_t> sizes{3, 41, 101, 257};
  const auto of = [&](int64_t scale, int64_t offset, int64_t divisor) {
    std::vector<int64_t> values;
    for (const auto n : sizes)
      values.push_back(batch_number{scale, offset, divisor}.at(n));
    return batch_number_of(sizes, values);
  };
  EXPECT_EQ(of(128, 0, 1), (batch_number{128, 0, 1}));
  EXPECT_EQ(of(-2, 600, 1), (batch_number{-2, 600, 1}));
  for (int64_t n = 1; n <= 257; ++n)
    for (const auto& [scale, divisor] : {std::pair<int64_t, int64_t>{31, 256}, {1, 8}, {7, 24}, {3, 1024}}) {
      const int64_t needed = (scale * n + divisor - 1) / divisor, found = of(scale, divisor - 1, divisor)->at(n);
      EXPECT_TRUE(found == needed || found == needed + 1) << n << " of " << scale << "/" << divisor << ": " << found;
    }
  EXPECT_FALSE(batch_number_of(sizes, std::vector<int64_t>{9, 1681, 10201, 66049})) << "a square";
}

TEST(batch_family, takes_the_batch_as_an_argument_of_kernels_that_need_it) {
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto made = batch_family_of(layers(), parsed("row_kernel(steps=1..3)"), *target, {1, 256});
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->range.multiple, 1);
    EXPECT_EQ(made->tuned, 64);
    for (std::size_t k = 0; k < made->sizes.size(); ++k) {
      const auto& p = made->members[k];
      EXPECT_EQ(p.text.source, made->members[0].text.source);
      EXPECT_EQ(p.types.at("s").shape, (std::vector<int64_t>{made->sizes[k], 31}));
      if (p.text.source.find("int batch)") != std::string::npos) {
        EXPECT_EQ(launch_of(p.text).args.back().integer, made->sizes[k]);
      }
    }
  }
  const auto made = batch_family_of(layers(), parsed("fuse(steps=1..2)"), for_cpu(), {1, 256});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->members[0].text.source, HasSubstr("(31 * batch)")) << "a guard of a flat domain";
}

TEST(batch_family, is_refused_where_steps_mix_the_batch) {
  const auto normed = task_of(
      R"({"aten": "aten::linear", "args": {"input": "x", "weight": "w"}, "out": ["l"]},
         {"aten": "aten::native_batch_norm", "args": {"input": "l", "weight": "b", "bias": "b", "running_mean": null,
          "running_var": null, "training": true, "momentum": 0.1, "eps": 1e-05}, "out": ["n", "m", "v"]})",
      "n");
  EXPECT_THAT(refusal_over_batches(normed, ""), HasSubstr("step 2 (aten::native_batch_norm)"));
  const auto mean = task_of(R"({"aten": "aten::mean.dim", "args": {"self": "x", "dim": [0]}, "out": ["m"]})", "m");
  EXPECT_THAT(refusal_over_batches(mean, ""), HasSubstr("step 1 (aten::mean.dim)"));
  const auto one = task_of(R"({"aten": "aten::relu", "args": {"self": "i"}, "out": ["r"]})", "r",
                           R"("inputs": [{"name": "i", "dtype": "float32", "shape": [1, 8]}],)");
  EXPECT_THAT(refusal_over_batches(one, ""), HasSubstr("tuned for a batch of 1"));
  EXPECT_THAT(refusal_over_batches(layers(), "", {8, 4}), HasSubstr("LOW..HIGH"));
}

TEST(documents, are_joined_by_the_batch) {
  const std::vector<int64_t> sizes{3, 5, 11};
  std::vector<json> documents;
  for (const int64_t n : sizes)
    documents.push_back(json::make_object({{"a", json::make_array({4 * n, 7})}, {"b", "x"}}));
  EXPECT_EQ(joined_by_batch(documents, sizes)->text(), R"({"a":[{"$batch":[4,0,1]},7],"b":"x"})");
  documents.back().set("b", "y");
  EXPECT_THAT(joined_by_batch(documents, sizes).error().message,
              HasSubstr(R"(b is "x" for a batch of 3, and "y" for 11)"));
}

// ---- policy/BATCHES.md
// -----------------------------------------------------------------------------------------------

// What a move allows, of all places where it was tried: 0 every size, else the least multiple; k_refused.
using allowed = std::map<std::string, int64_t>;
constexpr int64_t k_refused = 1 << 20;

int64_t multiple_with(const task& t, const schedule& s, const lowering_target& target) {
  const auto made = batch_family_of(t, s, target, {1, 40});
  return made ? made->range.multiple : k_refused;
}

// Tries one move of each kind that is legal behind `first`; returns them, with what they allow.
std::vector<schedule> try_moves(const task& t, const schedule& first, const lowering_target& target, allowed& found) {
  std::vector<schedule> tried;
  const auto moves = legal_moves(t, first, target);
  std::set<std::string> names;
  for (const auto& m : moves ? *moves : std::vector<move>{}) {
    if (!names.insert(m.name).second) continue;
    schedule s = first;
    s.moves.push_back(m);
    if (const auto known = found.find(m.name); known == found.end() || known->second != 1) {
      const auto multiple = multiple_with(t, s, target);
      found[m.name] = std::min(multiple, known == found.end() ? k_refused : known->second);
    }
    tried.push_back(std::move(s));
  }
  return tried;
}

TEST(batch_family, is_allowed_by_the_moves_of_the_table) {
  allowed found;
  for (const auto& t : {layers(), network()})
    for (const auto* target : {&for_cpu(), &for_cuda()})
      for (const auto& s : try_moves(t, {}, *target, found))
        if (s.moves[0].name == "fuse" || s.moves[0].name == "row_kernel" || s.moves[0].name == "product_kernel")
          try_moves(t, s, *target, found);
  std::string table = "| move | batch sizes |\n|---|---|\n";
  for (const auto& [name, multiple] : found)
    table += fmt::format("| `{}` | {} |\n", name,
                         multiple == k_refused ? "its own alone"
                         : multiple == 1       ? "every one"
                                               : fmt::format("multiples of {}", multiple));
  const auto text = read_text_file(CUDAL1_BATCHES);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr(table)) << "the table of policy/BATCHES.md is:\n" << table;
}

}  // namespace
}  // namespace cudal1
