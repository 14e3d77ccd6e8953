#include "store/attempt_changes.hpp"

#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "config/base/utf8.hpp"
#include "config/base/wall_clock.hpp"
#include "store/encoding.hpp"
#include "store/group_records.hpp"
#include "store/queries.hpp"
#include "store/ranking_scopes.hpp"
#include "store/records.hpp"
#include "store/verdict_records.hpp"

namespace cudal1 {

namespace {

constexpr int device_losses_allowed = 2;
// A variant that never gets to a verdict, for whatever reason, must not be tried for ever.
constexpr int losses_allowed = 20;

// The text of a verdict's event.
std::string summary(const verdict& v) {
  if (v.result != outcome::correct) return fmt::format("{}: {}", enum_name(v.result), v.reason);
  return fmt::format("{:.3f}x ({:.3f} to {:.3f}){}", v.score, v.score_interval.low, v.score_interval.high,
                     v.confirmed ? ", confirmed" : "");
}

std::string key_of(const attempt_record& a) {
  return keys::attempt(a.experiment, a.task, a.variant, a.number);
}

// An attempt at a variant that has no verdict.
std::vector<put> unfinished(const attempt_record& a) {
  std::string record = encode(a);
  return {{family::attempts, key_of(a), record},
          {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::move(record)}};
}

event_record event_of(const attempt_record& a, const char* kind, std::string text) {
  return {0, unix_ms(), kind, a.experiment, a.task, a.variant, std::move(text)};
}

expected<void> check_variant(const variant_record& v) {
  if (v.id.empty() || v.id.find('\0') != std::string::npos || v.task.empty())
    return fail(errc::invalid_argument, "a variant needs its id and its task's (id \"{}\", task \"{}\")", v.id, v.task);
  if (!is_valid_utf8(v.program))
    return fail(errc::invalid_argument, "the program of variant {} is not UTF-8 text", short_id(v.id));
  return {};
}

error never_reserved(const attempt_record& a) {
  return {errc::not_found, fmt::format("attempt {} at variant {} was never reserved in experiment {}", a.number,
                                       short_id(a.variant), a.experiment)};
}

// Whether earlier attempts allow another one.
expected<void> check_earlier(const std::vector<attempt_record>& earlier, const variant_record& v,
                             const std::string& experiment) {
  int lost = 0, lost_on_device = 0;
  std::string notes;
  for (const auto& a : earlier) {
    if (a.state == attempt_state::leased)
      return fail(errc::already_exists, "variant {} has attempt {} under way in experiment {}", short_id(v.id),
                  a.number, experiment);
    if (a.state != attempt_state::lost) continue;
    ++lost;
    if (a.on_device) ++lost_on_device;
    notes += (notes.empty() ? "" : "; ") + a.note;
  }
  if (lost_on_device >= device_losses_allowed || lost >= losses_allowed)
    return fail(errc::variant_fault, "variant {} lost {} attempts in experiment {} ({}): quarantine it", short_id(v.id),
                lost, experiment, notes);
  return {};
}

}  // namespace

bool same_attempt(const attempt_record& a, const attempt_record& b) {
  return a.experiment == b.experiment && a.task == b.task && a.variant == b.variant && a.number == b.number;
}

std::string attempt_name(const attempt_record& a) {
  return fmt::format("{}/{}/{}/{}", a.experiment, a.task.substr(0, 12), a.variant.substr(0, 12), a.number);
}

// ---- environments -------------------------------------------------------------------------------------------------

expected<std::string> stored_environments::class_of(const record_source& from, const environment& where,
                                                    std::vector<put>& puts) {
  if (where.id.empty()) return environment_class(where);
  const std::lock_guard lock(mutex_);
  if (const auto known = classes_.find(where.id); known != classes_.end()) return known->second;
  CUDAL1_TRY(const auto stored_value, from.get(family::environments, where.id));
  if (stored_value) return classes_[where.id] = environment_class(where);
  puts.push_back({family::environments, where.id, encode(where)});
  return environment_class(where);
}

void stored_environments::forget() {
  const std::lock_guard lock(mutex_);
  classes_.clear();
}

// ---- changes ------------------------------------------------------------------------------------------------------

void attempt_changes::add(std::vector<put> puts) {
  for (auto& p : puts)
    made_.add(std::move(p));
  ++count_;
}

void attempt_changes::add(std::vector<put> puts, event_record event) {
  add(std::move(puts));
  events_.push_back(std::move(event));
}

expected<attempt_record> attempt_changes::reserve(const variant_record& v, const std::string& experiment) {
  CUDAL1_CHECK(check_variant(v));
  CUDAL1_TRY(const auto earlier, attempts_at(experiment, v.task, v.id));
  if (!earlier.empty()) {
    CUDAL1_TRY(const bool judged, any_record(made_, family::results, keys::verdicts_of(v.task, experiment, v.id)));
    if (judged)
      return fail(errc::already_exists, "variant {} has a verdict in experiment {}", short_id(v.id), experiment);
  }
  CUDAL1_CHECK(check_earlier(earlier, v, experiment));
  attempt_record a{experiment, v.task,   v.id, earlier.empty() ? 1 : earlier.back().number + 1, attempt_state::leased,
                   "",         unix_ms()};
  variant_record kept = v;
  kept.experiment = experiment;
  if (kept.time_unix_ms == 0) kept.time_unix_ms = a.time_unix_ms;
  std::vector<put> puts = unfinished(a);
  // The program, most of the record, is kept once, with the variant's first use.
  CUDAL1_TRY(const auto first, made_.get(family::variants, keys::variant(v.id)));
  if (!first) puts.push_back({family::variants, keys::variant(v.id), encode(kept)});
  kept.program.clear();
  puts.push_back({family::variants, keys::variant_use(v.id, v.task, experiment), encode(kept)});
  write_batch grouped(made_);
  CUDAL1_CHECK(add_to_group(grouped, kept, experiment));
  std::ranges::move(grouped.take(), std::back_inserter(puts));
  add(std::move(puts));
  leases_.insert_or_assign(key_of(a), attempt_lease{a, v.island});
  return a;
}

// The variant and its group are kept already.
expected<attempt_record> attempt_changes::reserve_again(const variant_record& v, const std::string& experiment) {
  CUDAL1_CHECK(check_variant(v));
  CUDAL1_TRY(const auto earlier, attempts_at(experiment, v.task, v.id));
  if (earlier.empty())
    return fail(errc::not_found, "variant {} has no attempt in experiment {}", short_id(v.id), experiment);
  CUDAL1_CHECK(check_earlier(earlier, v, experiment));
  attempt_record a{experiment, v.task, v.id, earlier.back().number + 1, attempt_state::leased, "", unix_ms()};
  add(unfinished(a));
  leases_.insert_or_assign(key_of(a), attempt_lease{a, v.island});
  return a;
}

expected<std::optional<attempt_record>> attempt_changes::find_attempt(const attempt_record& a) {
  if (const auto known = leases_.find(key_of(a)); known != leases_.end()) return std::optional(known->second.attempt);
  return read_record<attempt_record>(made_, made_.on_disk(), family::attempts, key_of(a), short_id(a.variant));
}

expected<int64_t> attempt_changes::island_of(const attempt_record& a) {
  if (const auto known = leases_.find(key_of(a)); known != leases_.end()) return known->second.island;
  CUDAL1_TRY(const auto use, load_use(made_, made_.on_disk(), {a.variant, a.experiment, a.task, a.number}));
  return use.island;
}

expected<void> attempt_changes::lose(const attempt_record& a, const std::string& note, loss where) {
  CUDAL1_TRY(auto stored, find_attempt(a));
  if (!stored) return tl::unexpected(never_reserved(a));
  leases_.erase(key_of(a));
  if (stored->state != attempt_state::leased)
    return {};  // it has ended already: the verdict, or the first loss, is kept
  if (where == loss::unrecorded) return end_unrecorded(std::move(*stored), note);
  stored->state = where == loss::withdrawn ? attempt_state::withdrawn : attempt_state::lost;
  stored->note = note;
  stored->on_device = where == loss::on_device;
  std::vector<put> puts = unfinished(*stored);
  if (where == loss::withdrawn) {
    add(std::move(puts), event_of(a, "withdrawn", note));
    return {};
  }
  CUDAL1_TRY(put tally, record_of_loss(made_, a.experiment, a.task));
  puts.push_back(std::move(tally));
  add(std::move(puts), event_of(a, "fault", fmt::format("attempt {} lost: {}", a.number, note)));
  return {};
}

// It is over: it is not repeated when the experiment is resumed.
expected<void> attempt_changes::end_unrecorded(attempt_record a, const std::string& note) {
  a.state = attempt_state::unrecorded;
  a.note = note;
  a.on_device = false;
  CUDAL1_TRY(put tally, record_of_unrecorded(made_, a.experiment, a.task));
  add({{family::attempts, key_of(a), encode(a)},
       {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::nullopt},
       std::move(tally)},
      event_of(a, "unrecorded", note));
  return {};
}

// Most variants have none: a query for the first, which RocksDB's filters answer, costs less than a scan, which reads a
// block of each table.
expected<std::vector<attempt_record>> attempt_changes::attempts_at(const std::string& experiment,
                                                                   const std::string& task,
                                                                   const std::string& variant) {
  CUDAL1_TRY(const auto first, made_.get(family::attempts, keys::attempt(experiment, task, variant, 1)));
  if (!first) return std::vector<attempt_record>();
  return read_records<attempt_record>(made_, made_.on_disk(), family::attempts,
                                      keys::attempts_of(experiment, task, variant));
}

// A quarantined verdict has no attempt of its own: it takes the number after the lost ones.
expected<int> attempt_changes::number_for_quarantine(const attempt_record& a) {
  CUDAL1_TRY(const auto earlier, attempts_at(a.experiment, a.task, a.variant));
  for (const auto& e : earlier)
    if (e.state == attempt_state::leased) return e.number;
  return earlier.empty() ? 1 : earlier.back().number + 1;
}

expected<std::optional<attempt_record>> attempt_changes::ended_by(const attempt_record& a, const verdict& v) {
  CUDAL1_TRY(auto stored, find_attempt(a));
  // While an attempt is leased there is no verdict.
  if (!stored || stored->state != attempt_state::leased) {
    CUDAL1_TRY(const bool judged,
               any_record(made_, family::results, keys::verdicts_of(a.task, a.experiment, a.variant)));
    if (judged) return std::optional<attempt_record>();
  }
  if (v.result == outcome::quarantined) {
    attempt_record quarantined = a;
    CUDAL1_TRY(quarantined.number, number_for_quarantine(a));
    return std::optional(std::move(quarantined));
  }
  if (!stored) return tl::unexpected(never_reserved(a));
  if (stored->state != attempt_state::leased && stored->state != attempt_state::finished)
    return fail(errc::cancelled, "attempt {} at variant {} was lost ({}): its verdict comes too late", a.number,
                short_id(a.variant), stored->note);
  return stored;
}

expected<void> attempt_changes::commit(const attempt_record& a, const verdict& v, const environment& where) {
  if (v.variant != a.variant || v.task != a.task)
    return fail(errc::invalid_argument, "the verdict of variant {} was committed to an attempt at {}",
                short_id(v.variant), short_id(a.variant));
  CUDAL1_TRY(auto ended, ended_by(a, v));
  if (!ended) return {};
  ended->state = attempt_state::finished;
  verdict kept = v;
  kept.attempt = ended->number;
  if (kept.time_unix_ms == 0) kept.time_unix_ms = unix_ms();
  if (kept.environment_id.empty()) kept.environment_id = where.id;
  std::vector<put> puts{{family::attempts, key_of(*ended), encode(*ended)},
                        {family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::nullopt}};
  CUDAL1_TRY(const std::string known_as, environments_.class_of(made_, where, puts));
  event_record event = event_of(a, "verdict", summary(kept));
  const keys::verdict_key key{a.variant, a.experiment, a.task, ended->number};
  CUDAL1_TRY(const int64_t island, island_of(*ended));
  write_batch records(made_);
  CUDAL1_CHECK(add_verdict(records, key, std::move(kept), known_as, island, scopes_of(where)));
  std::ranges::move(records.take(), std::back_inserter(puts));
  leases_.erase(key_of(*ended));
  add(std::move(puts), std::move(event));
  return {};
}

}  // namespace cudal1
