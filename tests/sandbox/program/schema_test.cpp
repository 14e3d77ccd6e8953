// Operator schemas: parsing them as ATen prints them, and typing arguments by them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/program/operators/operators.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

operator_info info_of(std::string_view schema) {
  auto parsed = parse_schema(schema);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return {parsed ? std::move(*parsed) : operator_schema(), nullptr};
}

TEST(parse_schema, reads_types_defaults_and_results) {
  const auto s = info_of(
                     "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str "
                     "padding=\"valid\", bool[3] mask=[True, False, True], float eps=1e-05, ScalarType? dtype=None, "
                     "Scalar alpha=1, *, MemoryFormat? memory_format=None) -> Tensor")
                     .schema;
  EXPECT_EQ(s.name, "aten::conv2d");
  ASSERT_EQ(s.arguments.size(), 10u);
  EXPECT_EQ(s.arguments[0].type, schema_type::tensor);
  EXPECT_FALSE(s.arguments[0].optional);
  EXPECT_TRUE(s.arguments[2].optional);
  EXPECT_TRUE(s.arguments[2].default_value->is_null());
  EXPECT_EQ(s.arguments[3].type, schema_type::integer_list);
  EXPECT_EQ(s.arguments[3].fixed_size, 2);
  EXPECT_EQ(s.arguments[3].default_value->text(), "[1,1]");
  EXPECT_EQ(s.arguments[4].default_value->text(), "\"valid\"");
  EXPECT_EQ(s.arguments[5].default_value->text(), "[true,false,true]");
  EXPECT_EQ(s.arguments[6].default_value->text(), "1e-05");
  EXPECT_EQ(s.arguments[7].type, schema_type::dtype);
  EXPECT_EQ(s.arguments[8].type, schema_type::scalar);
  EXPECT_EQ(s.arguments[9].name, "memory_format");
  EXPECT_THAT(s.results, ElementsAre(""));
}

TEST(parse_schema, reads_aliases_lists_and_several_results) {
  const auto view = info_of("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)").schema;
  EXPECT_EQ(view.arguments[0].name, "self");
  EXPECT_THAT(view.results, ElementsAre(""));
  const auto split = info_of("aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]").schema;
  EXPECT_EQ(split.arguments[0].type, schema_type::tensor);
  const auto max =
      info_of("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)").schema;
  EXPECT_THAT(max.results, ElementsAre("values", "indices"));
  EXPECT_EQ(max.name, "aten::max.dim");
  const auto index = info_of("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor").schema;
  EXPECT_EQ(index.arguments[1].type, schema_type::tensor_list);
  EXPECT_TRUE(index.arguments[1].optional_items);
  EXPECT_FALSE(index.arguments[1].optional);
  const auto mean =
      info_of("aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor")
          .schema;
  EXPECT_TRUE(mean.arguments[1].optional);
  EXPECT_EQ(mean.arguments[1].fixed_size, 1);
  EXPECT_TRUE(info_of("aten::ones() -> ()").schema.results.empty());
}

TEST(parse_schema, reports_what_it_does_not_understand) {
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"aten::relu", "should look like"},
           {"aten::relu(Tensor self", "should look like"},
           {"aten::relu(Tensor self -> Tensor", "no \"->\""},
           {"aten::relu(Tensor) -> Tensor", "has no name"},
           {"aten::relu(Generator? g) -> Tensor", "type Generator? are not supported"},
           {"aten::relu(int[x] g) -> Tensor", "valid size"},
           {"aten::relu(Tensor self=what) -> Tensor", "default what of self"}}) {
    const auto parsed = parse_schema(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr(wanted));
  }
}

const tensor_type matrix = contiguous(dtype::float32, {4, 6});
const tensor_type* lookup(const std::string& name) {
  return name == "x" || name == "y" ? &matrix : nullptr;
}

expected<operator_call> bind(std::string_view schema, std::string_view args) {
  static std::vector<std::unique_ptr<operator_info>> kept;  // the call points to it
  kept.push_back(std::make_unique<operator_info>(info_of(schema)));
  const auto parsed = json::parse(args);
  EXPECT_TRUE(parsed) << args;
  return bind_arguments(*kept.back(), parsed->as_object(), lookup);
}

std::string bind_problem(std::string_view schema, std::string_view args) {
  const auto call = bind(schema, args);
  return call ? "" : call.error().message;
}

TEST(bind_arguments, types_values_and_fills_in_defaults) {
  const auto call = bind(
      "aten::f(Tensor self, Tensor? other, int n, float eps, Scalar s, Scalar t, bool b, str m, ScalarType? d, int[2] "
      "k, "
      "float[]? r, Tensor[] l, int[1]? dim, int dflt=7) -> Tensor",
      R"({"t": true, "self": "x", "other": null, "n": 3, "eps": 1, "s": 2, "b": false, "m": "none", "d": "int64", "k": 3,
          "r": [1, "-inf"], "l": ["x", "y"], "dim": [0, 1]})");
  ASSERT_TRUE(call) << call.error().message;
  const auto& a = call->arguments;
  ASSERT_EQ(a.size(), 14u);
  EXPECT_EQ(std::get<tensor_argument>(a[0]).type, matrix);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(a[1]));
  EXPECT_EQ(std::get<scalar_value>(a[2]), scalar_value(int64_t{3}));
  EXPECT_EQ(std::get<scalar_value>(a[3]), scalar_value(1.0)) << "an integer becomes a real for a real argument";
  EXPECT_EQ(std::get<scalar_value>(a[4]), scalar_value(int64_t{2})) << "and stays an integer for a Scalar argument";
  EXPECT_EQ(std::get<scalar_value>(a[5]), scalar_value(true));
  EXPECT_EQ(std::get<scalar_value>(a[6]), scalar_value(false));
  EXPECT_EQ(std::get<std::string>(a[7]), "none");
  EXPECT_EQ(std::get<dtype>(a[8]), dtype::int64);
  EXPECT_THAT(std::get<std::vector<int64_t>>(a[9]), ElementsAre(3, 3));
  EXPECT_EQ(std::get<std::vector<double>>(a[10])[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<std::vector<tensor_argument>>(a[11]).size(), 2u);
  EXPECT_THAT(std::get<std::vector<int64_t>>(a[12]), ElementsAre(0, 1));
  EXPECT_EQ(std::get<scalar_value>(a[13]), scalar_value(int64_t{7}));
}

TEST(bind_arguments, fits_lists_to_their_fixed_size) {
  const auto* schema = "aten::pool(Tensor self, int[2] k, int[2] stride=[]) -> Tensor";
  EXPECT_THAT(std::get<std::vector<int64_t>>(bind(schema, R"({"self":"x","k":[3]})")->arguments[1]), ElementsAre(3, 3));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(bind(schema, R"({"self":"x","k":2})")->arguments[2]).empty());
  EXPECT_THAT(bind_problem(schema, R"({"self":"x","k":[1,2,3]})"), HasSubstr("args.k: should have 2 items, but has 3"));
  EXPECT_THAT(bind_problem(schema, R"({"self":"x","k":[]})"), HasSubstr("args.k: should have 2 items, but has 0"));
}

TEST(bind_arguments, names_the_field_and_the_reason) {
  const auto* schema =
      "aten::f(Tensor self, int n=1, float eps=0.5, bool b=False, ScalarType? dtype=None, MemoryFormat? "
      "memory_format=None, "
      "Device? device=None, int[] dims=[], Tensor[] l=[], Layout? layout=None) -> Tensor";
  for (const auto& [args, wanted] : std::vector<std::pair<std::string, std::string>>{
           {R"({})", "args.self: is missing, and has no default"},
           {R"({"self": "q"})", "args.self: there is no value \"q\""},
           {R"({"self": 3})", "args.self: should be the name of a value, but is an integer"},
           {R"({"self": null})", "args.self: may not be null"},
           {R"({"self": "x", "n": 1.0})", "args.n: should be an integer, but is a number"},
           {R"({"self": "x", "n": null})", "args.n: may not be null"},
           {R"({"self": "x", "eps": "big"})", "args.eps: should be a number"},
           {R"({"self": "x", "b": 1})", "args.b: should be a boolean, but is an integer"},
           {R"({"self": "x", "dtype": "float23"})", "args.dtype: there is no \"float23\"; did you mean \"float32\"?"},
           {R"({"self": "x", "memory_format": "channel_last"})", "did you mean \"channels_last\"?"},
           {R"({"self": "x", "layout": "sparse"})", "args.layout: there is no \"sparse\""},
           {R"({"self": "x", "device": "cuda"})", "args.device: leave it out"},
           {R"({"self": "x", "dims": 3})", "args.dims: should be an array"},
           {R"({"self": "x", "dims": [1, "a"]})", "args.dims[1]: should be an integer, but is a string"},
           {R"({"self": "x", "l": ["x", "z"]})", "args.l[1]: there is no value \"z\""},
           {R"({"self": "x", "l": [null]})", "args.l[0]: should be the name of a value"},
           {R"({"self": "x", "epsilon": 1.0})", "has no argument \"epsilon\""},
           {R"({"self": "x", "dtyp": "int64"})", "has no argument \"dtyp\"; did you mean \"dtype\"?"}})
    EXPECT_THAT(bind_problem(schema, args), HasSubstr(wanted)) << args;
}

TEST(operator_table, has_a_rule_and_a_schema_with_its_name_for_each_operator) {
  EXPECT_GE(operator_table().size(), 40u);
  for (const auto& [name, info] : operator_table()) {
    EXPECT_EQ(name, info.schema.name);
    EXPECT_TRUE(info.rule) << name;
    EXPECT_EQ(find_operator(name), &info);
  }
  EXPECT_EQ(find_operator("aten::system"), nullptr);
}

}  // namespace
}  // namespace cudal1
