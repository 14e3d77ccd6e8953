// Which kinds of moves the variants of a search were made of, and what those reached.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1::cli {

// One variant as its schedule and its verdict say it.
struct tried_variant {
  std::string task, schedule;
  outcome result = outcome::correct;
  double score = 0;      // 0 unless correct
  bool is_best = false;  // the best one of its task
};

// A kind of move, or a family of kinds: those of one phase.
struct technique {
  std::string family, move;  // move: "" for a family
  int64_t variants = 0, correct = 0;
  int64_t best_of = 0;        // tasks whose best variant uses it
  double geometric_mean = 0;  // of the speedups of those; 0 without any
  double median = 0;          // of the scores of all its correct variants; 0 without any
};
BOOST_DESCRIBE_STRUCT(technique, (), (family, move, variants, correct, best_of, geometric_mean, median))

// A family in words: "operator fusion". Families are the phases of moves.
std::string family_of_move(const std::string& move);

// Each family that was used, followed by its kinds of moves, the most used in best variants first.
std::vector<technique> techniques_of(const std::vector<tried_variant>& variants);

}  // namespace cudal1::cli
