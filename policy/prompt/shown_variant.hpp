// An earlier variant as a prompt shows it: its program, what was measured, and what is known about why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/prompt/prompt.hpp"
#include "sandbox/verify/roofline.hpp"

namespace cudal1 {

struct shown_variant {
  std::string id;
  std::string program;   // head and source, formatted for reading; the stored text if that is no legal program
  std::string schedule;  // "" for one that was written as a program
  std::string analysis;  // its author's words, or those of performance_analysis; "" if there are none
  std::string origin;
  double similarity = 1;  // of its task; 1: this task
  outcome result = outcome::correct;
  std::string reason;                     // of the outcome
  measured_score measured;                // only of a correct one
  bool confirmed = false;                 // measured again with new pairs
  double roof_share = 0;                  // of the least device time of the task in its device time; 0: unknown
  std::vector<std::string> failed_gates;  // "3 error: ...", with their numbers
  std::vector<std::string> worst;         // the worst element of each output that a gate refused, at most three
  std::vector<kernel_resources> resources;
  std::vector<std::string> counters;  // of its longest kernel, by Nsight Compute: counter_lines()
  std::vector<std::string> remarks;   // of the audit: what led to deeper checks, and notes
  std::string compiler_log;           // its useful lines
};
BOOST_DESCRIBE_STRUCT(shown_variant, (),
                      (id, program, schedule, analysis, origin, similarity, result, reason, measured, confirmed,
                       roof_share, failed_gates, worst, resources, counters, remarks, compiler_log))

// `roof`: of the task on the device that measured it.
shown_variant shown(const exemplar& e, const std::optional<roofline>& roof);

// The lines of a compiler's log that say what is wrong: errors and warnings with the places that they refer to, at most
// `most_lines`, without what follows from the first errors. "" stays "".
std::string useful_log(const std::string& log, std::size_t most_lines = 16);

// The program with its head on several lines; the text itself if it cannot be read.
std::string readable_program(const std::string& text);

}  // namespace cudal1
