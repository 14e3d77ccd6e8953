// cudal1 operators: lists the operators that a task may use.
#include <algorithm>
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/program/json_fields.hpp"
#include "sandbox/program/operators/operators.hpp"
#include "sandbox/program/operators/record.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct operators_options {
  bool json = false, check = false;
};

expected<tensor_type> read_tensor(const json& v, const std::string& where) {
  CUDAL1_CHECK(known_keys(v, where, {"dtype", "shape", "strides"}));
  CUDAL1_TRY(const auto* dtype_field, required_key(v, "dtype", where));
  CUDAL1_TRY(const auto* shape, required_key(v, "shape", where));
  CUDAL1_TRY(const auto* strides, required_key(v, "strides", where));
  CUDAL1_TRY(const auto name, read_string(*dtype_field, where + ".dtype"));
  const auto type = dtype_of(name);
  if (!type) return fail(errc::unsupported, "{}: a task has no tensors of dtype {}", where, name);
  tensor_type t{*type, {}, {}};
  CUDAL1_TRY(t.shape, read_integers(*shape, where + ".shape"));
  CUDAL1_TRY(t.strides, read_integers(*strides, where + ".strides"));
  if (t.shape.size() != t.strides.size()) return fail(errc::parse_error, "{}: one stride for each size", where);
  return t;
}

// What the rules say of one call: {"tensors": {NAME: {"dtype", "shape", "strides"}}, "aten": NAME, "args": {...}}.
expected<void> check_call(const json& call) {
  CUDAL1_CHECK(known_keys(call, "the call", {"tensors", "aten", "args"}));
  CUDAL1_TRY(const auto* tensors, required_key(call, "tensors", "the call"));
  CUDAL1_TRY(const auto* aten, required_key(call, "aten", "the call"));
  CUDAL1_TRY(const auto* args, required_key(call, "args", "the call"));
  if (!tensors->is_object()) return wrong_json_kind("tensors", "an object", *tensors);
  if (!args->is_object()) return wrong_json_kind("args", "an object", *args);
  std::map<std::string, tensor_type> types;
  for (const auto& [name, value] : tensors->as_object()) {
    CUDAL1_TRY(types[name], read_tensor(value, name));
  }
  CUDAL1_TRY(const auto name, read_string(*aten, "aten"));
  const auto* op = find_operator(name);
  if (op == nullptr) return fail(errc::unsupported, "the operator {} is not on the list", name);
  CUDAL1_TRY(const auto bound, bind_arguments(*op, args->as_object(), [&](const std::string& tensor) {
               const auto found = types.find(tensor);
               return found == types.end() ? nullptr : &found->second;
             }));
  CUDAL1_CHECK(op->rule(bound));
  return {};
}

// For the importer of models: one line of JSON, with the reason of a refusal, for each line of standard input.
expected<int> check_calls(context& c) {
  for (std::string line; std::getline(std::cin, line);) {
    const auto call = json::parse(line);
    const auto checked = call ? check_call(*call) : expected<void>(tl::unexpected<error>(call.error()));
    c.out.print(json::make_object({{"refused", checked ? "" : checked.error().message}}).text() + "\n");
    std::fflush(stdout);
  }
  return exit_code::success;
}

std::string aliases_of(const operator_record& r) {
  std::vector<std::string_view> aliases;
  for (const std::string_view alias : r.aliases)
    aliases.push_back(alias.substr(0, alias.find('(')));
  return fmt::format("{}", fmt::join(aliases, ", "));
}

std::string kernel_of(const operator_record& r) {
  if (r.traits.rows) return r.traits.kernel ? "pointwise, by row" : "by row";
  return r.traits.kernel ? "pointwise" : r.traits.pooled_dimensions > 0 ? "by window" : "";
}

// A table; where the terminal is too narrow for the other names of an operator, they are in lines of their own.
std::string operators_text(const terminal& out) {
  std::vector<column> columns = {{.title = "operator"}, {.title = "kind"}, {.title = "kernel"}};
  table narrow(columns);
  columns.push_back({.title = "also called"});
  table wide(columns);
  for (const auto& r : operator_records()) {
    narrow.add({std::string(r.name()), enum_name(r.kind), kernel_of(r)});
    wide.add({std::string(r.name()), enum_name(r.kind), kernel_of(r), aliases_of(r)});
  }
  const auto whole = wide.text(out);
  const auto fits = [&](const std::string& line) { return out.width == 0 || display_width(line) <= out.width; };
  if (std::ranges::all_of(split_lines(whole), fits)) return whole;
  constexpr std::size_t indent = 4;
  const auto lines = split_lines(narrow.text(out));
  std::string text = lines.front() + "\n";
  for (std::size_t i = 1; i < lines.size(); ++i) {
    text += lines[i] + "\n";
    if (const auto aliases = aliases_of(operator_records()[i - 1]); !aliases.empty())
      text += wrap("also called " + aliases, out.width, indent) + "\n";
  }
  return text;
}

expected<int> list_operators(const operators_options& o, context& c) {
  if (o.check) return check_calls(c);
  if (o.json) {
    print_json(c, operators_json());
    return exit_code::success;
  }
  c.out.print(operators_text(c.out));
  return exit_code::success;
}

void add_operators(CLI::App& app, context& c) {
  auto o = std::make_shared<operators_options>();
  auto* sub = app.add_subcommand("operators",
                                 "the ATen operators that tasks may use, and which of them moves can put into kernels");
  sub->add_flag("--json", o->json, "one JSON document; the importer of models reads it");
  add_csv_flag(*sub, c, o->json, {"operators"});
  sub->add_flag("--check", o->check,
                "for each line of JSON on standard input, a call with its tensors' types, print whether the rules "
                "refuse it, and why; the importer of models asks so");
  sub->footer(footer("  cudal1 operators", "  0    printed"));
  sub->callback([o, &c] { finish(c, list_operators(*o, c)); });
}

const command_registration registered_operators(123, add_operators);

}  // namespace

}  // namespace cudal1::cli
