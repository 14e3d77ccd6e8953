// What the library of the language model exports. It is loaded when the first model is made, since LibTorch takes a
// third of a second to load and most commands need no model.
#pragma once

#include <memory>
#include <string>

#include "policy/model/language_model.hpp"
#include "policy/model/training/text_trainer.hpp"

namespace cudal1 {

struct language_model_library {
  expected<std::unique_ptr<language_model>> (*make)(const model_shape& shape, uint64_t seed, model_precision precision);
  expected<std::unique_ptr<language_model>> (*load)(const model_shape& shape, const std::string& path);
  expected<std::unique_ptr<language_model>> (*open)(const std::string& path, model_precision precision,
                                                    const std::string& device);
  void (*use_threads)(int count);
  expected<std::unique_ptr<text_trainer>> (*open_trainer)(const std::string& model, const trainer_options& options);
};

// Its only symbol, a language_model_library.
inline constexpr const char* language_model_symbol = "cudal1_language_model_library";

}  // namespace cudal1
