// Seeded, structure-aware mutations of program and task texts.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "config/base/json.hpp"

namespace cudal1 {

class mutator {
 public:
  // `corpus`: texts of programs or tasks (a JSON head, perhaps a separator line and a source).
  mutator(uint64_t seed, std::vector<std::string> corpus);
  std::string next();

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  void mutate_bytes(std::string& text);
  void mutate_source(std::string& source);
  void mutate_node(json& v);
  json extreme_value();
  std::vector<json*> nodes_of(json& root);

  std::mt19937_64 random_;
  std::vector<std::string> corpus_;
  std::vector<json> fragments_;  // subtrees of the corpus, to insert in wrong places
};

}  // namespace cudal1
