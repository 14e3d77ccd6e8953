// A recorded space: small tasks with all their candidates, or the first so many, measured, so that policies can be
// trained and compared without a device. One file of JSON lines: the first says where and when it was measured, each
// other one is a task with its candidates. The file's SHA-256 names it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"

namespace cudal1 {

struct recorded_candidate {
  std::string schedule;
  std::string variant;  // program id
  outcome result = outcome::correct;
  double score = 0;  // 0 unless correct
  interval score_interval;
  score_clock scored_by = score_clock::call;
  double reference_us = 0, variant_us = 0;                // call times
  double reference_device_us = 0, variant_device_us = 0;  // 0: not measured
  int64_t registers = 0, blocks = 0, threads = 0;         // of the largest launch
  std::vector<int64_t> ratios;  // of pairs, reference / variant by that clock: natural logarithms in units of 1e-4
};
BOOST_DESCRIBE_STRUCT(recorded_candidate, (),
                      (schedule, variant, result, score, score_interval, scored_by, reference_us, variant_us,
                       reference_device_us, variant_device_us, registers, blocks, threads, ratios))

struct recorded_task {
  std::string name, operators;  // operators: of its steps, in order
  std::string text;             // canonical_text of the task
  std::vector<recorded_candidate> candidates;
};
BOOST_DESCRIBE_STRUCT(recorded_task, (), (name, operators, text, candidates))

struct recorded_header {
  int64_t format = 1;
  environment where;
  int64_t measured_from_unix_ms = 0, measured_to_unix_ms = 0;
  std::string made_by;  // program and version
  int64_t tasks = 0, candidates = 0;
};
BOOST_DESCRIBE_STRUCT(recorded_header, (),
                      (format, where, measured_from_unix_ms, measured_to_unix_ms, made_by, tasks, candidates))

struct recorded_space {
  recorded_header head;
  std::vector<recorded_task> tasks;  // by name
  std::string sha256;                // of the file
};

// Of the tasks that a store has measured in the class of its newest verdict's environment: every variant that a
// schedule made, with its newest conclusive verdict. Tasks with fewer than `least` candidates are left out.
// errc::not_found if none is left.
expected<recorded_space> space_in_store(store& records, std::size_t least, const std::string& made_by);
// Ends with the file's SHA-256 in `sha256`.
expected<void> write_space(recorded_space& s, const std::string& path);
// errc::corrupt names the line that cannot be read.
expected<recorded_space> read_space(const std::string& path);

// A score as another measurement of the candidate might have had it: the median of as many of its pairs, drawn with
// replacement; 0 if it failed. `random` is the state of the source (SplitMix64).
double drawn_score(const recorded_candidate& c, uint64_t& random);

}  // namespace cudal1
