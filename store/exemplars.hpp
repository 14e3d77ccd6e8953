// What exemplars are drawn from: correct variants in buckets of their scores, and failed ones by their outcome. Drawing
// is as in CUDA-L1 (arXiv 2507.14111): distinct buckets with probability softmax((s - mean) / temperature), s the mean
// score of a bucket and the mean over buckets; then one variant of each, uniformly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// Environments whose scores may stand beside each other: the same kind and model of device and versions of libraries,
// not the device's number or the kernel's build. Records of an older cudal1, which do not name their libraries, are a
// class by their details.
std::string environment_class(const environment& e);
// The kind of its device: "cpu", "cuda".
std::string device_kind(const environment& e);

inline constexpr int64_t no_island = -1, most_islands = 1024;

BOOST_DEFINE_ENUM_CLASS(sampling_scheme,
                        buckets,  // from all variants
                        islands)  // from the variants of one island

struct exemplar_query {
  std::string task;               // id
  std::string environment_class;  // as environment_class() has it
  std::size_t correct = 2;        // at most so many, distinct
  std::size_t failed = 0;
  sampling_scheme scheme = sampling_scheme::buckets;
  int64_t islands = 4;     // that one is drawn from, uniformly
  double temperature = 1;  // of the softmax over scores; above 0. Small: only the best bucket; large: all alike
  uint64_t seed = 0;
};

// Scores that differ by less than a tenth share a bucket; those below 1/256 and above 256 share the outermost ones, so
// that their number is bounded.
inline constexpr double bucket_ratio = 1.1;
// The bucket of a score above 0.
int bucket_of(double score);

struct exemplar_list {
  int64_t count = 0;
  double sum = 0;  // of scores
};
BOOST_DESCRIBE_STRUCT(exemplar_list, (), (count, sum))

// Softmax((mean score - mean of means) / temperature), in the buckets' order. Empty buckets are an error of the caller.
std::vector<double> bucket_probabilities(const std::vector<exemplar_list>& buckets, double temperature);

// Places of `n` of the buckets, distinct, in the order of drawing: each with these probabilities over those that are
// left. All of them if there are fewer. `random` is the state of the source (SplitMix64).
std::vector<std::size_t> draw_buckets(std::vector<exemplar_list> buckets, double temperature, std::size_t n,
                                      uint64_t& random);
// `n` distinct numbers below `count`, uniformly; all of them if there are fewer.
std::vector<int64_t> draw_slots(int64_t count, std::size_t n, uint64_t& random);
// Below `n`, which is above 0, uniformly.
uint64_t draw_below(uint64_t n, uint64_t& random);

}  // namespace cudal1
