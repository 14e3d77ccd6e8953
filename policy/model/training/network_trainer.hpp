// The trainer of a network. Includes LibTorch: only for the model's library.
#pragma once

#include <memory>
#include <string>

#include "policy/model/training/text_trainer.hpp"

namespace cudal1 {

// As text_trainer::open.
expected<std::unique_ptr<text_trainer>> make_text_trainer(const std::string& model, const trainer_options& options);

}  // namespace cudal1
