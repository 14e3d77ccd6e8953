// What records are read from: a database on disk, a batch of changes, or the store of another machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe/enum.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// The families of records, in the order of family_names in database_options.hpp.
BOOST_DEFINE_ENUM_CLASS(family, meta, tasks, variants, results,
                        details,  // large values
                        standings, rankings, tallies, experiments, attempts, unfinished, events, policies, environments,
                        baselines, exemplars, conclusions, groups, hacks, opinions, files)

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

// The records of a whole store.
class stored_records : public record_source {
 public:
  // For a reader: catches up with the writer.
  virtual expected<void> catch_up() = 0;

  // Names the store in errors.
  const std::string& folder() const { return folder_; }
  // The error for a record that cannot be read.
  error damaged(family f, std::string_view what, const std::string& why) const;

 protected:
  explicit stored_records(std::string folder) : folder_(std::move(folder)) {}

 private:
  std::string folder_;
};

}  // namespace cudal1
