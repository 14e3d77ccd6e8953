#include "policy/prompt/tile_frame.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

// Variables, macros and words of C++ that kernels of frames have; tensors are variables by their own names.
const std::set<std::string_view>& taken_names() {
  static const std::set<std::string_view> all = {
      "row",          "column",  "i",          "s0",       "s1",       "s2",     "scratch", "warp",     "warp_row",
      "warp_column",  "sum",     "next",       "sums",     "stages",   "step",   "stage",   "result",   "kernel",
      "THREADS",      "COLUMNS", "N",          "ROWS",     "DEPTH",    "STAGES", "TERMS",   "WIDTH",    "first_row",
      "first_column", "auto",    "bool",       "break",    "case",     "char",   "class",   "const",    "continue",
      "default",      "delete",  "do",         "double",   "else",     "enum",   "extern",  "false",    "float",
      "for",          "goto",    "if",         "inline",   "int",      "long",   "new",     "operator", "or",
      "and",          "not",     "private",    "public",   "register", "return", "short",   "signed",   "sizeof",
      "static",       "struct",  "switch",     "template", "this",     "true",   "typedef", "union",    "unsigned",
      "using",        "void",    "volatile",   "while",    "expf",     "logf",   "sqrtf",   "rsqrtf",   "tanhf",
      "fabsf",        "erff",    "log1pf",     "INFINITY", "NAN",      "min",    "max",     "left",     "right",
      "copy",         "own_row", "own_column", "LEFT",     "RIGHT"};
  return all;
}

launch_argument passed(argument_kind kind, const std::string& tensor) {
  launch_argument out;
  out.kind = kind;
  out.tensor = tensor;
  return out;
}

}  // namespace

std::vector<tile_frame> frames_of(const task& t) {
  std::vector<tile_frame> out;
  for (const auto& made : {product_frame(t), rows_frame(t)})
    if (made) out.push_back(*made);
  return out;
}

expected<framed_kernel> kernel_of(const tile_frame& frame, const std::string& choice) {
  if (std::ranges::count(frame.choices, choice) == 0)
    return fail(errc::invalid_program, "\"{} {}\": write one of \"{} {}\"", frame.kind, choice, frame.kind,
                fmt::join(frame.choices, fmt::format("\", \"{} ", frame.kind)));
  return frame.kind == "rows" ? rows_kernel(frame, choice) : product_kernel(frame, choice);
}

std::string load_function(dtype t) {
  return t == dtype::float16    ? "load_half_row_of_block"
         : t == dtype::bfloat16 ? "load_bfloat16_row_of_block"
                                : "load_row_of_block";
}

std::string store_function(dtype t) {
  return t == dtype::float16    ? "store_half_row_of_block"
         : t == dtype::bfloat16 ? "store_bfloat16_row_of_block"
                                : "store_row_of_block";
}

int64_t elements_of_thread(int64_t columns, int64_t threads) {
  constexpr int64_t piece = 4;
  return (columns + threads * piece - 1) / (threads * piece) * piece;
}

int64_t number_in(std::string_view choice, std::string_view name) {
  const auto key = std::string(name) + "=";
  const auto at = choice.find(key);
  int64_t out = 0;
  for (auto i = at + key.size(); at != std::string_view::npos && i < choice.size() && choice[i] != ' '; ++i)
    out = out * 10 + (choice[i] - '0');
  return out;
}

std::string row_offset(const frame_tensor& t, std::string_view columns) {
  if (t.row == "0") return "";
  return fmt::format(" + (long long){} * {}", t.row == "row" ? t.row : "(" + t.row + ")", columns);
}

const json* step_argument(const aten_step& s, std::string_view name) {
  const auto found = std::ranges::find(s.args, name, [](const auto& a) { return std::string_view(a.first); });
  return found == s.args.end() ? nullptr : &found->second;
}

bool has_free_name(const std::string& tensor) {
  return !taken_names().contains(tensor) && !tensor.starts_with("_");
}

std::optional<frame_tensor> placed_in(const std::string& name, const tensor_type& type,
                                      const std::vector<int64_t>& domain, std::size_t row_dims) {
  if (type.type != dtype::float32 && !is_half(type.type)) return std::nullopt;
  if (!type.is_contiguous() || type.shape.size() > domain.size() || !has_free_name(name)) return std::nullopt;
  std::vector<int64_t> shape(domain.size() - type.shape.size(), 1);
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  const std::size_t lead = domain.size() - row_dims;
  const auto all = [&](std::size_t from, std::size_t to, auto holds) {
    for (std::size_t d = from; d < to; ++d)
      if (!holds(d)) return false;
    return true;
  };
  frame_tensor out{name, type.type, false, "row"};
  const auto is_full = [&](std::size_t d) { return shape[d] == domain[d]; };
  const auto is_one = [&](std::size_t d) { return shape[d] == 1; };
  if (!all(lead, domain.size(), is_full)) {
    if (!all(lead, domain.size(), is_one)) return std::nullopt;
    out.is_one_per_row = true;
  }
  // Of the leading dimensions it has some neighbouring ones.
  std::size_t first = 0, last = lead;
  while (first < lead && shape[first] == 1)
    ++first;
  while (last > first && shape[last - 1] == 1)
    --last;
  if (!all(first, last, is_full)) return std::nullopt;
  const auto product = [&](std::size_t from, std::size_t to) {
    int64_t p = 1;
    for (std::size_t d = from; d < to; ++d)
      p *= domain[d];
    return p;
  };
  const int64_t behind = product(last, lead), own = product(first, last), before = product(0, first);
  if (own == 1) {
    out.row = "0";
  } else {
    if (behind > 1) out.row = fmt::format("row / {}", behind);
    if (before > 1) out.row += fmt::format(" % {}", own);
  }
  return out;
}

std::string parameters_of(const tile_frame& frame) {
  std::vector<std::string> out;
  const auto add = [&out](dtype type, const std::string& name, bool is_read) {
    out.push_back(fmt::format("{}{}* __restrict__ {}_{}", is_read ? "const " : "", memory_type(type), name,
                              is_read ? "in" : "out"));
  };
  for (const auto& name : {frame.left, frame.right})
    if (!name.empty()) add(frame.operand_type, name, true);
  for (const auto& t : frame.read)
    add(t.type, t.name, true);
  for (const auto& t : frame.written)
    add(t.type, t.name, false);
  return fmt::format("{}", fmt::join(out, ", "));
}

std::vector<launch_argument> arguments_of(const tile_frame& frame) {
  std::vector<launch_argument> out;
  for (const auto& name : {frame.left, frame.right})
    if (!name.empty()) out.push_back(passed(argument_kind::in, name));
  for (const auto& t : frame.read)
    out.push_back(passed(argument_kind::in, t.name));
  for (const auto& t : frame.written)
    out.push_back(passed(argument_kind::out, t.name));
  return out;
}

}  // namespace cudal1
