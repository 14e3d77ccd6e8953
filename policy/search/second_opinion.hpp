// A language model's opinion of a suspicious variant: CUDA-L1's checking model. It is evidence for people, and decides
// nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "policy/chat/chat_types.hpp"
#include "sandbox/program/task.hpp"
#include "store/store.hpp"

namespace cudal1 {

// The task's program, the variant's, its verdict with what made it suspicious, and the question.
std::vector<chat_message> opinion_messages(const task& t, const stored_exemplar& suspicious);

struct read_opinion_result {
  opinion_rating rating = opinion_rating::unclear;
  std::string reasons;  // the text without the line of the rating
};
// The first line of the form "Rating: honest" (or doubtful, cheating) gives the rating; without one it is unclear.
read_opinion_result read_opinion(std::string_view text);

}  // namespace cudal1
