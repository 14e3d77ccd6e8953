// Why answers of language models failed, counted by kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cudal1::cli {

// The first line of a reason without what differs from answer to answer: "#" for each number, and shortened.
std::string kind_of_reason(const std::string& reason);

// "12x the schedule has no moves", ...: the five most frequent kinds, the most frequent first.
std::vector<std::string> frequent_reasons(const std::map<std::string, int64_t>& count_of_kind);

}  // namespace cudal1::cli
