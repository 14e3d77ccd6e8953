// Copies of a store, its compaction and its verification.
#include <filesystem>
#include <shared_mutex>

#include <rocksdb/db.h>
#include <rocksdb/utilities/checkpoint.h>

#include "store/database_options.hpp"
#include "store/group_record.hpp"
#include "store/queries.hpp"
#include "store/records.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t problems_listed = 20;

// Collects what is wrong with the records of a store.
class record_checker {
 public:
  record_checker(const stored_records& from, store_check& found) : from_(&from), found_(&found) {}

  // Reads the bytes of every record of a family, and calls `check` with each record.
  template <class T, class Check>
  expected<void> family_of(family f, Check check) {
    return all(f, [&](std::string_view key, std::string_view value) -> expected<void> {
      CUDAL1_TRY(const T record, from_text<T>(value));
      return check(key, record);
    });
  }
  template <class T>
  expected<void> family_of(family f) {
    return family_of<T>(f, [](std::string_view, const T&) -> expected<void> { return {}; });
  }
  expected<void> bytes_of(family f) {
    return all(f, [](std::string_view, std::string_view) -> expected<void> { return {}; });
  }
  expected<void> require(family f, const std::string& key, const std::string& what) const {
    CUDAL1_TRY(const auto value, from_->get(f, key));
    if (!value) return fail(errc::corrupt, "{} is missing", what);
    return {};
  }

 private:
  template <class Check>
  expected<void> all(family f, Check check) {
    const std::string name = family_names[static_cast<std::size_t>(f)];
    auto& count = found_->records[name];
    auto read = from_->scan(f, "", [&](std::string_view key, std::string_view value) -> expected<bool> {
      ++count;
      if (auto checked = check(key, value); !checked)
        note(fmt::format("{}, record {}: {}", name, count, checked.error().message));
      return true;
    });
    if (!read && read.error().code != errc::corrupt) return read;  // it cannot be read at all
    if (!read) note(fmt::format("{}, after {} records: {}", name, count, read.error().message));
    return {};
  }
  void note(std::string problem) {
    ++found_->problem_count;
    if (found_->problems.size() < problems_listed) found_->problems.push_back(std::move(problem));
  }

  const stored_records* from_;
  store_check* found_;
};

}  // namespace

// ---- the database ---------------------------------------------------------------------------------------------------

expected<void> database::checkpoint(const std::string& to) const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  std::error_code problem;
  if (std::filesystem::exists(to, problem)) return fail(errc::already_exists, "{} exists already", to);
  rocksdb::Checkpoint* made = nullptr;
  auto s = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> owned(made);
  if (s.ok()) s = made->CreateCheckpoint(to);
  if (!s.ok()) return tl::unexpected(describe(s, "copying it to " + to));
  return {};
}

expected<void> database::compact() const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (auto* h : families_) {
    if (!h) continue;
    if (const auto s = db_->CompactRange(all, h, nullptr, nullptr); !s.ok())
      return tl::unexpected(describe(s, "compacting"));
  }
  return {};
}

// ---- the store ------------------------------------------------------------------------------------------------------

expected<store_check> store_queries::verify() {
  store_check found;
  record_checker check(*database_, found);
  CUDAL1_CHECK(check.family_of<task_record>(family::tasks));
  CUDAL1_CHECK(check.family_of<variant_record>(family::variants));
  CUDAL1_CHECK(check.family_of<experiment_record>(family::experiments));
  CUDAL1_CHECK(check.family_of<environment>(family::environments));
  CUDAL1_CHECK(check.family_of<attempt_record>(family::attempts));
  const auto has_its_records = [&](std::string_view key, const verdict& v) -> expected<void> {
    const auto k = keys::parse_verdict(key);
    if (!k) return fail(errc::corrupt, "its key is malformed");
    const std::string of = fmt::format("of variant {} in experiment {}", short_id(k->variant), k->experiment);
    CUDAL1_CHECK(check.require(family::details, std::string(key), "the details " + of));
    CUDAL1_CHECK(check.require(family::variants, keys::variant(k->variant), "the variant " + of));
    if (v.environment_id.empty()) return {};
    return check.require(family::environments, v.environment_id, "the environment " + of);
  };
  CUDAL1_CHECK(check.family_of<verdict>(family::results, has_its_records));
  for (const family f : {family::details, family::standings, family::rankings, family::tallies, family::unfinished,
                         family::events, family::policies, family::baselines, family::exemplars, family::conclusions,
                         family::groups, family::hacks, family::opinions, family::files})
    CUDAL1_CHECK(check.bytes_of(f));
  return found;
}

}  // namespace cudal1
