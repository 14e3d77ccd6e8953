#include "sandbox/cuda/compiler/nvrtc_call.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include <nvrtc.h>

namespace cudal1 {
namespace {

class program_handle {
 public:
  program_handle() = default;
  ~program_handle() {
    if (handle_ != nullptr) nvrtcDestroyProgram(&handle_);
  }
  program_handle(const program_handle&) = delete;
  program_handle& operator=(const program_handle&) = delete;
  nvrtcProgram* address() { return &handle_; }
  nvrtcProgram get() const { return handle_; }

 private:
  nvrtcProgram handle_ = nullptr;
};

compile_status status_of(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return compile_status::compiled;
    case NVRTC_ERROR_COMPILATION:
    case NVRTC_ERROR_INVALID_INPUT:
      return compile_status::refused;
    case NVRTC_ERROR_OUT_OF_MEMORY:
      return compile_status::out_of_memory;
    case NVRTC_ERROR_INVALID_OPTION:
      return compile_status::bad_option;
    default:
      return compile_status::internal_error;
  }
}

// NVRTC's results come in two calls, size and content.
template <class Size, class Content>
bool fetch(nvrtcProgram program, Size size, Content content, std::string& into) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != NVRTC_SUCCESS) return false;
  into.resize(bytes);
  return bytes == 0 || content(program, into.data()) == NVRTC_SUCCESS;
}

// The size of a text counts a closing zero.
template <class Size, class Content>
bool fetch_text(nvrtcProgram program, Size size, Content content, std::string& into) {
  if (!fetch(program, size, content, into)) return false;
  if (!into.empty() && into.back() == '\0') into.pop_back();
  return true;
}

void compile(const std::string& source, const std::vector<std::string>& options, nvrtc_result& result) {
  program_handle program;
  auto code = nvrtcCreateProgram(program.address(), source.c_str(), "program.cu", 0, nullptr, nullptr);
  if (code == NVRTC_SUCCESS) {
    std::vector<const char*> texts;
    for (const auto& option : options)
      texts.push_back(option.c_str());
    code = nvrtcCompileProgram(program.get(), static_cast<int>(texts.size()), texts.data());
    (void)fetch_text(program.get(), nvrtcGetProgramLogSize, nvrtcGetProgramLog, result.log);
  }
  result.status = status_of(code);
  if (code != NVRTC_SUCCESS) {
    if (result.status == compile_status::internal_error) result.log.append(nvrtcGetErrorString(code));
    return;
  }
  if (!fetch(program.get(), nvrtcGetCUBINSize, nvrtcGetCUBIN, result.cubin) ||
      !fetch_text(program.get(), nvrtcGetPTXSize, nvrtcGetPTX, result.ptx))
    result.status = compile_status::internal_error;
}

}  // namespace

nvrtc_result compile_with_nvrtc(const std::string& source, const std::string& architecture,
                                const std::vector<std::string>& include, int64_t log_limit_bytes) {
  nvrtc_result result;
  try {
    auto options = nvrtc_options(include);
    options.push_back("--gpu-architecture=" + architecture);
    for (const auto& folder : include)
      options.push_back("--include-path=" + folder);
    compile(source, options, result);
  } catch (const std::bad_alloc&) {
    result.status = compile_status::out_of_memory;
  } catch (const std::exception& e) {
    result.status = compile_status::internal_error;
    result.log = e.what();
  }
  std::erase(result.log, '\0');  // ptxas's part ends in one
  result.log.resize(std::min(result.log.size(), static_cast<std::size_t>(std::max<int64_t>(log_limit_bytes, 0))));
  return result;
}

}  // namespace cudal1
