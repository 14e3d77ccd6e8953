// What verification finds in a store.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1 {

struct store_check {
  std::map<std::string, int64_t> records;  // by column family
  int64_t problem_count = 0;
  std::vector<std::string> problems;  // the first of them
};
BOOST_DESCRIBE_STRUCT(store_check, (), (records, problem_count, problems))

}  // namespace cudal1
