#include "store/database.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <shared_mutex>

#include <rocksdb/db.h>

#include "store/database_options.hpp"
#include "store/keys.hpp"
#include "store/store.hpp"

namespace cudal1 {

namespace {

rocksdb::ReadOptions checked_read() {
  rocksdb::ReadOptions o;
  o.verify_checksums = true;
  return o;
}

bool is_disk_full(const rocksdb::Status& s) {
  const std::string text = s.ToString();
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  return s.subcode() == rocksdb::Status::SubCode::kNoSpace || says("No space left") || says("Disk quota") ||
         says("File too large");
}

// A reader ignores tables that it cannot open, so that a damaged store may look like an empty one.
bool has_tables(const std::string& folder) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().extension() == ".sst") return true;
  return false;
}

}  // namespace

// ---- opening and closing --------------------------------------------------------------------------------------------

database::database(std::string folder) : stored_records(std::move(folder)) {}

bool database::exists() const {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder()) / "CURRENT", ignored);
}

// A store without a version was being created when its writer died: only a writer may complete it.
expected<int> database::check_schema(memory_access purpose) const {
  CUDAL1_TRY(const auto text, get(family::meta, schema_key));
  if (!text) {
    if (purpose == memory_access::read_only && !has_tables(folder()))
      return fail(errc::not_found, "the store {} is still being created; try again", folder());
    CUDAL1_TRY(const auto some_task, handle(family::tasks) ? last_key(family::tasks) : std::optional<std::string>());
    if (!some_task && !has_tables(folder())) return 0;
    return fail(errc::corrupt, "the store {} has records but no schema version; restore the folder from a copy",
                folder());
  }
  int version = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), version);
  if (problem != std::errc{} || end != text->data() + text->size() || version < 1)
    return fail(errc::corrupt, "the store {} has no readable schema version; restore the folder from a copy", folder());
  if (version > store_schema_version)
    return fail(errc::corrupt,
                "the store {} was written by a newer cudal1: its schema is {}, and this one knows up to {}; use the "
                "newer cudal1, or choose another data folder",
                folder(), version, store_schema_version);
  if (purpose == memory_access::read_only && version < oldest_readable_schema) return tl::unexpected(older_schema());
  return version;
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
}

// ---- reading --------------------------------------------------------------------------------------------------------

expected<std::optional<std::string>> database::get(family f, std::string_view key) const {
  const std::shared_lock lock(guard_);
  if (!db_) return closed();
  if (!handle(f)) return std::optional<std::string>();
  std::string value;
  const auto s = db_->Get(checked_read(), handle(f), key, &value);
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
  const rocksdb::Slice upper = end;
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options, handle));
  for (it->Seek(std::max(prefix, start)); it->Valid(); it->Next()) {
    CUDAL1_TRY(const bool go_on, visit(it->key().ToStringView(), it->value().ToStringView()));
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
  if (it->Valid()) return std::optional<std::string>(it->key().ToString());
  if (!it->status().ok()) return tl::unexpected(describe(it->status(), "reading"));
  return std::optional<std::string>();
}

// ---- errors ---------------------------------------------------------------------------------------------------------

error database::describe(const rocksdb::Status& s, std::string_view doing) const {
  const std::string where = fmt::format("the store {}, {}", folder(), doing);
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

error database::older_schema() const {
  return {errc::unsupported,
          fmt::format("the store {} was written by an older cudal1; a node converts it when it starts, as `cudal1 "
                      "doctor` with this data folder starts one",
                      folder())};
}

tl::unexpected<error> database::closed() const {
  return fail(errc::infrastructure,
              "the store {} could not be reopened after a failed write; the next write tries again", folder());
}

error stored_records::damaged(family f, std::string_view what, const std::string& why) const {
  return {errc::corrupt,
          fmt::format("the store {}: the record {} in \"{}\" cannot be read: {}; restore the folder from "
                      "a copy",
                      folder(), what, family_names[static_cast<std::size_t>(f)], why)};
}

}  // namespace cudal1
