// The blobs of a data folder: large files in DATA/blobs, named by the SHA-256 of their content. A blob never changes,
// and is complete if it exists.
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

class blobs {
 public:
  explicit blobs(const std::string& data) : folder_(data + "/blobs") {}

  const std::string& folder() const { return folder_; }
  // Whether there is a file of that name. open_blob (config/base/blob.hpp) verifies its content.
  bool has(const std::string& name) const;

  // Adds a blob, and returns its name: the hash of the bytes and the ending (".json"). On disk when this returns.
  expected<std::string> put(std::string_view bytes, std::string_view ending) const;
  // The content, verified. errc::not_found, errc::corrupt.
  expected<std::string> get(const std::string& name) const;

  // Does nothing if there is none of that name.
  expected<void> remove(const std::string& name) const;

  // Adds the blob of that name from another folder: verifies it, then links it, or copies it from another file system.
  // Does nothing if it is here already. errc::not_found or errc::corrupt: of the other folder's file.
  expected<void> take(const std::string& from, const std::string& name) const;

 private:
  std::string folder_;
};

}  // namespace cudal1
