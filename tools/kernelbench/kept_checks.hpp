// What checks of exported files have found, kept by content in a data folder, so that an export that was interrupted
// goes on where it ended: DATA/checks/TASK/KEY.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "tools/kernelbench/file_check_result.hpp"

namespace cudal1::cli {

struct kept_check {
  std::string task, variant;  // ids
  file_check_result result;
};
BOOST_DESCRIBE_STRUCT(kept_check, (), (task, variant, result))

// Thread-safe: a record is one file, written beside and renamed.
class kept_checks {
 public:
  explicit kept_checks(const std::string& data) : folder_(data + "/checks") {}

  // None where there is no such record, or it cannot be read.
  std::optional<file_check_result> find(const std::string& task, const std::string& key) const;
  expected<void> keep(const kept_check& found, const std::string& key) const;
  // The kept checks of the task, in no order.
  std::vector<kept_check> of_task(const std::string& task) const;

 private:
  std::string folder_;
};

}  // namespace cudal1::cli
