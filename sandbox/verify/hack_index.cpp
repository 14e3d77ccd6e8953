#include "sandbox/verify/hack_index.hpp"

#include <algorithm>
#include <functional>

namespace cudal1 {

namespace {

constexpr std::size_t rows = 2, bands = signature_hashes / rows;

// The band's number and its hashes in one word; that two bands share one costs a comparison only.
uint64_t band_of(const source_signature& s, std::size_t band) {
  const uint64_t hashes = uint64_t{s.least[rows * band]} << 32 | s.least[rows * band + 1];
  return hashes ^ (band + 1) * 0x9e3779b97f4a7c15;
}

bool is_complete(const source_signature& s) {
  return s.least.size() == signature_hashes;
}

}  // namespace

void hack_index::add(const std::string& id, hack_class kind, const source_signature& signature) {
  if (!is_complete(signature)) return;
  if (cases_.size() == most_cases) forget_oldest();
  const uint64_t number = first_ + cases_.size();
  cases_.push_back({id, kind, signature});
  for (std::size_t b = 0; b < bands; ++b)
    in_band_[band_of(signature, b)].push_back(number);
}

void hack_index::forget_oldest() {
  for (std::size_t b = 0; b < bands; ++b) {
    const auto entry = in_band_.find(band_of(cases_.front().signature, b));
    if (entry == in_band_.end()) continue;
    std::erase(entry->second, first_);
    if (entry->second.empty()) in_band_.erase(entry);
  }
  cases_.pop_front();
  ++first_;
}

std::vector<similar_hack> hack_index::similar_to(const source_signature& s, double at_least, std::size_t limit) const {
  std::vector<similar_hack> found;
  if (!is_complete(s) || cases_.empty()) return found;
  std::vector<bool> is_compared(cases_.size(), false);
  std::size_t compared = 0;
  for (std::size_t b = 0; b < bands && compared < most_compared; ++b) {
    const auto entry = in_band_.find(band_of(s, b));
    if (entry == in_band_.end()) continue;
    for (const uint64_t number : entry->second) {
      const auto place = static_cast<std::size_t>(number - first_);
      if (is_compared[place]) continue;
      if (compared++ == most_compared) break;
      is_compared[place] = true;
      const auto& c = cases_[place];
      if (const double how = similarity(s, c.signature); how >= at_least) found.push_back({c.id, c.kind, how});
    }
  }
  std::ranges::stable_sort(found, std::greater<>(), &similar_hack::similarity);
  if (found.size() > limit) found.resize(limit);
  return found;
}

}  // namespace cudal1
