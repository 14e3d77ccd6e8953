#include "store/conversion.hpp"

#include <cmath>
#include <utility>

#include "store/conclusions.hpp"
#include "store/encoding.hpp"
#include "store/exemplar_index.hpp"
#include "store/records.hpp"
#include "store/store.hpp"
#include "store/verdict_records.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t records_per_batch = 2048;

expected<void> write_if_full(write_batch& batch) {
  return batch.size() < records_per_batch ? expected<void>() : batch.write();
}

expected<std::string> class_of(const record_source& from, const std::string& environment_id) {
  environment where;
  CUDAL1_TRY(const auto stored, from.get(family::environments, environment_id));
  if (stored) {
    CUDAL1_TRY(where, from_text<environment>(*stored));
  }
  return environment_class(where);
}

expected<void> convert_verdicts(const database& d, write_batch& batch) {
  return d.scan_alone("verdicts", [&](std::string_view key, std::string_view value) -> expected<bool> {
    const auto k = keys::parse_verdict_of_schema_1(key);
    auto v = from_text<verdict>(value);
    if (!k || !v)
      return tl::unexpected(
          d.damaged(family::results, k ? k->variant : "of a verdict", v ? "its key is malformed" : v.error().message));
    CUDAL1_TRY(const auto known_as, class_of(batch, v->environment_id));
    CUDAL1_CHECK(add_verdict(batch, *k, std::move(*v), known_as, no_island));
    CUDAL1_CHECK(write_if_full(batch));
    return true;
  });
}

// What the verdicts of schemas 2 and 3 lack: schema 2 had no index of exemplars, and neither of conclusions.
enum class missing_index { conclusions, conclusions_and_exemplars };
expected<void> index_verdicts(const database& d, write_batch& batch, missing_index missing) {
  return d.scan_alone("results", [&](std::string_view key, std::string_view value) -> expected<bool> {
    const auto k = keys::parse_verdict(key);
    const auto v = from_text<verdict>(value);
    if (!k || !v)
      return tl::unexpected(
          d.damaged(family::results, k ? k->variant : "of a verdict", v ? "its key is malformed" : v.error().message));
    if (v->result == outcome::correct && !(std::isfinite(v->score) && v->score > 0)) return true;
    CUDAL1_TRY(const auto known_as, class_of(batch, v->environment_id));
    CUDAL1_CHECK(index_conclusion(batch, *k, *v, known_as));
    CUDAL1_CHECK(write_if_full(batch));
    if (missing == missing_index::conclusions) return true;
    const exemplar_entry entry{k->experiment, k->attempt, v->result, v->score, v->confirmed, v->time_unix_ms};
    CUDAL1_CHECK(index_verdict(batch, {k->task, known_as}, k->variant, no_island, entry));
    CUDAL1_CHECK(write_if_full(batch));
    return true;
  });
}

expected<void> convert_attempts(const database& d, write_batch& batch) {
  return d.scan_alone("attempts", [&](std::string_view, std::string_view value) -> expected<bool> {
    CUDAL1_TRY(const auto a, decode_record<attempt_record>(d, family::attempts, value, "of an attempt"));
    if (a.state == attempt_state::finished) return true;
    if (a.state == attempt_state::lost) {
      CUDAL1_TRY(put tally, record_of_loss(batch, a.experiment, a.task));
      batch.add(std::move(tally));
    }
    CUDAL1_TRY(const bool is_judged,
               any_record(batch, family::results, keys::verdicts_of(a.task, a.experiment, a.variant)));
    if (!is_judged)
      batch.add({family::unfinished, keys::attempts_of(a.experiment, a.task, a.variant), std::string(value)});
    CUDAL1_CHECK(write_if_full(batch));
    return true;
  });
}

}  // namespace

expected<void> convert_store(database& d, int from) {
  write_batch batch(d);
  if (from == 1) {
    CUDAL1_CHECK(convert_verdicts(d, batch));
    CUDAL1_CHECK(convert_attempts(d, batch));
  } else {
    CUDAL1_CHECK(
        index_verdicts(d, batch, from == 2 ? missing_index::conclusions_and_exemplars : missing_index::conclusions));
  }
  return batch.write();
}

}  // namespace cudal1
