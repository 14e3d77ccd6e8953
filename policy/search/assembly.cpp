#include "policy/search/assembly.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <spdlog/spdlog.h>

#include "config/base/describe.hpp"
#include "policy/moves/move_registry.hpp"
#include "policy/search/starting_schedules.hpp"

namespace cudal1 {

namespace {

// A part's schedule, applied to the whole: steps and groups have other numbers there. What is not legal there is left
// out: a proof that was applied before, for example.
class carried_part {
 public:
  carried_part(const task_part& part, schedule_builder& whole)
      : part_(&part), own_(part.what, whole.target()), whole_(&whole) {}

  // Returns how many of its moves are left out. Proofs, which the whole has already, do not count.
  int64_t add(const schedule& plan) {
    int64_t left_out = 0;
    for (const auto& m : plan.moves) {
      const move_kind* kind = find_move(m.name);
      if (kind != nullptr && kind->phase == move_phase::execution) continue;
      if (!add(m) && (kind == nullptr || kind->phase != move_phase::always)) ++left_out;
    }
    return left_out;
  }

 private:
  bool add(const move& m) {
    const std::size_t own_before = own_.state().groups().size(), before = whole_->state().groups().size();
    if (!own_.add(m)) return false;
    const auto there = translated(m);
    const bool added = there && whole_->add(*there);
    const bool made_here = own_.state().groups().size() > own_before;
    if (made_here && added && whole_->state().groups().size() > before)
      groups_[static_cast<int64_t>(own_before)] = static_cast<int64_t>(before);
    return added;
  }

  std::optional<move> translated(const move& m) const {
    move out = m;
    for (auto& [name, value] : out.parameters) {
      if (name == "step" || name == "steps") {
        auto steps = parse_steps(value);
        if (!steps) return std::nullopt;
        for (int& n : *steps)
          n = part_->steps.at(static_cast<std::size_t>(n));
        value = print_steps(*steps);
      } else if (name == "group") {
        const auto found = groups_.find(std::stoll(value));
        if (found == groups_.end()) return std::nullopt;
        value = std::to_string(found->second);
      }
    }
    return out;
  }

  const task_part* part_;
  schedule_builder own_;
  schedule_builder* whole_;
  std::map<int64_t, int64_t> groups_;  // of the part -> of the whole
};

// ---- choosing among the partitions ----------------------------------------------------------------------------------

constexpr const char* assembled_origin = "parts";  // in traces
constexpr const char* cheapest_parts = "the cheapest parts";
constexpr double not_known = std::numeric_limits<double>::infinity();

struct chosen_part {
  const task_part* part = nullptr;
  std::optional<known_part> known;
};
using choice = std::vector<chosen_part>;

double cost_of(const choice& parts) {
  double sum = 0;
  for (const auto& p : parts)
    sum += p.known ? p.known->best_us() : not_known;
  return sum;
}

// The steps that some partition has in one part, so that they must be cut in one way: the blocks of the finest
// partition that is coarser than all of them.
class blocks {
 public:
  explicit blocks(const task_partitions& all) {
    for (const auto& way : all.ways)
      for (const auto& part : way.parts)
        for (const int step : part.covers)
          join(part.covers.front(), step);
  }
  int find(int n) {
    parent_.try_emplace(n, n);
    while (parent_[n] != n)
      n = parent_[n] = parent_[parent_[n]];
    return n;
  }

 private:
  void join(int a, int b) { parent_[find(a)] = find(b); }
  std::map<int, int> parent_;
};

// How one partition cuts one block.
struct cut_block {
  choice parts;
  bool is_whole = true;  // else some of its steps are in no part
  double cost() const { return is_whole ? cost_of(parts) : not_known; }
};
using cut_blocks = std::map<int, cut_block>;

std::vector<cut_blocks> blocks_by_way(const task_partitions& all, const known_parts& known) {
  blocks of(all);
  std::vector<cut_blocks> out;
  for (const auto& way : all.ways) {
    auto& here = out.emplace_back();
    for (const auto& part : way.parts) {
      const auto found = known.find(part.what.id);
      here[of.find(part.covers.front())].parts.push_back(
          {&part, found == known.end() ? std::nullopt : std::optional(found->second)});
    }
    for (const auto& [step, why] : way.apart)
      here[of.find(step)].is_whole = false;
  }
  return out;
}

// Of each block the cheapest way; where no way is known as a whole, the first.
choice cheapest(const std::vector<cut_blocks>& ways) {
  std::map<int, const cut_block*> best;
  for (const auto& way : ways)
    for (const auto& [block, cut] : way) {
      const cut_block*& now = best[block];
      if (now == nullptr || cut.cost() < now->cost()) now = &cut;
    }
  choice out;
  for (const auto& [block, cut] : best)
    out.insert(out.end(), cut->parts.begin(), cut->parts.end());
  return out;
}

bool has_move(const schedule& s, const char* name) {
  return std::ranges::count(s.moves, name, &move::name) > 0;
}

// The moves before the proofs.
std::vector<move> preparation_of(const task_partitions& p) {
  std::vector<move> out = p.proofs.moves;
  std::erase_if(out, [](const move& m) { return find_move(m.name)->phase != move_phase::preparation; });
  return out;
}

// How long the step takes alone: not_known where it was not measured, or is no part.
double time_of_step(const task_partitions& p, int step, const known_parts& known) {
  for (const auto& way : p.ways)
    for (const auto& part : way.parts) {
      if (part.covers != std::vector{step}) continue;
      const auto found = known.find(part.what.id);
      if (found != known.end()) return found->second.best_us();
    }
  return not_known;
}

// Kernels of steps that are in no part, and so were not decided upon.
void group_the_rest(schedule_builder& whole, const std::set<int>& rest) {
  const auto is_rest = [&](const move& m) {
    if (m.parameters.size() != 1 || m.parameters.front().first != "steps") return false;
    const auto steps = parse_steps(m.parameters.front().second);
    return steps && std::ranges::all_of(*steps, [&](int n) { return rest.contains(n); });
  };
  for (const move_kind* kind : moves_of(move_phase::grouping))
    for (const auto& m : kind->candidates(whole.state(), whole.target()))
      if (is_rest(m)) whole.add(m);
}

assembled_schedule assembled_from(const task& t, const lowering_target& target, const task_partitions& all,
                                  choice parts, std::string name) {
  std::ranges::sort(parts, {}, [](const auto& p) { return p.part->steps.front(); });
  schedule_builder whole = repaired(t, target, all.proofs.moves);
  assembled_schedule out;
  out.name = std::move(name);
  std::set<int> rest(all.replaced.begin(), all.replaced.end());
  for (const auto& way : all.ways) {
    for (const auto& part : way.parts)
      rest.insert(part.covers.begin(), part.covers.end());
    for (const auto& [step, why] : way.apart)
      rest.insert(step);
  }
  for (const auto& p : parts)
    for (const int step : p.part->covers)
      rest.erase(step);
  out.parts = std::ssize(parts) + std::ssize(rest);
  for (const auto& p : parts) {
    if (p.known) {
      ++out.measured;
      out.predicted_us += p.known->best_us();
      out.own_us += p.known->reference_us;
      if (p.known->is_improved()) out.left_out += carried_part(*p.part, whole).add(p.known->plan);
    } else if (const auto first = whole_schedules(p.part->what, target); !first.empty()) {
      out.left_out += carried_part(*p.part, whole).add(first.front());
    }
  }
  group_the_rest(whole, rest);
  for (const move_kind* kind : moves_of(move_phase::execution))
    whole.add_all(*kind);
  out.plan = whole.moves();
  if (const auto result = whole.lowered_program()) out.program = program_id(*result);
  return out;
}

// The largest error of a variant relative to that of the reference, over all draws and outputs.
double error_ratio(const verdict& v) {
  double worst = 0;
  for (const auto& draw : v.checks)
    for (const auto& o : draw.outputs)
      if (o.error > 0)
        worst = std::max(worst, o.error / std::max(o.reference_error, std::numeric_limits<double>::min()));
  return worst;
}

// ---- what is known of the parts -------------------------------------------------------------------------------------

// What the verdicts of one part in a class of environments say.
class part_reader {
 public:
  part_reader(store& records, std::string environment_class)
      : records_(&records), wanted_(std::move(environment_class)) {}

  expected<std::optional<store::ranked>> best(const task& part) {
    CUDAL1_TRY(auto all, ranked(part, store::ranking::all));
    if (all.empty()) return std::optional<store::ranked>();
    // Small parts differ less in call time than on the device, where the whole has no gaps between them. The least of
    // many measurements is biased, so that one which was confirmed may be a little slower.
    const auto share = [](const store::ranked& r) {
      const auto times = compared_times_of(r.result);
      const double of_reference = times.on_device ? times.variant_us / times.reference_us : not_known;
      return r.result.confirmed ? of_reference : of_reference * unconfirmed_handicap;
    };
    const auto fastest = std::ranges::min_element(all, {}, share);
    if (share(*fastest) < not_known) return std::optional(std::move(*fastest));
    CUDAL1_TRY(auto confirmed, ranked(part, store::ranking::confirmed));
    return std::optional(std::move(confirmed.empty() ? all.front() : confirmed.front()));
  }

 private:
  static constexpr std::size_t looked_at = 64;  // some are of other devices, or written as programs
  static constexpr double unconfirmed_handicap = 1.03;

  // The best variants in the class of environments that a schedule made, or that are the part's own program.
  expected<std::vector<store::ranked>> ranked(const task& part, store::ranking among) {
    std::vector<store::ranked> out;
    CUDAL1_TRY(auto best, records_->best(part.id, looked_at, among));
    for (auto& b : best) {
      if (b.variant.schedule.empty() && b.variant.id != part.reference.id) continue;
      CUDAL1_TRY(const bool fits, is_in_class(b.result.environment_id));
      if (fits) out.push_back(std::move(b));
    }
    return out;
  }

  expected<bool> is_in_class(const std::string& environment_id) {
    auto& in_class = classes_[environment_id];
    if (in_class.empty()) {
      CUDAL1_TRY(const auto where, records_->get_environment(environment_id));
      in_class = environment_class(where);
    }
    return in_class == wanted_;
  }

  store* records_;
  std::string wanted_;
  std::map<std::string, std::string> classes_;  // of environments, by id
};

}  // namespace

compared_times compared_times_of(const measured_score& m) {
  if (m.variant_warm_us > 0 && m.reference_warm_us > 0) return {m.variant_warm_us, m.reference_warm_us, true};
  if (m.variant_device_us > 0 && m.reference_device_us > 0) return {m.variant_device_us, m.reference_device_us, true};
  return {m.variant_us, m.reference_us, false};
}

json trace_of(const assembled_schedule& s) {
  return to_json(assembled_trace{assembled_origin, s.name, s.predicted_us, s.own_us, s.parts, s.measured, s.left_out});
}

std::optional<assembled_trace> assembled_trace_of(const json& trace) {
  assembled_trace out;
  if (!trace.is_object() || !from_json(trace, out) || out.origin != assembled_origin) return std::nullopt;
  return out;
}

expected<std::optional<store::ranked>> best_variant_of_part(store& records, const task& part,
                                                            const std::string& environment_class) {
  return part_reader(records, environment_class).best(part);
}

expected<known_parts> known_parts_of(store& records, const task_partitions& parts,
                                     const std::string& environment_class) {
  known_parts out;
  part_reader reader(records, environment_class);
  for (const task* part : distinct_tasks(parts)) {
    CUDAL1_TRY(const auto best, reader.best(*part));
    if (!best) continue;
    auto plan = parse_schedule(best->variant.schedule);
    if (!plan) {
      spdlog::warn("variant {} of a part is left out: {}", best->variant.id, plan.error().message);
      continue;
    }
    const auto times = compared_times_of(best->result);
    known_part known{std::move(*plan), times.variant_us, times.reference_us, best->variant.id};
    // Call times alone: nothing faster was confirmed, and what is known is the time of its own program.
    if (!times.on_device && !best->result.confirmed) known.variant_us = known.reference_us;
    out[part->id] = std::move(known);
  }
  return out;
}

std::vector<assembled_schedule> assemble(const task& t, const lowering_target& target, const task_partitions& parts,
                                         const known_parts& known) {
  const auto ways = blocks_by_way(parts, known);
  std::vector<assembled_schedule> out;
  std::set<std::string> programs;
  const auto add = [&](choice chosen, const std::string& name) {
    if (std::ranges::none_of(chosen, [](const auto& p) { return p.known.has_value(); })) return;
    auto whole = assembled_from(t, target, parts, std::move(chosen), name);
    if (!whole.program.empty() && programs.insert(whole.program).second) out.push_back(std::move(whole));
  };
  add(cheapest(ways), cheapest_parts);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    choice all;
    for (const auto& [block, cut] : ways[i])
      all.insert(all.end(), cut.parts.begin(), cut.parts.end());
    add(std::move(all), parts.ways[i].name);
  }
  return out;
}

std::vector<move> mixed_preparation(const task& t, const lowering_target& target, const task_partitions& own,
                                    const task_partitions& last, const known_parts& known) {
  auto out = preparation_of(own);
  const auto steps = convolutions_after(t, target, out);
  const auto steps_last = convolutions_after(t, target, preparation_of(last));
  std::vector<int> faster;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (time_of_step(last, steps_last.at(i), known) < time_of_step(own, steps[i], known)) faster.push_back(steps[i]);
  if (faster.empty() || faster.size() == steps.size()) return {};
  out.push_back({"channels_last", {{"steps", print_steps(faster)}}});
  return out;
}

expected<task_assembly> task_assembly::make(const task& t, const lowering_target& target, store& records,
                                            std::string environment_class) {
  task_assembly out(t, target);
  out.class_ = std::move(environment_class);
  out.layouts_ = partitions_by_layout(t, target);
  for (const auto& layout : out.layouts_)
    CUDAL1_CHECK(out.read_parts(records, layout));
  if (auto mixed = out.mixed_layout()) {
    CUDAL1_CHECK(out.read_parts(records, *mixed));
    out.layouts_.push_back(std::move(*mixed));
  }
  out.assemble_layouts();
  out.more_accurate_ = out.known_;
  return out;
}

expected<void> task_assembly::read_parts(store& records, const task_partitions& layout) {
  CUDAL1_TRY(known_parts known, known_parts_of(records, layout, class_));
  known_.merge(known);
  return {};
}

// With the channels last for the convolutions alone that are known to be faster so; nothing where these are all or
// none.
std::optional<task_partitions> task_assembly::mixed_layout() const {
  const auto own = preparation_of(layouts_.front());
  const auto last = std::ranges::find_if(layouts_, [&](const task_partitions& layout) {
    auto moves = preparation_of(layout);
    return std::erase_if(moves, [](const move& m) { return m.name == "channels_last"; }) > 0 && moves == own;
  });
  if (last == layouts_.end()) return std::nullopt;
  const auto preparation = mixed_preparation(*task_, *target_, layouts_.front(), *last, known_);
  if (preparation.empty()) return std::nullopt;
  return partitions_of(*task_, *target_, preparation);
}

// First those of the layout with the least sum of times; of layouts with parts that are not known, of the first.
void task_assembly::assemble_layouts() {
  std::vector<std::vector<assembled_schedule>> found;
  double least = not_known;
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    found.push_back(assemble(*task_, *target_, layouts_[i], known_));
    const double cost = cost_of(cheapest(blocks_by_way(layouts_[i], known_)));
    if (cost < least) {
      least = cost;
      chosen_ = i;
    }
  }
  std::swap(found.front(), found[chosen_]);
  std::set<std::string> programs;
  for (auto& each : found)
    for (auto& s : each) {
      for (const auto& [name, words] : {std::pair("channels_last", ", channels last"),
                                        {"join_layers", ", layers joined"},
                                        {"flip_weights", ", weights flipped"},
                                        {"convolve_phases", ", by phases"},
                                        {"compose_means", ", means composed"},
                                        {"drop_unit_dimensions", ", unit dimensions dropped"},
                                        {"multiply_unit_kernels", ", unit kernels multiplied"}})
        if (has_move(s.plan, name)) s.name += words;
      if (programs.insert(s.program).second) schedules_.push_back(std::move(s));
    }
}

expected<std::vector<std::string>> task_assembly::by_accuracy(store& records) const {
  std::multimap<double, std::string> order;
  std::set<std::string> seen;
  for (const auto& p : cheapest(blocks_by_way(layouts_[chosen_], known_))) {
    if (!p.known || !p.known->is_improved() || !seen.insert(p.part->what.id).second) continue;
    CUDAL1_TRY(const auto v, records.verdict_in_class(p.part->what.id, p.known->variant, class_));
    order.emplace(v ? error_ratio(*v) : 0, p.part->what.id);
  }
  std::vector<std::string> out;
  for (const auto& [error, part] : order)
    out.push_back(part);
  return out;
}

expected<void> task_assembly::follow_wrong_answers(store& records, const std::string& experiment) {
  if (left_ && left_->empty()) return {};
  if (schedules_.empty() || !schedules_.front().name.starts_with(cheapest_parts)) return {};
  CUDAL1_TRY(const auto verdicts, records.verdicts_in_experiment(experiment, task_->id, schedules_[latest_].program));
  if (verdicts.empty()) return {};
  if (std::ranges::none_of(verdicts, [](const auto& v) { return v.result == outcome::wrong_answer; })) {
    left_.emplace();  // its verdict is final: nothing is to be replaced
    return {};
  }
  if (!left_) {
    CUDAL1_TRY(left_, by_accuracy(records));
  }
  if (left_->empty()) return {};
  more_accurate_.at(left_->back()).variant_us = not_known;
  left_->pop_back();
  // The same cut: what is replaced is the kernels of a part, not the part.
  auto chosen = cheapest(blocks_by_way(layouts_[chosen_], known_));
  for (auto& p : chosen)
    if (p.known) p.known = more_accurate_.at(p.part->what.id);
  auto next = assembled_from(*task_, *target_, layouts_[chosen_], std::move(chosen),
                             "the cheapest parts, with some own programs");
  latest_ = schedules_.size();
  schedules_.push_back(std::move(next));
  return {};
}

}  // namespace cudal1
