// RocksDB as the store uses it: the column families, checked reads, synced atomic writes, errors that name the folder.
// Thread-safe, except that write() and catch_up() may each be called by one thread at a time only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Status;
}  // namespace rocksdb

namespace cudal1 {

// In the order of family_names in database.cpp.
enum class family {
  meta,
  tasks,
  variants,
  verdicts,
  scores,
  experiments,
  attempts,
  events,
  policies,
  environments,
  baselines
};

struct put {
  family where;
  std::string key, value;
};

// What records can be read from.
class record_source {
 public:
  virtual ~record_source() = default;
  virtual expected<std::optional<std::string>> get(family f, std::string_view key) const = 0;
  // Calls `visit` for each entry whose key begins with `prefix`, in order of the keys, from `start` on if that is
  // later; `visit` returns false to stop, and must not call this source.
  using visitor = std::function<expected<bool>(std::string_view key, std::string_view value)>;
  virtual expected<void> scan(family f, std::string_view prefix, const visitor& visit,
                              std::string_view start = {}) const = 0;
};

class database final : public record_source {
 public:
  // Creates the folder and what is missing in it; refuses a newer schema and a second writer.
  static expected<std::unique_ptr<database>> open_writer(const std::string& folder);
  // A RocksDB secondary; its scratch folder is removed when the reader is closed.
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
  // For a reader: catches up with the writer.
  expected<void> catch_up();

  const std::string& folder() const { return folder_; }
  // The error for a record that cannot be read.
  error damaged(family f, std::string_view what, const std::string& why) const;

 private:
  explicit database(std::string folder);
  expected<void> open_as_writer();
  expected<void> open_as_secondary();
  expected<void> open_again();
  expected<void> prepare_schema();
  expected<void> check_schema(bool writer) const;
  void drop_handles();
  void close();
  rocksdb::ColumnFamilyHandle* handle(family f) const { return families_[static_cast<std::size_t>(f)]; }
  error describe(const rocksdb::Status& s, std::string_view doing) const;
  tl::unexpected<error> closed() const;

  std::string folder_, scratch_;
  mutable std::shared_mutex guard_;  // shared to use db_ and the families, exclusive to replace them
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // by family; owned
  std::vector<rocksdb::ColumnFamilyHandle*> others_;    // unknown ones, and RocksDB's "default"; owned
  bool failed_ = false;  // the last write failed, and RocksDB has stopped writing: reopened before the next
};

}  // namespace cudal1
