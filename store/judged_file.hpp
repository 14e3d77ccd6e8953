// A Python file with ModelNew that the referee of tools/python/submissions has judged: somebody else's kernel, which is
// no program of ours and no variant. Shown beside the variants, and in prompts as foreign.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

struct judged_file {
  std::string id;    // SHA-256 of task, device's model and source: judging it again replaces the record
  std::string task;  // id
  std::string name, language;
  std::string source;         // Python
  std::string device, model;  // that it was judged on: "cuda:0", "NVIDIA H200"
  bool correct = false;
  std::string kind, why;  // of a refusal: its class (tools/python/submissions/README.md), and what showed it
  std::vector<std::string> evidence, notes;
  double speedup = 0;  // over eager mode, both in calls from Python: not comparable with scores; 0 unless correct
  interval speedup_interval;        // 95%
  double eager_us = 0, own_us = 0;  // of a call
  int64_t pairs = 0;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(judged_file, (),
                      (id, task, name, language, source, device, model, correct, kind, why, evidence, notes, speedup,
                       speedup_interval, eager_us, own_us, pairs, time_unix_ms))

// Sets its id.
judged_file with_id(judged_file f);
// Whether a refusal of this class is evidence of a way to cheat, not of a mistake.
bool is_hack(const judged_file& f);

}  // namespace cudal1
