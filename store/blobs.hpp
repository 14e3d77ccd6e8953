// The blobs of a data folder: large files that records name by the SHA-256 of their bytes, kept beside the store in
// DATA/blobs. A blob never changes, and is there whole or not at all.
#pragma once

#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

class blobs {
 public:
  explicit blobs(const std::string& data) : folder_(data + "/blobs") {}

  const std::string& folder() const { return folder_; }
  // Whether there is a file of that name. What is in it says open_blob (config/base/blob.hpp).
  bool has(const std::string& name) const;

  // Takes over the blob of that name from another folder: its bytes are checked, then it is linked, or copied where it
  // is on another file system. Nothing to do where there is one already. errc::not_found or errc::corrupt: of the other
  // folder's file.
  expected<void> take(const std::string& from, const std::string& name) const;

 private:
  std::string folder_;
};

}  // namespace cudal1
