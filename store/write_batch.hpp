// Changes that are written together. Reading from it gives the records as they will be then, so that each change sees
// those before it. One thread changes it; others may read it while it is not changed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/database.hpp"

namespace cudal1 {

class write_batch final : public record_source {
 public:
  // `on_disk` outlives it.
  explicit write_batch(database& on_disk) : database_(on_disk), below_(on_disk) {}
  // A change that sees those of `below` and becomes part of them by take(), or is dropped. `below` outlives it.
  explicit write_batch(write_batch& below) : database_(below.database_), below_(below) {}

  void add(put p) { puts_.insert_or_assign({p.where, std::move(p.key)}, std::move(p.value)); }
  const database& on_disk() const { return database_; }
  bool empty() const { return puts_.empty(); }
  std::size_t size() const { return puts_.size(); }
  // Atomic, and on disk when it returns. The batch is empty afterwards, also after an error.
  expected<void> write();
  // As write(), but it still has them: it can be read meanwhile.
  expected<void> write_copy() const;
  void clear() { puts_.clear(); }
  // Takes the changes of `later`, which is empty afterwards. This one must be.
  void take_from(write_batch& later) { puts_.swap(later.puts_); }
  // What it holds; it is empty afterwards.
  std::vector<put> take();

  expected<std::optional<std::string>> get(family f, std::string_view key) const override;
  expected<void> scan(family f, std::string_view prefix, const visitor& visit,
                      std::string_view start = {}) const override;

 private:
  using place = put_map::key_type;

  database& database_;
  const record_source& below_;
  put_map puts_;
};

}  // namespace cudal1
