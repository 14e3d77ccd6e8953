#include "policy/prompt/prompt_document.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "policy/prompt/counter_text.hpp"
#include "policy/prompt/form_part.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/device/accuracy.hpp"
#include "sandbox/program/input_spec.hpp"
#include "sandbox/program/quantiles.hpp"
#include "sandbox/program/task_fit.hpp"
#include "sandbox/verify/half_precision.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {

namespace {

std::string values_of(const input_spec& spec) {
  std::string text;
  if (spec.content && spec.content->fixed) {
    text = "fixed values that belong to the task";
  } else if (spec.content) {
    text = spec.content->draws > 0 ? "recorded examples"
                                   : "the model's own values in some draws, else " + draw_text(spec.draw);
  } else if (!spec.quantiles.empty()) {
    text = quantiles_text(spec.quantiles) + " in some draws, else " + draw_text(spec.draw);
  } else {
    text = draw_text(spec.draw);
  }
  for (const fact f : spec.facts)
    text += fmt::format("; always {}", enum_name(f));
  return text;
}

void add_tensors(const std::string& role, const std::vector<tensor_declaration>& declared,
                 const std::vector<input_spec>& specs, std::vector<shown_tensor>& to) {
  for (std::size_t i = 0; i < declared.size(); ++i)
    to.push_back({role, declared[i].name, declared[i].type.text(), values_of(specs[i])});
}

// "2: aten::add.Tensor(self=x, other=bias) -> h float32[16, 32]"
std::string step_line(std::size_t number, const aten_step& s, const std::vector<operator_result>& results) {
  std::string text = fmt::format("{}: {}(", number, s.op);
  for (std::size_t i = 0; i < s.args.size(); ++i) {
    const auto& value = s.args[i].second;
    text += fmt::format("{}{}={}", i > 0 ? ", " : "", s.args[i].first,
                        value.is_string() ? value.as_string() : value.text());
  }
  text += ") ->";
  for (std::size_t i = 0; i < s.results.size(); ++i)
    if (!s.results[i].empty())
      text += fmt::format("{} {} {}", i > 0 ? "," : "", s.results[i], i < results.size() ? results[i].type.text() : "");
  return text;
}

std::vector<std::string> kinds_of_draws(const task& t, const verification_options& options) {
  std::vector<std::string> kinds;
  for (const auto& draw : plan_check(t, options).draws) {
    auto name = std::string(enum_name(draw.kind));
    if (std::ranges::find(kinds, name) == kinds.end()) kinds.push_back(std::move(name));
  }
  return kinds;
}

prompt_task part_of(const task& t, const document_sources& from) {
  const program& p = t.reference.text;
  prompt_task part;
  part.name = t.name;
  part.summary = t.summary;
  part.family = t.family;
  if (t.origin) part.part = t.origin->part;
  part.source = from.source.value_or("");
  part.reference = print_program_head(p);
  part.declared_inputs = declarations_text(p.inputs);
  part.declared_weights = declarations_text(p.weights);
  std::set<std::string> schemas;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const auto& s = std::get<aten_step>(p.steps[i]);
    part.steps.push_back(step_line(i, s, t.reference.results[i]));
    if (const auto* op = find_operator(s.op)) schemas.insert(op->schema_text);
  }
  part.operators.assign(schemas.begin(), schemas.end());
  add_tensors("input", p.inputs, t.inputs, part.tensors);
  add_tensors("weight", p.weights, t.weights, part.tensors);
  for (const auto& name : p.outputs) {
    const auto& type = t.reference.types.at(name);
    part.tensors.push_back({"output", name, type.text(), ""});
    part.half = part.half || is_half(type.type);
    part.integers = part.integers || !is_floating(type.type);
  }
  part.draws = kinds_of_draws(t, from.verification);
  const accuracy held = accuracy_of(from.verification);
  if (held == accuracy::strict || held == accuracy::half) part.precision = enum_name(held);
  if (held == accuracy::half) part.half_error = half_precision_error(t.reference);
  return part;
}

// What a writer needs of an environment's details: not the machine's kernel, hashes and buffers.
std::vector<std::string> useful_details(const environment& e) {
  static constexpr std::string_view useless[] = {"flags ", "flush ", "Linux ", "governor "};
  std::vector<std::string> items;
  for (std::size_t at = 0; at < e.details.size();) {
    const auto end = std::min(e.details.find(", ", at), e.details.size());
    const auto item = e.details.substr(at, end - at);
    if (std::ranges::none_of(useless, [&](auto word) { return item.starts_with(word); })) items.push_back(item);
    at = end + 2;
  }
  return items;
}

double reference_time(const std::vector<const std::vector<exemplar>*>& lists) {
  for (const auto* list : lists)
    for (const auto& e : *list)
      if (e.known.similarity >= 1 && e.known.result.reference_us > 0) return e.known.result.reference_us;
  return 0;
}

std::vector<shown_variant> all_shown(const std::vector<exemplar>& variants, const std::optional<roofline>& roof) {
  std::vector<shown_variant> out;
  out.reserve(variants.size());
  for (const auto& e : variants)
    out.push_back(shown(e, roof));
  return out;
}

}  // namespace

expected<std::optional<std::string>> source_of(const task& t, const std::string& blobs_folder) {
  if (!t.origin || t.origin->source.empty()) return std::nullopt;
  auto text = read_blob(blobs_folder, t.origin->source);
  // A node may lack it: only weights are needed to run a task. The task's program says the same.
  if (!text && text.error().code == errc::not_found) return std::nullopt;
  if (!text) return tl::unexpected(std::move(text).error());
  return std::optional(std::move(*text));
}

expected<document_sources> gather_sources(const prompt& p, answer_form form, const std::string& blobs_folder,
                                          std::shared_ptr<const example_library> library) {
  document_sources from;
  from.form = form;
  CUDAL1_TRY(from.source, source_of(*p.what, blobs_folder));
  CUDAL1_TRY(from.device, find_device_data(p.where.model));
  from.library = std::move(library);
  return from;
}

expected<std::map<std::string, counter_profile>> counters_of(const prompt& p, const std::string& folder) {
  std::map<std::string, counter_profile> found;
  for (const auto& e : p.exemplars) {
    CUDAL1_TRY(auto kept, kept_counters(folder, e.id(), e.known.result.environment_id));
    if (kept) found.emplace(e.id(), std::move(*kept));
  }
  return found;
}

expected<prompt_document> build_document(const prompt& p, const document_sources& from) {
  const task& t = *p.what;
  CUDAL1_TRY(const auto* guide, guide_of(p.target->name()));
  prompt_document d;
  d.form = from.form;
  d.what = part_of(t, from);
  d.where = {guide->target, p.where.model, useful_details(p.where), from.device};
  d.bounds = bounds_of(t, from.device);
  d.bounds.reference_us = reference_time({&p.exemplars, &p.failed, &p.repair});
  d.exemplars = all_shown(p.exemplars, d.bounds.roof);
  for (auto& v : d.exemplars)
    if (const auto at = from.counters.find(v.id); at != from.counters.end()) v.counters = counter_lines(at->second);
  d.failed = all_shown(p.failed, d.bounds.roof);
  d.repair = all_shown(p.repair, d.bounds.roof);
  d.analysis = analyse(t, p.exemplars, p.failed, d.bounds);
  if (d.form == answer_form::tile) {
    add_frames(t, d);
    if (from.library) add_tile_examples(t, *from.library, d);
    for (auto* list : {&d.exemplars, &d.failed, &d.repair})
      for (auto& v : *list)
        v.program = as_tile_text(v.program, t);
  } else if (d.form == answer_form::program) {
    if (from.library) add_examples(t, *from.library, d);
    add_operators(t, d);
  }
  if (d.form != answer_form::schedule) {
    for (const auto& f : p.files)
      d.files.push_back({f.name, f.language, f.source, f.speedup, f.speedup_interval});
  } else {
    add_moves(t, *p.target, d);
  }
  return d;
}

}  // namespace cudal1
