// Variants that were read lately: the exemplars of a prompt are nearly those of the last one, and each is a program to
// parse. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "store/store.hpp"

namespace cudal1 {

class variant_cache {
 public:
  explicit variant_cache(std::size_t most) : most_(most) {}

  // The variant kept under `key`; else what `load` returns, which is kept unless it is an error. Records of variants do
  // not change.
  expected<variant_record> get(const std::string& key, const std::function<expected<variant_record>()>& load);

 private:
  using entry = std::pair<std::string, variant_record>;

  const std::size_t most_;
  std::mutex mutex_;
  std::list<entry> entries_;  // the one used last is the first
  std::unordered_map<std::string, std::list<entry>::iterator> by_key_;
};

}  // namespace cudal1
