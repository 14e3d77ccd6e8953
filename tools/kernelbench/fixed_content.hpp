// A tensor's bytes from a safetensors file: for constants that a module's state dictionary does not have.
#pragma once

#include <string>

#include "sandbox/program/task.hpp"

namespace cudal1::kernelbench {

// The most that is put into a file as data, compressed.
inline constexpr std::size_t max_embedded_bytes = 8 << 20;

// The bytes of `content.tensor`, row-major, after a check that it is of that type, compressed by zlib. `folder`: of the
// blobs. Errors: errc::not_found, errc::corrupt (the file), errc::unsupported (more than max_embedded_bytes).
expected<std::string> read_fixed_content(const std::string& folder, const tensor_content& content,
                                         const tensor_type& type);

}  // namespace cudal1::kernelbench
