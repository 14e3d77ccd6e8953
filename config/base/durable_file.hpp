// Files that are whole and on disk, or not there, also after a crash.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "config/base/error.hpp"

namespace cudal1 {

struct durable_file {
  std::string path;
  mode_t mode = 0600;
  // Of the file while it is written: six random characters are added. In the same file system as `path`, and next to it
  // if empty.
  std::string temporary_prefix = {};
};

// Writes a file under a temporary name, then renames it: readers see the old content or the new one. It is on disk when
// this returns. `fill` writes the content to a descriptor. After an error no temporary file is left, and the old
// content stays unless only the folder could not be synced. Errors: io_error, and those of `fill`.
expected<void> write_durably(const durable_file& file, const std::function<expected<void>(int)>& fill);
expected<void> write_durably(const durable_file& file, std::string_view content);

// Writes all of it to a descriptor. errc::io_error, which names `what` is written.
expected<void> write_all(int fd, std::string_view content, const std::string& what);

// Afterwards the names in a folder are on disk, as in it now. errc::io_error.
expected<void> sync_folder(const std::string& folder);

}  // namespace cudal1
