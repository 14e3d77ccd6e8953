#include "actors/experiment/prompt_source.hpp"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "actors/agent/machine_devices.hpp"
#include "config/base/wall_clock.hpp"
#include "config/device_data.hpp"
#include "policy/prompt/performance_analysis.hpp"

namespace cudal1 {

namespace {

// Adds an exemplar, unless its schedule cannot be read (of another version).
void add(std::vector<exemplar>& to, stored_exemplar known) {
  const std::string id = known.variant.id;
  auto e = exemplar_of(std::move(known));
  if (e)
    to.push_back(std::move(*e));
  else
    spdlog::warn("generator: variant {} is no exemplar: {}", id, e.error().message);
}

}  // namespace

expected<prompt_source::made> prompt_source::make(const message::propose& m, policy& writer) {
  const policy_traits traits = writer.traits();
  prompt p;
  p.what = m.what.value;
  CUDAL1_TRY(const lowering_target* target, lowering_target_of(m.device));
  p.target = &target->limited_to(where_.details);
  p.where = where_;
  p.tensor_bytes = tensor_bytes_;
  p.is_tried = [records = records_, experiment = m.experiment, task = m.what->id](const std::string& id) {
    const auto found = records->has_attempt(experiment, task, id);
    // Reserving an attempt repeats the query, and returns the error.
    if (!found) spdlog::error("generator: {}", found.error().message);
    return found.value_or(false);
  };
  if (!m.group.empty()) {
    CUDAL1_TRY(auto group, records_->get_group(m.group));
    p.resumed = true;
    return stored(std::move(p), std::move(group));
  }
  p.seed = m.seed;
  if (!traits.models.empty()) p.model = traits.models[static_cast<std::size_t>(m.turn) % traits.models.size()];
  made out;
  if (!replayed_.empty()) {
    CUDAL1_TRY(auto before, next_replayed(m));
    CUDAL1_TRY(out, stored(std::move(p), std::move(before)));
    out.group.id.clear();
  } else {
    CUDAL1_CHECK(add_assembled(p, m.experiment));
    if (m.repair.empty())
      CUDAL1_CHECK(add_exemplars(p, m, traits.exemplars));
    else
      CUDAL1_CHECK(add_repair(p, m));
    CUDAL1_TRY(p.document, writer.document_of(p));
    if (p.document.empty()) out.analysis = analysis_of(p);
    for (const auto& e : p.exemplars)
      out.group.exemplars.push_back(e.id());
    out.group.island = p.island;
    out.group.model = p.model;
    out.group.repairs = m.repair;
    out.group.round = m.round;
    out.group.seed = p.seed;
    out.what = std::move(p);
    if (!out.what.document.empty()) {
      CUDAL1_TRY(out.group.prompt, files_.put(out.what.document, ".prompt.json"));
    }
  }
  out.group.experiment = m.experiment;
  out.group.task = m.what->id;
  out.group.policy = writer.name();
  out.group.policy_version = writer.version();
  out.group.asked = m.count;
  out.group.time_unix_ms = unix_ms();
  out.group.closed = false;
  out.group.cost = {};
  return out;
}

expected<void> prompt_source::add_assembled(prompt& p, const std::string& experiment) {
  if (!uses_parts_) return {};
  auto found = assembled_.find(p.what->id);
  if (found == assembled_.end()) {
    CUDAL1_TRY(auto made, task_assembly::make(*p.what, *p.target, *records_, environment_class(where_)));
    found = assembled_.emplace(p.what->id, assembled_task{p.what, std::move(made)}).first;
  }
  auto& assembly = found->second.assembly;
  CUDAL1_CHECK(assembly.follow_wrong_answers(*records_, experiment));
  p.assembled = assembly.schedules();
  return {};
}

expected<void> prompt_source::add_exemplars(prompt& p, const message::propose& m, const exemplar_wish& wish) const {
  if (wish.best_of_experiment > 0) {
    CUDAL1_TRY(const auto best, records_->best(m.what->id, static_cast<std::size_t>(wish.best_of_experiment),
                                               store::ranking::all, m.experiment));
    for (const auto& b : best)
      add(p.exemplars, {b.variant, b.result, 1});
  }
  if (wish.sample.correct == 0 && wish.sample.failed == 0) return {};
  exemplar_query q = wish.sample;
  q.task = m.what->id;
  q.environment_class = environment_class(where_);
  q.seed = m.seed;
  CUDAL1_TRY(auto drawn, records_->sample_exemplars(q));
  p.island = drawn.island;
  for (auto& e : drawn.correct)
    add(p.exemplars, std::move(e));
  for (auto& e : drawn.failed)
    add(p.failed, std::move(e));
  return show_files(p, *records_);
}

std::string prompt_source::analysis_of(const prompt& p) {
  if (p.exemplars.empty() && p.failed.empty()) return "";
  auto found = bounds_.find(p.what->id);
  if (found == bounds_.end()) {
    const auto device = find_device_data(where_.model);
    found = bounds_.emplace(p.what->id, bounds_of(*p.what, device.value_or(std::nullopt))).first;
  }
  return sentences(analyse(*p.what, p.exemplars, p.failed, found->second));
}

// The variant, and those that it repaired in turn.
expected<void> prompt_source::add_repair(prompt& p, const message::propose& m) const {
  for (std::string id = m.repair; !id.empty();) {
    CUDAL1_TRY(auto variant, records_->get_variant(id));
    CUDAL1_TRY(const auto verdicts, records_->verdicts_of_variant(id));
    id = variant.repairs;
    if (!verdicts.empty()) add(p.repair, {std::move(variant), verdicts.back(), 1});
    if (p.repair.size() == most_repairs) break;
  }
  std::ranges::reverse(p.repair);
  if (p.repair.empty()) return fail(errc::not_found, "variant {}, which should be repaired, has no verdict", m.repair);
  return {};
}

// The variants that a prompt without a document showed.
expected<void> prompt_source::add_shown(prompt& p, const group_record& group) const {
  for (const auto& id : group.exemplars) {
    auto variant = records_->get_variant(id);
    if (!variant && variant.error().code == errc::not_found) continue;  // pruned since
    if (!variant) return tl::unexpected(std::move(variant).error());
    CUDAL1_TRY(const auto verdicts, records_->verdicts_in_experiment(group.experiment, group.task, id));
    if (!verdicts.empty()) {
      add(p.exemplars, {std::move(*variant), verdicts.back(), 1});
      continue;
    }
    // Drawn from another experiment.
    CUDAL1_TRY(auto elsewhere, records_->verdict_in_class(group.task, id, environment_class(where_)));
    if (elsewhere) add(p.exemplars, {std::move(*variant), std::move(*elsewhere), 1});
  }
  return {};
}

expected<prompt_source::made> prompt_source::stored(prompt p, group_record group) const {
  if (!group.prompt.empty()) {
    CUDAL1_TRY(p.document, files_.get(group.prompt));
  } else {
    CUDAL1_CHECK(add_shown(p, group));
  }
  p.model = group.model;
  p.seed = group.seed;
  p.island = group.island;
  return made{std::move(p), std::move(group), ""};
}

expected<group_record> prompt_source::next_replayed(const message::propose& m) {
  if (!replayed_groups_) {
    CUDAL1_TRY(auto all, records_->groups_of_experiment(replayed_));
    auto& by_task = replayed_groups_.emplace();
    for (auto& g : all)
      by_task[g.task].push_back(std::move(g));
  }
  const auto& groups = (*replayed_groups_)[m.what->id];
  const auto turn = static_cast<std::size_t>(m.turn);
  if (turn < groups.size()) return groups[turn];
  return fail(errc::not_found, "experiment {}, which is replayed, has no further prompt for this task", replayed_);
}

}  // namespace cudal1
