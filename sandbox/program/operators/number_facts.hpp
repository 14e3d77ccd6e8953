// What is known of the numbers in a program's values, whatever its inputs and weights hold, which are finite. Proofs
// and explanations are based on it, so its rules are sound, and incomplete.
#pragma once

#include <map>
#include <string>

#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

enum class finiteness {
  kept,     // every element is finite, unless a number on the way to it overflows
  unknown,  // an operator on the way to it may divide by zero, or have no value
  lost,     // no element is finite
  nan       // every element is NaN
};
BOOST_DESCRIBE_ENUM(finiteness, kept, unknown, lost, nan)

struct number_facts {
  bounds within;  // of all elements that are not NaN
  finiteness finite = finiteness::unknown;

  // Whether every element is the same number.
  bool is_one_number() const { return finite == finiteness::kept && within.low == within.high; }
};

using number_facts_by_value = std::map<std::string, number_facts, std::less<>>;

number_facts_by_value number_facts_of(const task& t);

}  // namespace cudal1
