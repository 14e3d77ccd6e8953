// Blobs: files whose name is the SHA-256 of their bytes, with what they are behind it: "3f9a....safetensors".
#pragma once

#include <string>
#include <string_view>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// 64 lower-case hexadecimal digits, then just that ending (".safetensors").
bool is_blob_name(std::string_view name, std::string_view ending);

// The blob for reading, after a check that it is one: a regular file with the bytes that its name says. This process
// reads a file for that once, and again where its size, its time or its inode is another one. errc::not_found, and
// errc::corrupt for other bytes. Thread-safe.
expected<unique_fd> open_blob(const std::string& folder, const std::string& name);

}  // namespace cudal1
