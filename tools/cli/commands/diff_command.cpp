// cudal1 diff: what two variants have in common, and what not.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/program/program.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/found_variant.hpp"
#include "tools/cli/report/lineage.hpp"
#include "tools/cli/report/verdict_text.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/text_diff.hpp"

namespace cudal1::cli {

namespace {

struct diff_options {
  std::string a, b;
  std::size_t context = 3;
  bool json = false;
};

struct side {
  variant_record variant;
  std::optional<verdict> result;
  std::string task;  // its name
  std::string head, source;
};

expected<side> read_side(store& s, const std::string& name) {
  side out;
  CUDAL1_TRY(out.variant, find_shown(s, name));
  CUDAL1_TRY(out.result, counting_verdict(s, out.variant.task, out.variant.id));
  const auto record = s.get_task(out.variant.task);
  out.task = record ? record->name : short_id(out.variant.task);
  const auto p = read_program(out.variant.program);
  out.head = p ? print_program_head(*p) : out.variant.program;
  out.source = p ? p->source : "";
  return out;
}

std::string outcome_of(const side& x) {
  return x.result ? enum_name(x.result->result) : "not evaluated yet";
}

std::string gate_of(const side& x, const std::string& name) {
  if (!x.result) return "-";
  const auto found = std::ranges::find(x.result->gates, name, &gate_result::gate);
  if (found == x.result->gates.end()) return "-";
  return !found->passed ? "FAIL" : found->reason.starts_with("skipped: ") ? "skip" : "pass";
}

table figures_of(const side& a, const side& b) {
  table t({{.title = ""},
           {.title = short_id(a.variant.id), .right = true},
           {.title = short_id(b.variant.id), .right = true}});
  const auto row = [&](const std::string& title, auto value) { t.add({title, value(a), value(b)}); };
  const auto time = [&](const std::string& title, double verdict::*member) {
    const auto of = [&](const side& x) { return x.result ? format_time((*x.result).*member) : "-"; };
    if (of(a) != "-" || of(b) != "-") row(title, of);
  };
  row("task", [](const side& x) { return x.task; });
  row("outcome", outcome_of);
  row("speedup", [](const side& x) {
    return x.result && x.result->score > 0 ? format_speedup(x.result->score, x.result->score_interval) : "-";
  });
  row("confirmed", [](const side& x) { return std::string(x.result && x.result->confirmed ? "yes" : "no"); });
  time("call time", &verdict::variant_us);
  time("reference", &verdict::reference_us);
  time("device time", &verdict::variant_device_us);
  time("warm device time", &verdict::variant_warm_us);
  std::vector<std::string> gates;
  for (const auto* x : {&a, &b})
    if (x->result)
      for (const auto& g : x->result->gates)
        if (std::ranges::find(gates, g.gate) == gates.end()) gates.push_back(g.gate);
  for (const auto& name : gates)
    row("gate " + name, [&](const side& x) { return gate_of(x, name); });
  return t;
}

std::string resources_text(const side& x) {
  std::string text;
  if (x.result)
    for (const auto& k : x.result->resources)
      text += fmt::format("  {}  {}: {}\n", short_id(x.variant.id), k.kernel, print_resources(k));
  return text;
}

std::string painted(const std::vector<std::string>& lines, const terminal& t) {
  std::string text;
  for (const auto& line : lines) {
    const char first = line.empty() ? ' ' : line.front();
    text += (first == '+' ? t.good(line) : first == '-' ? t.bad(line) : first == '@' ? t.dim(line) : line) + "\n";
  }
  return text;
}

void print_moves(const move_changes& moves, const side& a, const side& b, const terminal& t) {
  t.print("\n" + t.bold("Moves") + "\n");
  for (const auto& m : moves.removed)
    t.print(t.bad(fmt::format("- {}", m)) + "\n");
  for (const auto& m : moves.added)
    t.print(t.good(fmt::format("+ {}", m)) + "\n");
  if (moves == move_changes())
    t.print(a.variant.schedule.empty() && b.variant.schedule.empty() ? "  none: both were written as programs\n"
                                                                     : "  the same\n");
}

void print_text(const std::string& title, const std::vector<std::string>& lines, const terminal& t) {
  t.print("\n" + t.bold(title) + "\n" + (lines.empty() ? "  the same\n" : painted(lines, t)));
}

expected<int> diff(const diff_options& o, const context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(const auto a, read_side(*reader, o.a));
  CUDAL1_TRY(const auto b, read_side(*reader, o.b));
  const auto moves = changes_between(a.variant.schedule, b.variant.schedule);
  const auto head = unified_diff(a.head, b.head, o.context), source = unified_diff(a.source, b.source, o.context);
  if (o.json) {
    print_json(c, json::make_object({{"a", to_json(a.variant)},
                                     {"b", to_json(b.variant)},
                                     {"verdict_a", to_json(a.result)},
                                     {"verdict_b", to_json(b.result)},
                                     {"moves", to_json(moves)},
                                     {"program", to_json(head)},
                                     {"source", to_json(source)}}));
    return exit_code::success;
  }
  c.out.print(figures_of(a, b).text(c.out));
  if (a.variant.task != b.variant.task)
    c.out.print(wrap("They are variants of two tasks: their times do not compare.", c.out.width) + "\n");
  else if (a.result && b.result && a.result->environment_id != b.result->environment_id)
    c.out.print(wrap("They were measured in two environments: their times do not compare.", c.out.width) + "\n");
  if (const auto resources = resources_text(a) + resources_text(b); !resources.empty())
    c.out.print("\n" + c.out.bold("Kernels") + "\n" + resources);
  print_moves(moves, a, b, c.out);
  print_text("Program", head, c.out);
  print_text("CUDA source", source, c.out);
  return exit_code::success;
}

void add_diff(CLI::App& app, context& c) {
  auto o = std::make_shared<diff_options>();
  auto* sub = app.add_subcommand("diff", "two variants side by side: times, gates, moves, program and CUDA source");
  sub->add_option("a", o->a, "an id or its first digits; or the name of a task, for its best variant")
      ->type_name("VARIANT")
      ->required();
  sub->add_option("b", o->b, "the other one")->type_name("VARIANT")->required();
  sub->add_option("--context", o->context, "unchanged lines around each change")
      ->type_name("LINES")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1000}))
      ->capture_default_str();
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 diff 3f9a1c2b 77b0e4d1\n"
             "  cudal1 diff 3f9a1c2b softmax     against the best variant of a task",
             "  0    printed\n"
             "  2    there is no such variant, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, diff(*o, c)); });
}

const command_registration registered_diff(82, add_diff);

}  // namespace

}  // namespace cudal1::cli
