// cudal1 operators: lists the operators that a task may use.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/program/operators/record.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct operators_options {
  bool json = false;
};

expected<int> list_operators(const operators_options& o, context& c) {
  if (o.json) {
    print_json(c, operators_json());
    return exit_code::success;
  }
  table rows(
      {{.title = "operator"}, {.title = "kind"}, {.title = "kernel"}, {.title = "also called", .least_width = 16}});
  for (const auto& r : operator_records()) {
    std::vector<std::string_view> aliases;
    for (const std::string_view alias : r.aliases)
      aliases.push_back(alias.substr(0, alias.find('(')));
    const char* kernel = r.traits.kernel ? "pointwise" : r.traits.rows ? "by row" : "";
    rows.add({std::string(r.name()), enum_name(r.kind), kernel, fmt::format("{}", fmt::join(aliases, ", "))});
  }
  c.out.print(rows.text(c.out.width));
  return exit_code::success;
}

void add_operators(CLI::App& app, context& c) {
  auto o = std::make_shared<operators_options>();
  auto* sub = app.add_subcommand("operators",
                                 "the ATen operators that tasks may use, and which of them moves can put into kernels");
  sub->add_flag("--json", o->json, "one JSON document; the importer of models reads it");
  sub->footer(footer("  cudal1 operators", "  0    printed"));
  sub->callback([o, &c] { finish(c, list_operators(*o, c)); });
}

const command_registration registered_operators(123, add_operators);

}  // namespace

}  // namespace cudal1::cli
