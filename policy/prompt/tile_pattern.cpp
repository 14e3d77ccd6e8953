#include "policy/prompt/tile_pattern.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "policy/prompt/number_patterns.hpp"
#include "policy/prompt/source_pattern.hpp"
#include "policy/tile/c_text.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/dialect.hpp"

namespace cudal1 {

namespace {

using pattern = byte_pattern;

constexpr int most_scalars = 3, most_tensors_between = 2;
// Calls in calls of an expression that is stored, and of one that is summed or compared.
constexpr int deep = 2, shallow = 1;
constexpr double share_of_launches = 0.3;
constexpr std::string_view loop = "for (int i = 0; i < N; ++i) ";

pattern float_number() {
  const auto digits = [](int most) { return pattern::times(pattern::any_of("0123456789"), 1, most); };
  constexpr int before_point = 6, behind_point = 10, of_exponent = 2;
  return pattern::sequence(
      {digits(before_point), pattern::text("."), digits(behind_point),
       pattern::choice({pattern::text(""), pattern::sequence({pattern::text("e-"), digits(of_exponent)})}),
       pattern::text("f")});
}

pattern expression(const std::vector<std::string>& names, int depth);

pattern operand(const std::vector<std::string>& names, int depth) {
  std::vector<pattern> options{float_number()};
  if (!names.empty()) options.push_back(pattern::one_of(names));
  if (depth > 0) {
    options.push_back(pattern::sequence(
        {pattern::one_of({"(", "expf(", "logf(", "sqrtf(", "rsqrtf(", "tanhf(", "fabsf(", "erff(", "log1pf("}),
         expression(names, depth - 1), pattern::text(")")}));
    options.push_back(pattern::sequence({pattern::text("greater_or_nan("), expression(names, depth - 1),
                                         pattern::text(", "), operand(names, 0), pattern::text(")")}));
  }
  return pattern::sequence({pattern::one_of({"", "-"}), pattern::choice(std::move(options))});
}

// Of float values by these names.
pattern expression(const std::vector<std::string>& names, int depth) {
  return pattern::sequence(
      {operand(names, depth),
       pattern::repeated(pattern::sequence({pattern::one_of({" + ", " - ", " * ", " / "}), operand(names, depth)}))});
}

std::string scalar_name(int i) {
  return fmt::format("s{}", i);
}

// What is in scope behind `scalars` of them.
std::vector<std::string> with_scalars(std::vector<std::string> names, int scalars) {
  for (int i = 0; i < scalars; ++i)
    names.push_back(scalar_name(i));
  return names;
}

pattern assignment(const std::string& to, pattern value) {
  return pattern::sequence({pattern::text(to), std::move(value), pattern::text(";\n")});
}

// The statements of a body of rows.
class rows_body {
 public:
  explicit rows_body(const tile_frame& f) : frame_(f) {
    for (const auto& t : f.read) {
      per_element_.push_back(t.is_one_per_row ? t.name : t.name + "[i]");
      (t.is_one_per_row ? per_row_ : rows_).push_back(t.name);
    }
  }

  pattern all() const {
    std::vector<pattern> parts;
    for (const auto& t : frame_.read)
      if (!t.is_one_per_row) parts.push_back(load(t));
    parts.push_back(from_level(0));
    return pattern::sequence(std::move(parts));
  }

 private:
  static pattern load(const frame_tensor& t) {
    return pattern::sequence({pattern::text(fmt::format("float {0}[N];\n{1}<THREADS>({0}, {0}_row, COLUMNS, ", t.name,
                                                        load_function(t.type))),
                              pattern::one_of({"0.0f", "-INFINITY"}), pattern::text(");\n")});
  }

  pattern element(int scalars, int depth) const { return expression(with_scalars(per_element_, scalars), depth); }

  // Of each element of a row that is in registers.
  pattern change(int scalars) const {
    return pattern::sequence(
        {pattern::text(loop), pattern::one_of(rows_), assignment("[i] = ", element(scalars, deep))});
  }

  pattern declare(int scalars) const {
    const auto s = scalar_name(scalars);
    std::vector<pattern> options;
    options.push_back(
        assignment(fmt::format("const float {} = ", s), expression(with_scalars(per_row_, scalars), deep)));
    if (!rows_.empty()) {
      options.push_back(pattern::sequence(
          {assignment(fmt::format("float {} = 0.0f;\n{}{} += ", s, loop, s), element(scalars, shallow)),
           pattern::text(fmt::format("{0} = sum_of_block<THREADS>({0}, scratch);\n", s))}));
      options.push_back(pattern::sequence(
          {pattern::text(fmt::format("float {0} = -INFINITY;\n{1}{0} = greater_or_nan({0}, ", s, loop)),
           element(scalars, shallow),
           pattern::text(fmt::format(");\n{0} = greatest_of_block<THREADS>({0}, scratch);\n", s))}));
    }
    return pattern::choice(std::move(options));
  }

  pattern store(const frame_tensor& t, int scalars) const {
    if (t.is_one_per_row)
      return pattern::sequence({pattern::text(fmt::format("if (threadIdx.x == 0) {}_out[row] = ", t.name)),
                                pattern::text(stored_begin(t.type)), expression(with_scalars(per_row_, scalars), deep),
                                pattern::text(t.type == dtype::float32 ? ";\n" : ");\n")});
    return pattern::sequence(
        {assignment(fmt::format("float {}[N];\n{}{}[i] = ", t.name, loop, t.name), element(scalars, deep)),
         pattern::text(fmt::format("{1}<THREADS>({0}_row, {0}, COLUMNS);\n", t.name, store_function(t.type)))});
  }

  static std::string stored_begin(dtype t) {
    return t == dtype::float32 ? "" : t == dtype::float16 ? "half_of_float(" : "bfloat16_of_float(";
  }

  pattern from_level(int scalars) const {
    std::vector<pattern> last;
    for (const auto& t : frame_.written)
      last.push_back(store(t, scalars));
    std::vector<pattern> rest{pattern::sequence(std::move(last))};
    if (scalars < most_scalars) rest.push_back(pattern::sequence({declare(scalars), from_level(scalars + 1)}));
    const auto changes = rows_.empty() ? pattern::text("") : pattern::repeated(change(scalars));
    return pattern::sequence({changes, pattern::choice(std::move(rest))});
  }

  const tile_frame& frame_;
  std::vector<std::string> rows_, per_row_, per_element_;
};

pattern product_body(const tile_frame& f) {
  std::vector<std::string> names{"sum"};
  for (const auto& t : f.read)
    names.push_back(t.name + "(row, column)");
  const auto statements = [&](auto&& self, int scalars) -> pattern {
    const auto value = expression(with_scalars(names, scalars), deep);
    std::vector<pattern> rest{assignment("  return ", value)};
    if (scalars < most_scalars)
      rest.push_back(pattern::sequence(
          {assignment(fmt::format("  const float {} = ", scalar_name(scalars)), value), self(self, scalars + 1)}));
    return pattern::choice(std::move(rest));
  };
  const std::vector<std::string> instructions = f.operand_type == dtype::float16 ? std::vector<std::string>{"mma_half"}
                                                : f.operand_type == dtype::bfloat16
                                                    ? std::vector<std::string>{"mma_bfloat16"}
                                                    : std::vector<std::string>{"mma_tf32x3", "mma_float32", "mma_tf32"};
  const auto& y = f.written.front().name;
  return pattern::sequence(
      {pattern::text("for_stages<STAGES>(TERMS / DEPTH, copy, [&](int step, int stage) {\n  "),
       pattern::text(f.right_is_transposed ? "multiply_abt<" : "multiply_ab<"), pattern::one_of(instructions),
       pattern::text(", LEFT, RIGHT>(sums, left(stage), right(stage), warp_row, warp_column);\n});\n"
                     "const auto result = [&](int row, int column, float sum) {\n"),
       statements(statements, 0),
       pattern::text(
           fmt::format("}};\nfor_each_pair(sums, own_row, own_column, [&](int row, int column, float sum, float next) "
                       "{{\n  store_pair_as<{}>({}_at(row, column), result(row, column, sum), result(row, column + 1, "
                       "next));\n}});\n",
                       instructions.front(), y))});
}

// ---- launches and free source -----------------------------------------------------------------------------------

std::string tensor_between(int i) {
  return fmt::format("t{}", i);
}

// Of at most four dimensions, below 2^40 bytes in all.
pattern shape_of_tensor() {
  const auto extent = [](int digits) {
    return pattern::sequence(
        {pattern::any_of("123456789"), pattern::times(pattern::any_of("0123456789"), 0, digits - 1)});
  };
  std::vector<pattern> options;
  for (const auto& digits : std::vector<std::vector<int>>{{9}, {6, 5}, {3, 4, 4}, {3, 3, 3, 2}}) {
    std::vector<pattern> parts;
    for (std::size_t i = 0; i < digits.size(); ++i)
      parts.push_back(pattern::sequence({pattern::text(i > 0 ? ", " : ""), extent(digits[i])}));
    options.push_back(pattern::sequence(std::move(parts)));
  }
  return pattern::choice(std::move(options));
}

pattern tensor_line(const std::string& name) {
  return pattern::sequence({pattern::text("tensor " + name + " "), pattern::one_of(dtype_names()), pattern::text("["),
                            shape_of_tensor(), pattern::text("]\n")});
}

pattern launch_line(const std::string& kernel) {
  std::vector<std::string> blocks;
  for (const auto& [x, y] : block_shapes())
    blocks.push_back(fmt::format("{},{},1", x, y));
  return pattern::sequence({pattern::text("launch " + kernel + " grid="), positive_number(), pattern::text(","),
                            short_extent(), pattern::text(","), short_extent(), pattern::text(" block="),
                            pattern::one_of(blocks), pattern::text(" shared_bytes="), shared_bytes_of_tiles(),
                            pattern::text("\n")});
}

pattern parameter(const std::string& type, const std::string& name, bool is_read) {
  return pattern::text(
      fmt::format("{}{}* __restrict__ {}_{}", is_read ? "const " : "", type, name, is_read ? "in" : "out"));
}

// Some of these in their order, each with a comma behind it.
pattern some_of(const std::vector<pattern>& items) {
  std::vector<pattern> parts;
  for (const auto& item : items)
    parts.push_back(pattern::choice({pattern::text(""), pattern::sequence({item, pattern::text(", ")})}));
  return pattern::sequence(std::move(parts));
}

// What lies between kernels may be of several types.
pattern between_parameter(int i, bool is_read) {
  return pattern::choice(
      {parameter("float", tensor_between(i), is_read), parameter("unsigned short", tensor_between(i), is_read)});
}

// Pointers to tensors by their names: some that are read, none twice, in the orders that kernels usually have them;
// then those that are written: all outputs by the last kernel, what lies between by the first.
pattern tensor_parameters(const task& t, int between, bool is_last) {
  std::vector<pattern> inputs, weights, kept, written;
  const auto& p = t.reference.text;
  for (const auto& d : p.inputs)
    inputs.push_back(parameter(memory_type(d.type.type), d.name, true));
  for (const auto& d : p.weights)
    weights.push_back(parameter(memory_type(d.type.type), d.name, true));
  for (int i = 0; i < between; ++i)
    (is_last ? kept : written).push_back(between_parameter(i, is_last));
  if (is_last)
    for (const auto& name : p.outputs)
      written.push_back(parameter(memory_type(t.reference.types.at(name).type), name, false));
  const auto first = std::vector<pattern>(inputs.begin(), inputs.begin() + (inputs.empty() ? 0 : 1));
  const auto others = std::vector<pattern>(inputs.begin() + std::ssize(first), inputs.end());
  const auto read =
      pattern::choice({pattern::sequence({some_of(kept), some_of(inputs), some_of(weights)}),
                       pattern::sequence({some_of(inputs), some_of(kept), some_of(weights)}),
                       pattern::sequence({some_of(first), some_of(kept), some_of(weights), some_of(others)})});
  std::vector<pattern> parts{read};
  for (std::size_t i = 0; i < written.size(); ++i)
    parts.push_back(pattern::sequence({pattern::text(i > 0 ? ", " : ""), written[i]}));
  parts.push_back(pattern::text(") {\n"));
  return pattern::sequence(std::move(parts));
}

// Template arguments begin with no word that Markdown's reader takes for thoughts.
pattern call_bracket() {
  constexpr std::string_view but_t = "abcdefghijklmnopqrsuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return pattern::choice(
      {pattern::text("("), pattern::sequence({pattern::text("<"), pattern::any_of(but_t)}), pattern::text("<true")});
}

// Free source with a statement that calls a function of the vocabulary, up to the end.
pattern source_with_call(const std::string& end) {
  std::vector<std::string> names;
  for (const auto& part : dialect_parts())
    if (part.of_tiles)
      for (const auto* list : {&part.of_warps, &part.of_threads})
        for (const auto name : *list)
          names.emplace_back(name);
  constexpr std::string_view word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ []*&";
  const auto assigned = pattern::sequence({pattern::repeated(pattern::any_of(word)), pattern::text("= ")});
  return pattern::sequence({pattern::repeated(pattern::text_until("\n", not_in_source())),
                            pattern::repeated(pattern::text(" ")), pattern::choice({pattern::text(""), assigned}),
                            pattern::one_of(names), call_bracket(), pattern::text_until(end, not_in_source())});
}

// What stands before the first kernel may not be taken for a further launch.
pattern up_to_first_kernel(const std::string& declared) {
  auto forbidden = not_in_source();
  forbidden.insert(forbidden.end(), {"launch ", "launch\t", "launch\n", "tensor ", "tensor\t", "tensor\n"});
  return pattern::choice({pattern::text(declared), pattern::text_until("\n" + declared, std::move(forbidden))});
}

pattern kernels_pattern(const task& t, const std::vector<std::string>& kernels, int between) {
  std::vector<pattern> lines;
  for (const auto& name : kernels)
    lines.push_back(launch_line(name));
  for (int i = 0; i < between; ++i)
    lines.push_back(tensor_line(tensor_between(i)));
  std::vector<pattern> parts{pattern::within(pattern::sequence(std::move(lines)), share_of_launches)};
  const std::string declared = "__global__ void ";
  parts.push_back(up_to_first_kernel(declared));
  for (const auto& name : kernels) {
    const bool is_last = &name == &kernels.back();
    parts.push_back(launch_bounds());
    parts.push_back(pattern::text(name + "("));
    parts.push_back(tensor_parameters(t, between, is_last));
    if (!is_last) parts.push_back(pattern::text_until("\n" + declared, not_in_source()));
  }
  parts.push_back(source_with_call("\n```"));
  return pattern::sequence(std::move(parts));
}

}  // namespace

byte_pattern body_pattern(const tile_frame& frame) {
  return pattern::sequence({pattern::text(frame.kind + " "), pattern::one_of(frame.choices), pattern::text("\n"),
                            frame.kind == "rows" ? rows_body(frame).all() : product_body(frame)});
}

byte_pattern tile_pattern(const task& t) {
  std::vector<pattern> options;
  for (const auto& frame : frames_of(t))
    options.push_back(pattern::sequence({body_pattern(frame), pattern::text("```")}));
  for (const auto& kernels : kernels_of_answers()) {
    const bool has_between = kernels.size() > 1;
    for (int between = has_between ? 1 : 0; between <= (has_between ? most_tensors_between : 0); ++between)
      options.push_back(kernels_pattern(t, kernels, between));
  }
  return pattern::choice(std::move(options));
}

}  // namespace cudal1
