#include "store/variant_cache.hpp"

namespace cudal1 {

expected<variant_record> variant_cache::get(const std::string& key,
                                            const std::function<expected<variant_record>()>& load) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
  }
  CUDAL1_TRY(variant_record loaded, load());
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return loaded;  // another thread was faster
  entries_.emplace_front(key, loaded);
  by_key_.emplace(key, entries_.begin());
  if (entries_.size() > most_) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return loaded;
}

}  // namespace cudal1
