// The results of a machine's evaluations that its coordinator has not acknowledged: files in DATA/results, so that a
// process that is killed does not lose them. A coordinator alone needs none: there they are in the store.
#pragma once

#include <string>
#include <vector>

#include "actors/messages/messages.hpp"

namespace cudal1 {

class result_spool {
 public:
  explicit result_spool(const std::string& data) : folder_(data + "/results") {}

  // On disk when this returns. errc::io_error.
  expected<void> put(const message::work_done& m) const;
  void remove(uint64_t lease) const;
  // The results that an earlier process left; files that cannot be read are removed, with a warning.
  std::vector<message::work_done> load() const;

 private:
  std::string path_of(uint64_t lease) const;

  std::string folder_;
};

}  // namespace cudal1
