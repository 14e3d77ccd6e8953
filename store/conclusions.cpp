#include "store/conclusions.hpp"

#include <cmath>

#include "store/encoding.hpp"
#include "store/records.hpp"

namespace cudal1 {

bool is_conclusive(const verdict& v) {
  if (!v.reused_from.empty()) return false;
  switch (v.result) {
    case outcome::quarantined:
    case outcome::unmeasurable:
    case outcome::unexplained:
      return false;
    case outcome::correct:
      return std::isfinite(v.score) && v.score > 0;
    default:
      return true;
  }
}

expected<void> index_conclusion(write_batch& batch, const keys::verdict_key& key, const verdict& v,
                                const std::string& environment_class) {
  if (!is_conclusive(v)) return {};
  CUDAL1_TRY(const auto before, read_conclusion(batch, batch.on_disk(), key.task, environment_class, key.variant));
  if (before && before->time_unix_ms > v.time_unix_ms) return {};
  const conclusion_record now{key.experiment, key.attempt, v.time_unix_ms};
  batch.add({family::conclusions, keys::conclusion(key.task, environment_class, key.variant), encode(now)});
  return {};
}

expected<std::optional<conclusion_record>> read_conclusion(const record_source& from, const stored_records& on_disk,
                                                           const std::string& task,
                                                           const std::string& environment_class,
                                                           const std::string& variant) {
  return read_record<conclusion_record>(from, on_disk, family::conclusions,
                                        keys::conclusion(task, environment_class, variant), variant);
}

}  // namespace cudal1
