// Random numbers that depend on the seed only (the standard library's distributions differ between implementations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cudal1 {

class random_source {
 public:
  explicit random_source(uint64_t seed) : state_(seed) {}
  uint64_t next();
  double unit();  // [0, 1)
  std::size_t below(std::size_t n);
  bool chance(double p) { return unit() < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace cudal1
