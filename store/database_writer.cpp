// The writer's database: its schema, synced atomic writes, and reopening after a full disk.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "store/conversion.hpp"
#include "store/database.hpp"
#include "store/database_options.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

// Instead of those of schema 1.
constexpr std::array<family, 6> families_since_schema_2 = {family::results,  family::details, family::standings,
                                                           family::rankings, family::tallies, family::unfinished};
constexpr std::array<family, 1> families_since_schema_3 = {family::exemplars};
constexpr std::array<family, 1> families_since_schema_4 = {family::conclusions};

// After a failed write (a full disk, a quota) we reopen the database, which works for every cause; RocksDB's background
// recovery would interfere.
class no_background_recovery : public rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* recover) override {
    *recover = false;
  }
};

}  // namespace

expected<std::unique_ptr<database>> database::open_writer(const std::string& folder) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  if (ec) return fail(errc::io_error, "cannot create the store's folder {}: {}", folder, ec.message());
  std::unique_ptr<database> d(new database(folder));
  CUDAL1_CHECK(d->open_as_writer(log_replay::into_tables));
  CUDAL1_CHECK(d->prepare_schema());
  return d;
}

expected<void> database::open_as_writer(log_replay replay) {
  std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
  if (exists()) {
    // RocksDB requires all existing families to be opened, also those of a newer schema: the version is stored inside.
    if (const auto s = rocksdb::DB::ListColumnFamilies(database_options(), folder(), &names); !s.ok())
      return tl::unexpected(describe(s, "reading the list of column families"));
  }
  auto options = database_options();
  options.create_if_missing = true;
  options.avoid_flush_during_recovery = replay == log_replay::into_memory;
  options.listeners = {std::make_shared<no_background_recovery>()};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const auto s = rocksdb::DB::Open(options, folder(), descriptors(names), &handles, &db);
  if (!s.ok()) {
    if (s.IsIOError() && s.ToString().find("lock") != std::string::npos)
      return fail(errc::already_exists,
                  "another cudal1-node has the store {} open; stop it (cudal1 status shows it) or choose another "
                  "data folder",
                  folder());
    return tl::unexpected(describe(s, "opening"));
  }
  db_.reset(db);
  families_.resize(family_names.size());
  for (auto* h : handles) {
    const auto known = std::find(family_names.begin(), family_names.end(), h->GetName());
    if (known == family_names.end()) {
      others_.push_back(h);
    } else {
      families_[static_cast<std::size_t>(known - family_names.begin())] = h;
    }
  }
  return {};
}

expected<void> database::prepare_schema() {
  int version = 0;
  if (handle(family::meta)) {
    CUDAL1_TRY(version, check_schema(memory_access::read_write));
  }
  // An earlier conversion that did not end left incomplete records.
  const auto drop_since = [&](int schema, const auto& made) -> expected<void> {
    if (version == 0 || version >= schema) return {};
    for (const family f : made)
      CUDAL1_CHECK(drop_family(families_[static_cast<std::size_t>(f)]));
    return {};
  };
  CUDAL1_CHECK(drop_since(2, families_since_schema_2));
  CUDAL1_CHECK(drop_since(3, families_since_schema_3));
  CUDAL1_CHECK(drop_since(4, families_since_schema_4));
  for (std::size_t i = 0; i < families_.size(); ++i) {
    if (families_[i]) continue;
    const char* name = family_names[i];
    if (const auto s = db_->CreateColumnFamily(family_options(), name, &families_[i]); !s.ok())
      return tl::unexpected(describe(s, "creating a column family"));
  }
  if (version == store_schema_version) return drop_old_families();
  if (version > 0 && version < oldest_readable_schema) {
    spdlog::info("the store {} is converted from schema {} to {}", folder(), version, store_schema_version);
    CUDAL1_CHECK(convert_store(*this, version));
  }
  CUDAL1_CHECK(write({{family::meta, schema_key, std::to_string(store_schema_version)}}));
  return drop_old_families();
}

expected<void> database::drop_family(rocksdb::ColumnFamilyHandle*& handle) {
  if (!handle) return {};
  if (const auto s = db_->DropColumnFamily(handle); !s.ok())
    return tl::unexpected(describe(s, "dropping a column family"));
  db_->DestroyColumnFamilyHandle(handle);
  handle = nullptr;
  return {};
}

expected<void> database::drop_old_families() {
  for (auto*& h : others_)
    if (h && std::ranges::count(families_of_schema_1, h->GetName()) > 0) CUDAL1_CHECK(drop_family(h));
  return {};
}

expected<void> database::write(const std::vector<put>& puts) {
  put_map all;
  for (const auto& p : puts)
    all.insert_or_assign({p.where, p.key}, p.value);
  return write(all);
}

expected<void> database::write(const put_map& puts) {
  CUDAL1_CHECK(recover());
  const std::shared_lock lock(guard_);
  rocksdb::WriteBatch batch;
  for (const auto& [at, value] : puts) {
    const auto& [where, key] = at;
    const auto s = value ? batch.Put(handle(where), key, *value) : batch.Delete(handle(where), key);
    if (!s.ok()) return tl::unexpected(describe(s, "building a batch"));
  }
  rocksdb::WriteOptions options;
  options.sync = true;
  const auto s = db_->Write(options, &batch);
  failed_ = !s.ok();
  if (!s.ok()) return tl::unexpected(describe(s, "writing"));
  return {};
}

// The database that failed still answers reads, so it is closed only once there is space again. The log is not written
// into tables, which would need more of it.
expected<void> database::recover() {
  if (!failed_) return {};
  CUDAL1_CHECK(check_space());
  const std::unique_lock lock(guard_);
  close();
  CUDAL1_CHECK(open_as_writer(log_replay::into_memory));
  failed_ = false;
  spdlog::info("the store {} can be written again", folder());
  return {};
}

// Writes a small file: statvfs knows nothing of quotas and of limits of a file's size.
expected<void> database::check_space() const {
  constexpr std::size_t needed = std::size_t{1} << 20;  // bytes: more than opening the database writes
  const std::string path = folder() + "/space-check";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << std::string(needed, 's') << std::flush;
  const bool fits = file.good();
  file.close();
  ::unlink(path.c_str());
  if (fits) return {};
  return fail(errc::infrastructure,
              "the store {} cannot be written: no space left; free some disk space; no acknowledged write is lost",
              folder());
}

}  // namespace cudal1
