#include <filesystem>

#include <dlfcn.h>

#include "policy/model/language_model_library.hpp"

namespace cudal1 {

namespace {

// In ../lib of an installed program, else where it was built.
std::string library_path() {
  namespace fs = std::filesystem;
  std::error_code problem;
  const auto built = fs::path(CUDAL1_BUILT_MODEL_LIBRARY);
  if (const auto self = fs::read_symlink("/proc/self/exe", problem); !problem) {
    const auto installed = self.parent_path().parent_path() / "lib" / built.filename();
    if (fs::is_regular_file(installed, problem)) return installed.string();
  }
  return built.string();
}

// Never unloaded.
expected<const language_model_library*> loaded() {
  static const auto found = []() -> expected<const language_model_library*> {
    const std::string path = library_path();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return fail(errc::unsupported, "the language model needs LibTorch: {}; `cudal1-setup` finds it", dlerror());
    const void* symbol = dlsym(library, language_model_symbol);
    if (symbol == nullptr) return fail(errc::unsupported, "{} is not the language model's library", path);
    return static_cast<const language_model_library*>(symbol);
  }();
  return found;
}

}  // namespace

expected<std::unique_ptr<language_model>> language_model::make(const model_shape& shape, uint64_t seed,
                                                               model_precision precision) {
  CUDAL1_TRY(const auto* library, loaded());
  return library->make(shape, seed, precision);
}

expected<std::unique_ptr<language_model>> language_model::load(const model_shape& shape, const std::string& path) {
  CUDAL1_TRY(const auto* library, loaded());
  return library->load(shape, path);
}

expected<void> language_model::use_threads(int count) {
  CUDAL1_TRY(const auto* library, loaded());
  library->use_threads(count);
  return {};
}

}  // namespace cudal1
