// Reading one record, from the disk or from a batch.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "store/database.hpp"

namespace cudal1 {

// What a stored value is. `what` names it in errors; `on_disk` is the database that it comes from.
template <class T>
expected<T> decode_record(const stored_records& on_disk, family f, std::string_view value, const std::string& what) {
  auto record = from_text<T>(value);
  if (!record) return tl::unexpected(on_disk.damaged(f, what, record.error().message));
  return record;
}

// The record at `key`, or nothing. `on_disk` is the database behind `from`.
template <class T>
expected<std::optional<T>> read_record(const record_source& from, const stored_records& on_disk, family f,
                                       const std::string& key, const std::string& what) {
  CUDAL1_TRY(const auto value, from.get(f, key));
  if (!value) return std::optional<T>();
  CUDAL1_TRY(T record, decode_record<T>(on_disk, f, *value, what));
  return std::optional<T>(std::move(record));
}

// All records whose keys begin with `prefix`, in their order.
template <class T>
expected<std::vector<T>> read_records(const record_source& from, const stored_records& on_disk, family f,
                                      const std::string& prefix) {
  std::vector<T> out;
  CUDAL1_CHECK(from.scan(f, prefix, [&](std::string_view, std::string_view value) -> expected<bool> {
    CUDAL1_TRY(T record, decode_record<T>(on_disk, f, value, fmt::format("number {}", out.size() + 1)));
    out.push_back(std::move(record));
    return true;
  }));
  return out;
}

// Whether there is a record whose key begins with `prefix`.
inline expected<bool> any_record(const record_source& from, family f, const std::string& prefix) {
  bool found = false;
  CUDAL1_CHECK(from.scan(f, prefix, [&](std::string_view, std::string_view) -> expected<bool> {
    found = true;
    return false;
  }));
  return found;
}

}  // namespace cudal1
