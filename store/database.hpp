// RocksDB as the store uses it: the column families, checked reads, errors that name the folder (database.cpp), synced
// atomic writes (database_writer.cpp), a reader that follows a writer (database_reader.cpp).
// Thread-safe, except that write() and recover(), and catch_up(), may be called by one thread at a time only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/memory_access.hpp"
#include "store/record_source.hpp"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
}  // namespace rocksdb

namespace cudal1 {

struct put {
  family where;
  std::string key;
  std::optional<std::string> value;  // nothing: the entry is removed
};

// Changes of one batch, in the order of their keys.
using put_map = std::map<std::pair<family, std::string>, std::optional<std::string>>;

class database final : public stored_records {
 public:
  // Creates the folder and what is missing in it, and converts an older schema; refuses a newer one and a second
  // writer.
  static expected<std::unique_ptr<database>> open_writer(const std::string& folder);
  // A RocksDB secondary, which writes nothing.
  static expected<std::unique_ptr<database>> open_reader(const std::string& folder);
  ~database() override;
  database(const database&) = delete;
  database& operator=(const database&) = delete;

  expected<std::optional<std::string>> get(family f, std::string_view key) const override;
  expected<void> scan(family f, std::string_view prefix, const visitor& visit,
                      std::string_view start = {}) const override;
  expected<std::optional<std::string>> last_key(family f) const;

  // Atomic, and on disk when it returns.
  expected<void> write(const std::vector<put>& puts);
  expected<void> write(const put_map& puts);
  // After a failed write: opens the database again; an error if it still cannot be written. Else it does nothing.
  // For the writing thread.
  expected<void> recover();
  // For a reader: catches up with the writer.
  expected<void> catch_up() override;

  // A consistent copy in a new folder, made of links where the file system allows it; errc::already_exists. For a
  // writer.
  expected<void> checkpoint(const std::string& to) const;
  // Rewrites all tables without what was replaced or removed. For a writer.
  expected<void> compact() const;

  // A whole family by name, also one of an older schema. For conversion, before other threads use the database: `visit`
  // may call it.
  expected<void> scan_alone(std::string_view name, const visitor& visit) const;

 private:
  static constexpr const char* schema_key = "schema";
  explicit database(std::string folder);
  bool exists() const;
  enum class log_replay { into_tables, into_memory };
  expected<void> open_as_writer(log_replay replay);
  expected<void> open_as_secondary();
  expected<void> check_space() const;
  expected<void> prepare_schema();
  expected<void> drop_family(rocksdb::ColumnFamilyHandle*& handle);
  expected<void> drop_old_families();
  // The version of the stored schema; 0: none yet. Refuses what this cudal1 cannot open.
  expected<int> check_schema(memory_access purpose) const;
  expected<void> scan(rocksdb::ColumnFamilyHandle* handle, std::string_view prefix, const visitor& visit,
                      std::string_view start) const;
  void drop_handles();
  void close();
  rocksdb::ColumnFamilyHandle* handle(family f) const { return families_[static_cast<std::size_t>(f)]; }
  error describe(const rocksdb::Status& s, std::string_view doing) const;
  tl::unexpected<error> closed() const;
  error older_schema() const;

  mutable std::shared_mutex guard_;  // shared to use db_ and the families, exclusive to replace them
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // by family; owned
  std::vector<rocksdb::ColumnFamilyHandle*> others_;    // unknown ones, and RocksDB's "default"; owned
  bool failed_ = false;  // the last write failed, and RocksDB has stopped writing: reopened before the next
};

}  // namespace cudal1
