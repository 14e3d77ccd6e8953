// Random shapes, layouts and types: ATen computes every step that a rule accepts, with exactly the rule's types.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tests/sandbox/interpreter/operator_harness.hpp"

namespace cudal1::operator_tests {
namespace {

class generator {
 public:
  // CUDAL1_TEST_SEED shifts all seeds, for longer manual searches.
  explicit generator(uint64_t seed) {
    if (const char* moved = std::getenv("CUDAL1_TEST_SEED")) seed += std::stoull(moved);
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
  }
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(pick(0, static_cast<int64_t>(items.size()) - 1))];
  }

  std::vector<int64_t> shape(int64_t rank) {
    std::vector<int64_t> sizes;
    for (int64_t d = 0; d < rank; ++d)
      sizes.push_back(chance(30) ? 1 : pick(2, 4));
    return sizes;
  }

  // Contiguous, permuted, with gaps, expanded, channels-last, or with odd strides where the size is 1.
  tensor_type layout(dtype type, const std::vector<int64_t>& sizes) {
    auto t = contiguous(type, sizes);
    const auto rank = sizes.size();
    std::vector<std::size_t> order(rank);
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    if (chance(50)) std::shuffle(order.begin(), order.end(), random_);
    if (rank == 4 && chance(20)) order = {1, 3, 2, 0};
    int64_t step = chance(20) ? pick(2, 3) : 1;
    for (const auto d : order) {
      t.strides[d] = step;
      step *= sizes[d] * (chance(10) ? 2 : 1);
    }
    for (std::size_t d = 0; d < rank; ++d) {
      if (chance(8)) t.strides[d] = 0;
      if (sizes[d] == 1 && chance(10)) t.strides[d] = pick(1, 50);
    }
    return t;
  }

  dtype type(int float_percent = 60) {
    if (chance(float_percent)) return dtype::float32;
    return one_of<dtype>({dtype::bool_, dtype::uint8, dtype::int8, dtype::int16, dtype::int32, dtype::int64,
                          dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64});
  }

  operand tensor(const std::string& name, const std::vector<int64_t>& sizes) {
    return {name, layout(type(), sizes), 3, false};
  }

  // A shape that broadcasts with `sizes`.
  std::vector<int64_t> partner(std::vector<int64_t> sizes) {
    sizes.erase(sizes.begin(), sizes.begin() + (chance(30) ? pick(0, static_cast<int64_t>(sizes.size())) : 0));
    for (auto& s : sizes)
      if (chance(15)) s = 1;
    return sizes;
  }

  std::string dim(std::size_t rank) {
    const auto n = std::max<int64_t>(static_cast<int64_t>(rank), 1);
    return fmt::format("{}", pick(-n, n - 1));
  }

 private:
  std::mt19937_64 random_;
};

struct counts {
  int accepted = 0, refused = 0;
};

// The rule must refuse the step or predict ATen's types, including strides.
void compare(const operator_case& c, uint64_t seed, counts& n) {
  SCOPED_TRACE(case_text(c));
  std::mt19937_64 random(seed);
  expected<std::vector<operator_result>> predicted;
  try {
    predicted = typed_by_rule(c);
  } catch (const std::exception&) {
    ++n.refused;  // by the schema
    return;
  }
  if (!predicted) {
    EXPECT_NE(predicted.error().code, errc::infrastructure) << predicted.error().message;
    ++n.refused;
    return;
  }
  ++n.accepted;
  std::map<std::string, at::Tensor> values;
  for (const auto& o : c.operands)
    values.emplace(o.name, draw(o, random));
  try {
    const auto direct = called_directly(c, values);
    ASSERT_EQ(direct.size(), predicted->size());
    for (std::size_t i = 0; i < direct.size(); ++i) {
      const auto& rule = (*predicted)[i];
      EXPECT_EQ(type_of(direct[i]), rule.type)
          << "ATen: " << type_of(direct[i]).text() << " ["
          << fmt::format("{}", fmt::join(direct[i].strides().vec(), ",")) << "], rule: " << rule.type.text() << " ["
          << fmt::format("{}", fmt::join(rule.type.strides, ",")) << "]";
      for (const auto& o : c.operands) {
        const bool shares = direct[i].storage().is_alias_of(values.at(o.name).storage());
        EXPECT_TRUE(rule.view_of.has_value() || !shares)
            << "the rule predicts a copy, but ATen gives a view of " << o.name;
      }
      EXPECT_FALSE(rule.view_of && !direct[i].storage().is_alias_of(values.at(c.operands[0].name).storage()))
          << "the rule predicts a view, but ATen gives a copy";
    }
  } catch (const std::exception& e) {
    const std::string what = e.what();
    if (what.starts_with("ZeroDivisionError")) return;  // integers, by their values
    ADD_FAILURE() << "the rule accepts, but ATen throws: " << what;
  }
}

std::vector<std::string> operators_with(const std::vector<std::string>& arguments, std::size_t tensors) {
  std::vector<std::string> found;
  for (const auto& [name, info] : operator_table()) {
    const auto& schema = info.schema.arguments;
    if (schema.size() < arguments.size()) continue;
    bool fits = true;
    for (std::size_t i = 0; i < schema.size(); ++i)
      fits = fits && (i < arguments.size() ? schema[i].name == arguments[i] : schema[i].default_value.has_value()) &&
             ((i < tensors) == (schema[i].type == schema_type::tensor && !schema[i].optional));
    if (fits) found.push_back(name);
  }
  return found;
}

TEST(operator_random, one_operand) {
  generator g(11);
  counts n;
  const auto ops = operators_with({"self"}, 1);
  ASSERT_GT(ops.size(), 80u);
  for (int i = 0; i < 2500; ++i)
    compare({g.one_of(ops), {g.tensor("a", g.shape(g.pick(0, 5)))}, R"({"self":"a"})"}, 100 + i, n);
  EXPECT_GT(n.accepted, n.refused);
}

TEST(operator_random, two_operands_and_promotion) {
  generator g(12);
  counts n;
  const auto ops = operators_with({"self", "other"}, 2);
  ASSERT_GT(ops.size(), 30u);
  for (int i = 0; i < 2500; ++i) {
    const auto sizes = g.shape(g.pick(0, 4));
    compare({g.one_of(ops), {g.tensor("a", sizes), g.tensor("c", g.partner(sizes))}, R"({"self":"a","other":"c"})"},
            100 + i, n);
  }
  EXPECT_GT(n.accepted, n.refused);
}

TEST(operator_random, a_tensor_and_a_scalar) {
  generator g(13);
  counts n;
  const std::vector<std::string> scalars{"2", "0.5", "true", "-1"};
  auto ops = operators_with({"self", "other"}, 1);
  for (int i = 0; i < 1500; ++i)
    compare({g.one_of(ops),
             {g.tensor("a", g.shape(g.pick(0, 4)))},
             fmt::format(R"({{"self":"a","other":{}}})", g.one_of(scalars))},
            100 + i, n);
  EXPECT_GT(n.accepted, 200);
}

TEST(operator_random, three_operands) {
  generator g(14);
  counts n;
  const std::vector<std::pair<std::string, std::string>> ops{
      {"aten::where.self", R"({"condition":"a","self":"c","other":"e"})"},
      {"aten::clamp.Tensor", R"({"self":"a","min":"c","max":"e"})"},
      {"aten::addcmul", R"({"self":"a","tensor1":"c","tensor2":"e"})"},
      {"aten::addcdiv", R"({"self":"a","tensor1":"c","tensor2":"e"})"},
      {"aten::lerp.Tensor", R"({"self":"a","end":"c","weight":"e"})"}};
  for (int i = 0; i < 1500; ++i) {
    const auto& [op, args] = g.one_of(ops);
    const auto sizes = g.shape(g.pick(0, 4));
    operator_case c{op, {g.tensor("a", sizes), g.tensor("c", g.partner(sizes)), g.tensor("e", g.partner(sizes))}, args};
    if (op == "aten::where.self") c.operands[0].type.type = dtype::bool_;
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 500);
}

TEST(operator_random, reductions_and_scans) {
  generator g(15);
  counts n;
  const std::vector<std::string> over_many{
      "sum.dim_IntList", "mean.dim",           "amax",  "amin", "var.dim", "std.correction", "var_mean.correction",
      "logsumexp",       "linalg_vector_norm", "nansum"};
  const std::vector<std::string> over_one{"max.dim", "min.dim", "argmax", "any.dim", "all.dim", "prod.dim_int"};
  const std::vector<std::string> scans{"cumsum", "cumprod", "logcumsumexp", "softmax.int", "log_softmax.int", "sort"};
  for (int i = 0; i < 2000; ++i) {
    const auto sizes = g.shape(g.pick(0, 4));
    const auto keep = g.chance(50) ? "true" : "false";
    operator_case c{"", {g.tensor("a", sizes)}, ""};
    const auto kind = g.pick(0, 2);
    if (kind == 0) {
      c.op = g.one_of(over_many);
      c.args = fmt::format(R"({{"self":"a","dim":[{}],"keepdim":{}}})",
                           g.chance(50) ? g.dim(sizes.size()) : g.dim(sizes.size()) + "," + g.dim(sizes.size()), keep);
    } else if (kind == 1) {
      c.op = g.one_of(over_one);
      c.args = fmt::format(R"({{"self":"a","dim":{},"keepdim":{}}})", g.dim(sizes.size()), keep);
    } else {
      c.op = g.one_of(scans);
      c.args = fmt::format(R"({{"self":"a","dim":{}}})", g.dim(sizes.size()));
    }
    c.op = "aten::" + c.op;
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 1000);
}

TEST(operator_random, views_and_copies) {
  generator g(16);
  counts n;
  for (int i = 0; i < 2500; ++i) {
    const auto sizes = g.shape(g.pick(0, 5));
    const auto rank = sizes.size();
    operator_case c{"", {g.tensor("a", sizes)}, ""};
    auto shuffled = sizes;
    if (g.chance(50) && !shuffled.empty()) {
      const auto d = static_cast<std::size_t>(g.pick(0, static_cast<int64_t>(rank) - 1));
      if (d + 1 < rank) {
        shuffled[d] *= shuffled[d + 1];
        shuffled.erase(shuffled.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      } else {
        shuffled.insert(shuffled.begin() + static_cast<std::ptrdiff_t>(d), 1);
      }
    }
    const auto shape = fmt::format("[{}]", fmt::join(shuffled, ","));
    const auto a = g.dim(rank), b = g.dim(rank);
    const std::vector<std::pair<std::string, std::string>> choices{
        {"view", R"("size":)" + shape},
        {"reshape", R"("shape":)" + shape},
        {"transpose.int", R"("dim0":)" + a + R"(,"dim1":)" + b},
        {"movedim.int", R"("source":)" + a + R"(,"destination":)" + b},
        {"flatten.using_ints", R"("start_dim":)" + a + R"(,"end_dim":)" + b},
        {"squeeze.dim", R"("dim":)" + a},
        {"unsqueeze", R"("dim":)" + a},
        {"slice.Tensor",
         fmt::format(R"("dim":{},"start":{},"end":{},"step":{})", a, g.pick(-3, 2), g.pick(0, 5), g.pick(1, 2))},
        {"select.int", fmt::format(R"("dim":{},"index":{})", a, g.pick(-4, 3))},
        {"narrow", fmt::format(R"("dim":{},"start":{},"length":{})", a, g.pick(-2, 2), g.pick(1, 3))},
        {"diagonal", fmt::format(R"("offset":{},"dim1":{},"dim2":{})", g.pick(-2, 2), a, b)},
        {"expand", fmt::format(R"("size":[2,{}])", fmt::join(std::vector<int64_t>(rank, -1), ","))},
        {"contiguous", ""},
        {"contiguous", R"("memory_format":"channels_last")"},
        {"clone", ""},
        {"clone", R"("memory_format":"channels_last")"},
        {"to.dtype", R"("dtype":"float64")"},
        {"_to_copy", R"("dtype":"float16")"},
        {"flip", fmt::format(R"("dims":[{}])", a)},
        {"tril", ""},
        {"zeros_like", ""},
        {"roll", fmt::format(R"("shifts":[1],"dims":[{}])", a)},
        {"constant_pad_nd", R"("pad":[1,0])"},
        {"diag_embed", ""}};
    auto [op, args] = g.one_of(choices);
    if (op == "expand" && rank == 0) continue;
    c.op = "aten::" + op;
    c.args = R"({"self":"a")" + (args.empty() ? "" : "," + args) + "}";
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 1000);
}

TEST(operator_random, joins_and_products) {
  generator g(17);
  counts n;
  for (int i = 0; i < 1200; ++i) {
    const auto sizes = g.shape(g.pick(1, 4));
    if (g.chance(50)) {
      compare({g.chance(60) ? "aten::cat" : "aten::stack",
               {g.tensor("a", sizes), g.tensor("c", sizes)},
               fmt::format(R"({{"tensors":["a","c"],"dim":{}}})", g.dim(sizes.size()))},
              100 + i, n);
      continue;
    }
    auto other = g.shape(g.pick(1, 4));
    (other.size() == 1 ? other[0] : other[other.size() - 2]) = sizes.back();
    operator_case c{"aten::matmul", {g.tensor("a", sizes), g.tensor("c", other)}, R"({"self":"a","other":"c"})"};
    c.operands[0].type.type = c.operands[1].type.type = dtype::float32;
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 400);
}

TEST(operator_random, lists_of_views) {
  generator g(19);
  counts n;
  for (int i = 0; i < 800; ++i) {
    const auto sizes = g.shape(g.pick(0, 4));
    const auto dim = g.dim(sizes.size());
    const std::vector<std::pair<std::string, std::string>> choices{
        {"split.Tensor", fmt::format(R"("split_size":{},"dim":{})", g.pick(0, 4), dim)},
        {"split_with_sizes", fmt::format(R"("split_sizes":[{},{}],"dim":{})", g.pick(1, 2), g.pick(0, 2), dim)},
        {"chunk", fmt::format(R"("chunks":{},"dim":{})", g.pick(0, 5), dim)},
        {"tensor_split.sections", fmt::format(R"("sections":{},"dim":{})", g.pick(1, 4), dim)},
        {"unbind.int", fmt::format(R"("dim":{})", dim)},
        {"unfold", fmt::format(R"("dimension":{},"size":{},"step":{})", dim, g.pick(1, 3), g.pick(1, 3))}};
    const auto& [op, args] = g.one_of(choices);
    compare({"aten::" + op, {g.tensor("a", sizes)}, R"({"self":"a",)" + args + "}"}, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 300);
}

TEST(operator_random, einsums) {
  generator g(20);
  counts n;
  for (int i = 0; i < 1500; ++i) {
    const std::string letters = "aBcde";
    std::map<char, int64_t> size;
    for (const char c : letters)
      size[c] = g.chance(25) ? 1 : g.pick(2, 3);
    operator_case c{"aten::einsum", {}, ""};
    std::vector<std::string> names, sides;
    std::string used;
    const auto operands = g.pick(1, 3);
    for (int64_t o = 0; o < operands; ++o) {
      std::string labels;
      std::vector<int64_t> sizes;
      for (auto rank = g.pick(1, 4); rank > 0; --rank) {
        const char label = letters[static_cast<std::size_t>(g.pick(0, 4))];
        if (labels.find(label) != std::string::npos && !g.chance(20)) continue;
        labels += label;
        sizes.push_back(g.chance(5) ? 1 : size[label]);
        if (used.find(label) == std::string::npos) used += label;
      }
      names.push_back(fmt::format(R"("{}")", static_cast<char>('p' + o)));
      sides.push_back(labels);
      c.operands.push_back({names.back().substr(1, 1), g.layout(dtype::float32, sizes)});
    }
    std::string output;
    for (const char label : used)
      if (g.chance(50))
        output.insert(static_cast<std::size_t>(g.pick(0, static_cast<int64_t>(output.size()))), 1, label);
    const auto equation = fmt::format("{}{}", fmt::join(sides, ","), g.chance(85) ? "->" + output : "");
    c.args = fmt::format(R"({{"equation":"{}","tensors":[{}]}})", equation, fmt::join(names, ","));
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 800);
}

TEST(operator_random, convolutions_and_pools) {
  generator g(18);
  counts n;
  for (int i = 0; i < 600; ++i) {
    const auto d = static_cast<std::size_t>(g.pick(1, 3));
    auto input = g.shape(2), weight = g.shape(1);
    const int64_t groups = g.chance(30) ? input[1] : 1;
    weight[0] *= groups;
    weight.push_back(input[1] / groups);
    for (std::size_t k = 0; k < d; ++k) {
      input.push_back(g.pick(1, 7));
      weight.push_back(g.pick(1, 3));
    }
    operator_case c{"", {g.tensor("a", input), g.tensor("w", weight)}, ""};
    for (auto& o : c.operands)
      o.type.type = dtype::float32;
    if (g.chance(60)) {
      c.op = fmt::format("aten::conv{}d", d);
      c.args = fmt::format(R"({{"input":"a","weight":"w","stride":{},"padding":{},"dilation":{},"groups":{}}})",
                           g.pick(1, 2), g.pick(0, 2), g.pick(1, 2), groups);
    } else {
      c.operands.pop_back();
      c.op = fmt::format("aten::{}_pool{}d", g.chance(50) ? "max" : "avg", d);
      c.args = fmt::format(R"({{"self":"a","kernel_size":{},"stride":{},"padding":{},"ceil_mode":{}}})", g.pick(1, 3),
                           g.pick(1, 3), g.pick(0, 1), g.chance(50) ? "true" : "false");
    }
    compare(c, 100 + i, n);
  }
  EXPECT_GT(n.accepted, 100);
}

}  // namespace
}  // namespace cudal1::operator_tests
