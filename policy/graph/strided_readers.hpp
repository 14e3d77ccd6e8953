// What reads a value: whether all of it could read the value in place if that lay in memory with other strides, as a
// slice of a larger tensor does.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sandbox/program/task.hpp"

namespace cudal1 {

class strided_readers {
 public:
  // `p` must outlive it.
  explicit strided_readers(const checked_program& p);

  // errc::invalid_argument with the reason where a reader of the value, of this type from then on, or of its views
  // would copy it and does not do so now, could not read it, or would make an output with other strides.
  expected<void> check(const std::string& value, const tensor_type& now) const;

 private:
  using changed_types = std::map<std::string, tensor_type>;

  expected<changed_types> results_of(int step, const changed_types& changed) const;
  expected<void> check_operands(int step, const operator_call& call, const changed_types& changed) const;
  bool is_output(const std::string& value) const;

  const checked_program* p_;
  std::map<std::string, std::set<int>> readers_;
};

}  // namespace cudal1
