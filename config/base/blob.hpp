// Blobs: files named by the SHA-256 of their content and an ending for their type: "3f9a....safetensors".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Whether `name` is 64 lower-case hexadecimal digits and then exactly `ending` (".safetensors").
bool is_blob_name(std::string_view name, std::string_view ending);

// Opens the blob for reading after verifying that it is a regular file whose content matches its name. A file is
// verified once per process, and again if its size, time or inode has changed. errc::not_found; errc::corrupt if the
// content does not match. Thread-safe.
expected<unique_fd> open_blob(const std::string& folder, const std::string& name);

// The content of a blob of at most `most_bytes`: a source file, a prompt. Errors as open_blob, and
// errc::invalid_argument if it is larger.
expected<std::string> read_blob(const std::string& folder, const std::string& name,
                                std::size_t most_bytes = std::size_t{4} << 20);

// The bytes of a blob from `offset` on, at most `most_bytes` of them, and its size. Errors as open_blob, and
// errc::invalid_argument: `name` is not one of a blob, whatever its ending, or there is no such byte.
struct blob_section {
  int64_t size = 0;
  std::string bytes;
};
expected<blob_section> read_blob_section(const std::string& folder, const std::string& name, int64_t offset,
                                         int64_t most_bytes);
// errc::invalid_argument unless it is the name of a blob with any ending of dots, lower-case letters and digits.
expected<void> check_blob_name(const std::string& name);
expected<int64_t> size_of_blob(const unique_fd& file, const std::string& name);

}  // namespace cudal1
