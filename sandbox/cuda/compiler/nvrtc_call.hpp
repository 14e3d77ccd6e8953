// One compilation by NVRTC, in this process.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cuda/compiler/compile_messages.hpp"

namespace cudal1 {

struct nvrtc_result {
  compile_status status = compile_status::internal_error;
  std::string cubin, ptx, log;  // the log is cut at the limit
};

// Never throws: errors are in the status and the log.
nvrtc_result compile_with_nvrtc(const std::string& source, const std::string& architecture,
                                const std::vector<std::string>& include, int64_t log_limit_bytes);

// The options besides architecture and search path; they are part of the cache key. `headers`: the sets that the
// program includes, or their folders.
const std::vector<std::string>& nvrtc_options(const std::vector<std::string>& headers);

}  // namespace cudal1
