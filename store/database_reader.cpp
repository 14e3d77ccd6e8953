// The readers' database: a RocksDB secondary, which follows a writer in another process.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include <rocksdb/db.h>

#include "store/database.hpp"
#include "store/database_options.hpp"

namespace cudal1 {

namespace {

std::set<std::string> logs_in(const std::string& folder) {
  std::set<std::string> out;
  std::error_code ec;
  for (std::filesystem::directory_iterator f(folder, ec), end; !ec && f != end; f.increment(ec))
    if (f->path().extension() == ".log") out.insert(f->path().filename().string());
  return out;
}

}  // namespace

expected<std::unique_ptr<database>> database::open_reader(const std::string& folder) {
  std::unique_ptr<database> d(new database(folder));
  if (!d->exists())
    return fail(errc::not_found, "there is no store in {}; `cudal1 run` creates one, --data names another folder",
                folder);
  // The writer may remove a log or a table between our reading the manifest and our opening the file.
  expected<void> opened;
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = d->open_as_secondary();
    if (opened || opened.error().code == errc::infrastructure || opened.error().code == errc::unsupported) break;
  }
  if (!opened) return tl::unexpected(std::move(opened).error());
  CUDAL1_CHECK(d->check_schema(memory_access::read_only));
  return d;
}

expected<void> database::open_as_secondary() {
  std::vector<std::string> names;
  if (const auto s = rocksdb::DB::ListColumnFamilies(database_options(), folder(), &names); !s.ok())
    return tl::unexpected(describe(s, "reading the list of column families"));
  std::vector<std::string> wanted{rocksdb::kDefaultColumnFamilyName};
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < family_names.size(); ++i) {
    if (std::find(names.begin(), names.end(), family_names[i]) != names.end()) {
      wanted.emplace_back(family_names[i]);
      places.push_back(i);
    } else if (std::ranges::count(names, families_of_schema_1.front()) > 0) {
      return tl::unexpected(older_schema());
    } else if (i < first_families) {
      return fail(errc::not_found, "the store {} is still being created, or was not made by cudal1", folder());
    }
  }
  auto options = database_options();
  options.max_open_files = -1;  // the writer may unlink a table that we still read
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  // A secondary writes to a folder of its own only what its log is, and ours goes to spdlog (database_options).
  const std::string no_own_folder;
  const auto s = rocksdb::DB::OpenAsSecondary(options, folder(), no_own_folder, descriptors(wanted), &handles, &db);
  if (!s.ok()) return tl::unexpected(describe(s, "opening for reading"));
  db_.reset(db);
  others_ = {handles.front()};
  families_.assign(family_names.size(), nullptr);
  for (std::size_t i = 0; i < places.size(); ++i)
    families_[places[i]] = handles[i + 1];
  return {};
}

// RocksDB reads the manifest first, then the logs. If the writer flushes and removes a log in between, its records are
// missing until the next call: so we repeat until no log disappeared meanwhile.
expected<void> database::catch_up() {
  constexpr int tries = 30;
  rocksdb::Status s;
  std::set<std::string> before = logs_in(folder());
  for (int i = 0; i < tries; ++i) {
    s = db_->TryCatchUpWithPrimary();
    std::set<std::string> after = logs_in(folder());
    if (s.ok() && std::includes(after.begin(), after.end(), before.begin(), before.end())) return {};
    before = std::move(after);
  }
  if (s.ok()) return fail(errc::infrastructure, "the store {} changes too fast to be read; try again", folder());
  return tl::unexpected(describe(s, "catching up with the writer"));
}

}  // namespace cudal1
