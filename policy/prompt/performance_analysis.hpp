// The performance analysis of a task's variants, from what is measured: which moves the fast ones share that slow or
// failed ones lack, their times beside the reference and the roof, what bounds them, what to try. CUDA-L1's policy
// writes such a text itself; for schedules it is made from these data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "policy/prompt/prompt.hpp"
#include "policy/prompt/task_bounds.hpp"

namespace cudal1 {

// How often a move occurs in the schedules of each kind of variant, as a share of them; 0 where there are none.
struct move_contrast {
  std::string move;  // its name, or with the value of a tuning parameter: "block(threads=256)"
  double in_fast = 0, in_slow = 0, in_failed = 0;
};
BOOST_DESCRIBE_STRUCT(move_contrast, (), (move, in_fast, in_slow, in_failed))

// What the time of a variant is mostly spent on, as far as the measurements tell.
BOOST_DEFINE_ENUM_CLASS(time_bound,
                        unknown,  // there is no roof of this device, or no variant
                        memory,   // close to the memory roof: only moving fewer bytes helps
                        compute,  // close to the roof of its arithmetic
                        call,     // the call's overhead is most of the call time: fewer and shorter launches help
                        code)     // far from both roofs: the kernels themselves can be better

struct performance_analysis {
  std::string task;                                  // its name
  int64_t fast = 0, slow = 0, failed = 0;            // variants of this task that are compared
  std::string best;                                  // id; "" without a correct variant
  std::string best_moves;                            // its schedule; "" if it was written as a program
  measured_score measured;                           // of the best
  double roof_us = 0, roof_share = 0, floor_us = 0;  // 0: unknown
  time_bound bound = time_bound::unknown;
  std::vector<move_contrast> helping;  // in most of the fast ones and in few others, the clearest first
  std::vector<move_contrast> harming;  // in slow or failed ones and in none of the fast, the clearest first
  std::vector<std::string> failures;   // "wrong_answer 2"
  std::vector<std::string> advice;     // sentences
};
BOOST_DESCRIBE_STRUCT(performance_analysis, (),
                      (task, fast, slow, failed, best, best_moves, measured, roof_us, roof_share, floor_us, bound,
                       helping, harming, failures, advice))

// Correct variants of this task within a factor of bucket_ratio (store/exemplars.hpp) of the best score are fast, the
// other correct ones slow. Borrowed exemplars count neither way: their times are of another task.
performance_analysis analyse(const task& t, const std::vector<exemplar>& correct, const std::vector<exemplar>& failed,
                             const task_bounds& bounds);

// As sentences, one paragraph. "" if there is nothing to compare.
std::string sentences(const performance_analysis& a);

}  // namespace cudal1
