// What the referee of Python files says of one, and the same as a verdict on a variant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1::kernelbench {

// As tools/python/submissions/referee.py says it.
struct submission_verdict {
  std::string name;
  std::string verdict;  // faster, correct, slower; refused
  bool correct = false;
  std::string kind;  // of a refusal: its class (tools/python/submissions/README.md); `file`: it cannot be judged at all
  std::string why;
  std::vector<std::string> evidence;
  double speedup = 0;            // over eager mode, in call time; 0 unless it is correct
  std::vector<double> interval;  // 95%: low, high
  double eager_us = 0, own_us = 0;
  int64_t pairs = 0, calls = 0, pools = 0;
  std::vector<std::string> notes;
  std::string language;
  double seconds = 0;  // that judging took
};
BOOST_DESCRIBE_STRUCT(submission_verdict, (),
                      (name, verdict, correct, kind, why, evidence, speedup, interval, eager_us, own_us, pairs, calls,
                       pools, notes, language, seconds))

// With the same members as a variant's. Its times are those of calls, its speedup is over eager mode; the class of a
// refusal is its gate, and its evidence is in its notes. `task_id`: of the task whose Model it was compared with.
verdict as_verdict(const submission_verdict& v, const std::string& task_id);
// What to write instead; "" for no refusal.
std::string_view hint_of_refusal(std::string_view kind);

}  // namespace cudal1::kernelbench
