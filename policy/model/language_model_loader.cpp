#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

#include "config/installation.hpp"
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

// OpenMP's threads wait for each other by spinning, for milliseconds unless told otherwise: beside other work training
// was ten times as slow. 5,000 rounds keep the speed on an idle machine and lose little on a busy one. The library
// reads it as it is loaded.
void limit_spinning() {
  ::setenv("GOMP_SPINCOUNT", "5000", 0);
}

// Never unloaded.
expected<const language_model_library*> loaded() {
  static const auto found = []() -> expected<const language_model_library*> {
    const std::string path = library_path();
    limit_spinning();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return fail(errc::unsupported, "the language model needs LibTorch: {}; {}", dlerror(), libtorch_advice());
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

expected<std::unique_ptr<language_model>> language_model::open(const std::string& path, model_precision precision,
                                                               const std::string& device) {
  CUDAL1_TRY(const auto* library, loaded());
  return library->open(path, precision, device);
}

expected<std::unique_ptr<text_trainer>> text_trainer::open(const std::string& model, const trainer_options& options) {
  CUDAL1_TRY(const auto* library, loaded());
  return library->open_trainer(model, options);
}

expected<void> language_model::use_threads(int count) {
  CUDAL1_TRY(const auto* library, loaded());
  library->use_threads(count);
  return {};
}

}  // namespace cudal1
