#include "store/database.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <shared_mutex>
#include <thread>

#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/conversion.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

constexpr std::array<const char*, 15> family_names = {
    "meta",        "tasks",    "variants",   "results", "details",  "standings",    "rankings", "tallies",
    "experiments", "attempts", "unfinished", "events",  "policies", "environments", "baselines"};
// The families that every store of this schema has. A later one is created when a writer opens an older store; until
// then readers find it empty, and an older cudal1 ignores it. So adding a family does not need a new schema.
constexpr std::size_t first_families = 14;
// Schema 1 had whole verdicts in "verdicts" and an index of their scores in "scores". Schema 2 has these families
// instead (conversion.hpp).
constexpr std::array<const char*, 2> families_of_schema_1 = {"verdicts", "scores"};
constexpr std::array<family, 6> families_since_schema_2 = {family::results,  family::details, family::standings,
                                                           family::rankings, family::tallies, family::unfinished};
constexpr const char* schema_key = "schema";

// Sends RocksDB's log to ours: if its own log file cannot grow on a full disk, RocksDB 7.8 ends the process with an
// assertion. Errors reach the caller as values; the log is for debugging.
class log_bridge : public rocksdb::Logger {
 public:
  log_bridge() : Logger(rocksdb::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line{};
    std::vsnprintf(line.data(), line.size(), format, arguments);
    spdlog::debug("rocksdb: {}", line.data());
  }
};

// After a failed write (a full disk, a quota) we reopen the database, which works for every cause; RocksDB's background
// recovery would interfere.
class no_background_recovery : public rocksdb::EventListener {
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* recover) override {
    *recover = false;
  }
};

rocksdb::CompressionType best_compression() {
  const auto supported = rocksdb::GetSupportedCompressions();
  for (const auto wanted : {rocksdb::kZSTD, rocksdb::kLZ4Compression, rocksdb::kSnappyCompression})
    if (std::find(supported.begin(), supported.end(), wanted) != supported.end()) return wanted;
  return rocksdb::kNoCompression;
}

rocksdb::ColumnFamilyOptions family_options(std::string_view name) {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::ColumnFamilyOptions o;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  o.compression = best_compression();
  o.write_buffer_size = std::size_t{16} << 20;
  if (name == family_names[static_cast<std::size_t>(family::details)]) {
    // BlobDB: compaction moves references only. Details are never deleted, so no blob file needs garbage collection.
    o.enable_blob_files = true;
    o.min_blob_size = 512;  // bytes
    o.blob_compression_type = o.compression;
  }
  return o;
}

rocksdb::DBOptions database_options() {
  rocksdb::DBOptions o;
  o.paranoid_checks = true;
  // A torn record at the log's end is a write that was never acknowledged; any other failed checksum is an error.
  // (RocksDB's default would silently drop what follows a damaged record.)
  o.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  o.max_total_wal_size = uint64_t{64} << 20;
  o.max_open_files = 512;
  o.info_log = std::make_shared<log_bridge>();
  return o;
}

std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(const std::vector<std::string>& names) {
  std::vector<rocksdb::ColumnFamilyDescriptor> out;
  for (const auto& name : names)
    out.emplace_back(name, family_options(name));
  return out;
}

rocksdb::ReadOptions checked_read() {
  rocksdb::ReadOptions o;
  o.verify_checksums = true;
  return o;
}

rocksdb::Slice slice(std::string_view s) {
  return {s.data(), s.size()};
}

std::string_view view(const rocksdb::Slice& s) {
  return {s.data(), s.size()};
}

bool is_disk_full(const rocksdb::Status& s) {
  const std::string text = s.ToString();
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  return s.subcode() == rocksdb::Status::SubCode::kNoSpace || says("No space left") || says("Disk quota") ||
         says("File too large");
}

std::set<std::string> logs_in(const std::string& folder) {
  std::set<std::string> out;
  std::error_code ec;
  for (std::filesystem::directory_iterator f(folder, ec), end; !ec && f != end; f.increment(ec))
    if (f->path().extension() == ".log") out.insert(f->path().filename().string());
  return out;
}

error older_schema(const std::string& folder) {
  return {errc::unsupported,
          fmt::format("the store {} was written by an older cudal1; a node converts it when it starts, as `cudal1 "
                      "doctor` with this data folder starts one",
                      folder)};
}

bool exists(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / "CURRENT", ignored);
}

}  // namespace

// ---- opening --------------------------------------------------------------------------------------------------------

database::database(std::string folder) : folder_(std::move(folder)) {}

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
  if (exists(folder_)) {
    // RocksDB requires all existing families to be opened, also those of a newer schema: the version is stored inside.
    if (const auto s = rocksdb::DB::ListColumnFamilies(database_options(), folder_, &names); !s.ok())
      return tl::unexpected(describe(s, "reading the list of column families"));
  }
  auto options = database_options();
  options.create_if_missing = true;
  options.avoid_flush_during_recovery = replay == log_replay::into_memory;
  options.listeners = {std::make_shared<no_background_recovery>()};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const auto s = rocksdb::DB::Open(options, folder_, descriptors(names), &handles, &db);
  if (!s.ok()) {
    if (s.IsIOError() && s.ToString().find("lock") != std::string::npos)
      return fail(errc::already_exists,
                  "another cudal1-node has the store {} open; stop it (cudal1 status shows it) or choose another "
                  "data folder",
                  folder_);
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
    CUDAL1_TRY(version, check_schema(true));
  }
  // An earlier conversion that did not end left incomplete records.
  if (version > 0 && version < store_schema_version)
    for (const family f : families_since_schema_2)
      CUDAL1_CHECK(drop_family(families_[static_cast<std::size_t>(f)]));
  for (std::size_t i = 0; i < families_.size(); ++i) {
    if (families_[i]) continue;
    const char* name = family_names[i];
    if (const auto s = db_->CreateColumnFamily(family_options(name), name, &families_[i]); !s.ok())
      return tl::unexpected(describe(s, "creating a column family"));
  }
  if (version == store_schema_version) return drop_old_families();
  if (version > 0) {
    spdlog::info("the store {} is converted from schema {} to {}", folder_, version, store_schema_version);
    CUDAL1_CHECK(convert_schema_1(*this));
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

// A store without a version was being created when its writer died: only a writer may complete it.
expected<int> database::check_schema(bool writer) const {
  CUDAL1_TRY(const auto text, get(family::meta, schema_key));
  if (!text) {
    if (!writer) return fail(errc::not_found, "the store {} is still being created; try again", folder_);
    CUDAL1_TRY(const auto some_task, handle(family::tasks) ? last_key(family::tasks) : std::optional<std::string>());
    if (!some_task) return 0;
    return fail(errc::corrupt, "the store {} has records but no schema version; restore the folder from a copy",
                folder_);
  }
  int version = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), version);
  if (problem != std::errc{} || end != text->data() + text->size() || version < 1)
    return fail(errc::corrupt, "the store {} has no readable schema version; restore the folder from a copy", folder_);
  if (version > store_schema_version)
    return fail(errc::corrupt,
                "the store {} was written by a newer cudal1: its schema is {}, and this one knows up to {}; use the "
                "newer cudal1, or choose another data folder",
                folder_, version, store_schema_version);
  if (!writer && version < store_schema_version) return tl::unexpected(older_schema(folder_));
  return version;
}

expected<std::unique_ptr<database>> database::open_reader(const std::string& folder) {
  if (!exists(folder))
    return fail(errc::not_found, "there is no store in {}; `cudal1 run` creates one, --data names another folder",
                folder);
  std::unique_ptr<database> d(new database(folder));
  // The writer may remove a log or a table between our reading the manifest and our opening the file.
  expected<void> opened;
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = d->open_as_secondary();
    if (opened || opened.error().code == errc::infrastructure || opened.error().code == errc::unsupported) break;
  }
  if (!opened) return tl::unexpected(std::move(opened).error());
  CUDAL1_CHECK(d->check_schema(false));
  return d;
}

expected<void> database::open_as_secondary() {
  std::vector<std::string> names;
  if (const auto s = rocksdb::DB::ListColumnFamilies(database_options(), folder_, &names); !s.ok())
    return tl::unexpected(describe(s, "reading the list of column families"));
  std::vector<std::string> wanted{rocksdb::kDefaultColumnFamilyName};
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < family_names.size(); ++i) {
    if (std::find(names.begin(), names.end(), family_names[i]) != names.end()) {
      wanted.emplace_back(family_names[i]);
      places.push_back(i);
    } else if (std::ranges::count(names, families_of_schema_1.front()) > 0) {
      return tl::unexpected(older_schema(folder_));
    } else if (i < first_families) {
      return fail(errc::not_found, "the store {} is still being created, or was not made by cudal1", folder_);
    }
  }
  if (scratch_.empty()) {
    std::error_code ec;
    std::string pattern = (std::filesystem::temp_directory_path(ec) / "cudal1-reader-XXXXXX").string();
    if (ec || !::mkdtemp(pattern.data()))
      return fail(errc::infrastructure, "cannot make a temporary folder {} for reading the store; set TMPDIR", pattern);
    scratch_ = pattern;
  }
  auto options = database_options();
  options.max_open_files = -1;  // the writer may unlink a table that we still read
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const auto s = rocksdb::DB::OpenAsSecondary(options, folder_, scratch_, descriptors(wanted), &handles, &db);
  if (!s.ok()) return tl::unexpected(describe(s, "opening for reading"));
  db_.reset(db);
  others_ = {handles.front()};
  families_.assign(family_names.size(), nullptr);
  for (std::size_t i = 0; i < places.size(); ++i)
    families_[places[i]] = handles[i + 1];
  return {};
}

void database::drop_handles() {
  for (auto* set : {&families_, &others_}) {
    for (auto* h : *set)
      if (h) db_->DestroyColumnFamilyHandle(h);
    set->clear();
  }
}

void database::close() {
  if (!db_) return;
  drop_handles();
  db_->Close();
  db_.reset();
}

database::~database() {
  close();
  std::error_code ignored;
  if (!scratch_.empty()) std::filesystem::remove_all(scratch_, ignored);
}

// ---- reading --------------------------------------------------------------------------------------------------------

expected<std::optional<std::string>> database::get(family f, std::string_view key) const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  if (!handle(f)) return std::optional<std::string>();
  std::string value;
  const auto s = db_->Get(checked_read(), handle(f), slice(key), &value);
  if (s.IsNotFound()) return std::optional<std::string>();
  if (!s.ok()) return tl::unexpected(describe(s, "reading"));
  return std::optional<std::string>(std::move(value));
}

expected<void> database::scan(family f, std::string_view prefix, const visitor& visit, std::string_view start) const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  return scan(handle(f), prefix, visit, start);
}

expected<void> database::scan_alone(std::string_view name, const visitor& visit) const {
  for (const auto* set : {&families_, &others_})
    for (auto* h : *set)
      if (h && h->GetName() == name) return scan(h, "", visit, {});
  return {};
}

expected<void> database::scan(rocksdb::ColumnFamilyHandle* handle, std::string_view prefix, const visitor& visit,
                              std::string_view start) const {
  if (!handle) return {};
  auto options = checked_read();
  const std::string end = keys::after_prefix(std::string(prefix));
  const rocksdb::Slice upper = slice(end);
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, handle));
  for (it->Seek(slice(std::max(prefix, start))); it->Valid(); it->Next()) {
    CUDAL1_TRY(const bool go_on, visit(view(it->key()), view(it->value())));
    if (!go_on) return {};
  }
  if (!it->status().ok()) return tl::unexpected(describe(it->status(), "reading"));
  return {};
}

expected<std::optional<std::string>> database::last_key(family f) const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(checked_read(), handle(f)));
  it->SeekToLast();
  if (it->Valid()) return std::optional<std::string>(std::string(view(it->key())));
  if (!it->status().ok()) return tl::unexpected(describe(it->status(), "reading"));
  return std::optional<std::string>();
}

// RocksDB reads the manifest first, then the logs. If the writer flushes and removes a log in between, its records are
// missing until the next call: so we repeat until no log disappeared meanwhile.
expected<void> database::catch_up() {
  constexpr int tries = 30;
  rocksdb::Status s;
  std::set<std::string> before = logs_in(folder_);
  for (int i = 0; i < tries; ++i) {
    s = db_->TryCatchUpWithPrimary();
    std::set<std::string> after = logs_in(folder_);
    if (s.ok() && std::includes(after.begin(), after.end(), before.begin(), before.end())) return {};
    before = std::move(after);
  }
  if (s.ok()) return fail(errc::infrastructure, "the store {} changes too fast to be read; try again", folder_);
  return tl::unexpected(describe(s, "catching up with the writer"));
}

// ---- writing --------------------------------------------------------------------------------------------------------

expected<void> database::write(const std::vector<put>& puts) {
  CUDAL1_CHECK(recover());
  const std::shared_lock lock(guard_);
  rocksdb::WriteBatch batch;
  for (const auto& p : puts) {
    const auto s = p.value ? batch.Put(handle(p.where), slice(p.key), slice(*p.value))
                           : batch.Delete(handle(p.where), slice(p.key));
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
  spdlog::info("the store {} can be written again", folder_);
  return {};
}

// Writes a small file: statvfs knows nothing of quotas and of limits of a file's size.
expected<void> database::check_space() const {
  constexpr std::size_t needed = std::size_t{1} << 20;  // bytes: more than opening the database writes
  const std::string path = folder_ + "/space-check";
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << std::string(needed, 's') << std::flush;
  const bool fits = file.good();
  file.close();
  ::unlink(path.c_str());
  if (fits) return {};
  return fail(errc::infrastructure,
              "the store {} cannot be written: no space left; free some disk space; no acknowledged write is lost",
              folder_);
}

// ---- errors ---------------------------------------------------------------------------------------------------------

error database::describe(const rocksdb::Status& s, std::string_view doing) const {
  const std::string where = fmt::format("the store {}, {}", folder_, doing);
  if (is_disk_full(s))
    return {errc::infrastructure,
            fmt::format("{}: no space left ({}); free some disk space; no acknowledged write is lost", where,
                        s.ToString())};
  if (s.IsCorruption() || s.IsIncomplete())
    return {errc::corrupt,
            fmt::format("{}: stored bytes are damaged ({}); check the disk and restore the folder from a "
                        "copy, or move it away to start with an empty store",
                        where, s.ToString())};
  if (s.IsIOError() || s.IsPathNotFound())
    return {errc::io_error, fmt::format("{}: {}; check that the folder can be read and written", where, s.ToString())};
  return {errc::infrastructure, fmt::format("{}: {}", where, s.ToString())};
}

tl::unexpected<error> database::closed() const {
  return fail(errc::infrastructure,
              "the store {} could not be reopened after a failed write; the next write tries again", folder_);
}

error database::damaged(family f, std::string_view what, const std::string& why) const {
  return {errc::corrupt,
          fmt::format("the store {}: the record {} in \"{}\" cannot be read: {}; restore the folder from "
                      "a copy",
                      folder_, what, family_names[static_cast<std::size_t>(f)], why)};
}

}  // namespace cudal1
