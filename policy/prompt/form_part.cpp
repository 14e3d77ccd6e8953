#include "policy/prompt/form_part.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/prompt/tile_guide.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t most_move_examples = 6;  // of one kind of move
constexpr std::size_t most_first_moves = 24;   // a network of hundreds of steps has dozens of kernels

std::set<operator_kind> kinds_in(const task& t) {
  std::set<operator_kind> kinds;
  for (const auto& call : t.reference.calls)
    if (call.op != nullptr && call.op->record != nullptr) kinds.insert(call.op->record->kind);
  return kinds;
}

// What kernels compute themselves, or what no program of a known shape needs.
bool is_for_kernels(operator_kind kind) {
  return kind == operator_kind::pointwise || kind == operator_kind::creation || kind == operator_kind::loss;
}

// The move as a schedule of one has it.
std::string text_of(const move& m) {
  return print_schedule({{m}});
}

// Applies the move to the graph, or leaves it as it was.
bool try_move(graph& g, const move& m, const lowering_target& target) {
  graph next = g;
  if (!apply_move(next, m, target)) return false;
  g = std::move(next);
  return true;
}

// The legal candidates of a kind, the first few.
std::vector<std::string> legal_examples(const graph& g, const move_kind& kind, const lowering_target& target) {
  std::vector<std::string> examples;
  for (const auto& m : kind.candidates(g, target)) {
    graph trial = g;
    if (!try_move(trial, m, target)) continue;
    examples.push_back(text_of(m));
    if (examples.size() == most_move_examples) break;
  }
  return examples;
}

// Applies every legal candidate of a kind, as long as there is one. Candidates are made anew after each, since steps
// change their groups.
void apply_all(graph& g, const move_kind& kind, const lowering_target& target, schedule& to) {
  for (bool applied = true; applied && to.moves.size() < most_first_moves;) {
    applied = false;
    for (const auto& m : kind.candidates(g, target)) {
      if (std::ranges::find(to.moves, m) != to.moves.end() || !try_move(g, m, target)) continue;
      to.moves.push_back(m);
      applied = true;
      break;
    }
  }
}

// What a chain may be, behind the schema of an operator that has one.
std::string chains_of(const operator_info& op) {
  if (std::ranges::find(op.schema.arguments, "graph", &schema_argument::name) == op.schema.arguments.end()) return "";
  std::string words;
  for (const auto& word : chain_words) {
    constexpr const char* given[] = {"", "(number)", "(number,number)"};
    words +=
        fmt::format("{}{}{}", words.empty() ? "" : " ", word.name, word.operands == 1 ? "(i)" : given[word.numbers]);
  }
  return fmt::format(
      "; graph: functions of each element in their order, \"add(0) silu\", of: {}; i: of the operands, "
      "with one number a channel or one an element of the result; engine: 0 to 3",
      words);
}

}  // namespace

void add_examples(const task& t, const example_library& library, prompt_document& d) {
  for (const auto* e : choose_examples(t, library)) {
    const auto& p = e->program.program.text;
    auto text = print_program_head(p);
    if (!p.source.empty()) text += std::string(program_separator) + "\n" + p.source;
    d.examples.push_back({e->program.name, e->task, e->family, std::move(text)});
  }
}

void add_frames(const task& t, prompt_document& d) {
  for (const auto& frame : frames_of(t))
    d.frames.push_back(frame_text(frame));
}

void add_tile_examples(const task& t, const example_library& library, prompt_document& d) {
  example_library written;
  std::ranges::copy_if(library, std::back_inserter(written),
                       [](const library_entry& e) { return !e.tile_text.empty(); });
  for (const auto* e : choose_examples(t, written))
    d.examples.push_back({e->program.name, e->task, e->family, e->tile_text});
}

void add_operators(const task& t, prompt_document& d) {
  const auto kinds = kinds_in(t);
  std::map<std::string, std::string> names;
  for (const auto& [name, op] : operator_table()) {
    if (op.record == nullptr || is_for_kernels(op.record->kind)) continue;
    const auto kind = op.record->kind;
    const bool costly = kind == operator_kind::convolution || kind == operator_kind::attention;
    if (kind == operator_kind::product || (costly && kinds.contains(kind))) {
      d.products.push_back(op.schema_text + chains_of(op));
    } else {
      const std::string_view aten = "aten::";
      names[enum_name(kind)] += " " + (name.starts_with(aten) ? name.substr(aten.size()) : name);
    }
  }
  for (const auto& [kind, list] : names)
    d.operators.push_back(kind + ":" + list);
}

void add_moves(const task& t, const lowering_target& target, prompt_document& d) {
  graph g(t), ungrouped = g;
  schedule first;
  for (const auto phase : move_phases) {
    if (phase == move_phase::grouping) ungrouped = g;
    for (const auto* kind : moves_of(phase)) {
      // Groupings are alternatives to each other: each is shown as it is without the others, where it is legal alone.
      auto examples = legal_examples(phase == move_phase::grouping ? ungrouped : g, *kind, target);
      if (examples.empty()) examples = legal_examples(g, *kind, target);
      std::vector<std::string> parameters = kind->parameters;
      for (const auto& name : kind->optional)
        parameters.push_back("[" + name + "]");
      d.moves.push_back({kind->name, kind->summary, std::move(parameters), std::move(examples)});
      if (phase == move_phase::always || phase == move_phase::grouping) apply_all(g, *kind, target, first);
    }
  }
  d.first_moves = print_schedule(first);
}

}  // namespace cudal1
