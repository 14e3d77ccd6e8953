// Hack cases: writing and reading.
#include "store/hack_records.hpp"

#include <algorithm>

#include "store/encoding.hpp"
#include "store/queries.hpp"
#include "store/records.hpp"

namespace cudal1 {

namespace {

expected<uint64_t> last_number(const record_source& from) {
  CUDAL1_TRY(const auto last, from.get(family::hacks, keys::last_hack()));
  return last ? keys::reader(*last).number() : 0;
}

expected<hack_case> read_case(const record_source& from, const stored_records& on_disk, uint64_t number) {
  const std::string id = fmt::format("h{}", number);
  CUDAL1_TRY(auto found, read_record<hack_case>(from, on_disk, family::hacks, keys::hack(number), id));
  if (!found) return fail(errc::not_found, "the store {} has no hack case {}", on_disk.folder(), id);
  return std::move(*found);
}

// Those whose numbers the entries with this prefix end with.
expected<std::vector<uint64_t>> numbers_behind(const stored_records& d, const std::string& prefix, std::size_t limit) {
  std::vector<uint64_t> numbers;
  if (limit == 0) return numbers;
  CUDAL1_CHECK(d.scan(family::hacks, prefix, [&](std::string_view, std::string_view value) -> expected<bool> {
    numbers.push_back(keys::reader(value).number());
    return numbers.size() < limit;
  }));
  return numbers;
}

expected<std::vector<hack_case>> read_cases(const stored_records& d, const std::vector<uint64_t>& numbers) {
  std::vector<hack_case> out;
  for (const uint64_t n : numbers) {
    CUDAL1_TRY(auto c, read_case(d, d, n));
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace

expected<hack_case> add_hack_case(write_batch& batch, hack_case c) {
  if (c.variant.empty() || c.task.empty())
    return fail(errc::invalid_argument, "a hack case needs its variant and its task (variant \"{}\", task \"{}\")",
                c.variant, c.task);
  const std::string kind = enum_name(c.kind), of_variant = keys::hack_of_variant(c.variant, kind);
  CUDAL1_TRY(const auto known, batch.get(family::hacks, of_variant));
  if (known) return read_case(batch, batch.on_disk(), keys::reader(*known).number());
  CUDAL1_TRY(const uint64_t last, last_number(batch));
  const uint64_t number = last + 1;
  const std::string as_value = keys::writer().number(number).take();
  c.id = fmt::format("h{}", number);
  batch.add({family::hacks, keys::last_hack(), as_value});
  batch.add({family::hacks, keys::hack(number), encode(c)});
  batch.add({family::hacks, of_variant, as_value});
  batch.add({family::hacks, keys::hack_of_class(kind, number), as_value});
  return c;
}

expected<std::vector<hack_case>> store_queries::hack_cases(hack_class kind, std::size_t limit) {
  CUDAL1_TRY(const auto numbers, numbers_behind(*database_, keys::hacks_of_class(enum_name(kind)), limit));
  return read_cases(*database_, numbers);
}

expected<std::vector<hack_case>> store_queries::hack_cases_of_variant(const std::string& variant) {
  CUDAL1_TRY(auto numbers, numbers_behind(*database_, keys::hacks_of_variant(variant), hack_class_count));
  std::ranges::sort(numbers);
  return read_cases(*database_, numbers);
}

expected<std::vector<hack_case>> store_queries::newest_hack_cases(uint64_t after, std::size_t limit) {
  CUDAL1_TRY(const uint64_t last, last_number(*database_));
  if (last <= after || limit == 0) return std::vector<hack_case>();
  const uint64_t first = std::max(after, last > limit ? last - limit : 0) + 1;
  std::vector<hack_case> out;
  CUDAL1_CHECK(database_->scan(
      family::hacks, keys::hacks(),
      [&](std::string_view, std::string_view value) -> expected<bool> {
        CUDAL1_TRY(auto c, decode<hack_case>(family::hacks, value, "of a hack case"));
        out.push_back(std::move(c));
        return out.size() < limit;
      },
      keys::hack(first)));
  return out;
}

}  // namespace cudal1
