#include "store/conversion.hpp"

#include <utility>

#include "store/encoding.hpp"
#include "store/store.hpp"
#include "store/verdict_records.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t records_per_batch = 2048;

expected<void> write_if_full(write_batch& batch) {
  return batch.size() < records_per_batch ? expected<void>() : batch.write();
}

expected<void> convert_verdicts(const database& d, write_batch& batch) {
  return d.scan_alone("verdicts", [&](std::string_view key, std::string_view value) -> expected<bool> {
    const auto k = keys::parse_verdict_of_schema_1(key);
    auto v = from_text<verdict>(value);
    if (!k || !v)
      return tl::unexpected(
          d.damaged(family::results, k ? k->variant : "of a verdict", v ? "its key is malformed" : v.error().message));
    CUDAL1_TRY(auto puts, records_of_verdict(batch, *k, std::move(*v)));
    for (auto& p : puts)
      batch.add(std::move(p));
    CUDAL1_CHECK(write_if_full(batch));
    return true;
  });
}

expected<void> convert_attempts(const database& d, write_batch& batch) {
  return d.scan_alone("attempts", [&](std::string_view, std::string_view value) -> expected<bool> {
    const auto a = from_text<attempt_record>(value);
    if (!a) return tl::unexpected(d.damaged(family::attempts, "of an attempt", a.error().message));
    if (a->state == attempt_state::finished) return true;
    if (a->state == attempt_state::lost) {
      CUDAL1_TRY(put tally, record_of_loss(batch, a->experiment, a->task));
      batch.add(std::move(tally));
    }
    bool is_judged = false;
    CUDAL1_CHECK(batch.scan(family::results, keys::verdicts_of(a->task, a->experiment, a->variant),
                            [&](std::string_view, std::string_view) -> expected<bool> {
                              is_judged = true;
                              return false;
                            }));
    if (!is_judged)
      batch.add({family::unfinished, keys::attempts_of(a->experiment, a->task, a->variant), std::string(value)});
    CUDAL1_CHECK(write_if_full(batch));
    return true;
  });
}

}  // namespace

expected<void> convert_schema_1(database& d) {
  write_batch batch(d);
  CUDAL1_CHECK(convert_verdicts(d, batch));
  CUDAL1_CHECK(convert_attempts(d, batch));
  return batch.write();
}

}  // namespace cudal1
