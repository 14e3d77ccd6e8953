// Audits of scores and rewards as text.
#pragma once

#include <string>

#include "tools/cli/report/reward_audit.hpp"
#include "tools/cli/report/score_audit.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// "the median ratio of all 24 pairs is 1.5: the stored score"
std::string finding_text(const score_audit& a);
// One line: buckets, variance, median, score.
std::string cuda_l1_text(const score_audit& a);
std::string gates_text(const verdict& v, const terminal& t);
// A group with all its members, and every step of the reward of one of them.
std::string group_text(const reward_audit& a, const std::string& variant, const terminal& t);

}  // namespace cudal1::cli
