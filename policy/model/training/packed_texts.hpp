// Texts beside each other in rows, and what of them is learned. Includes LibTorch: only for the model's library.
#pragma once

#include <span>
#include <vector>

#include "policy/model/network.hpp"
#include "policy/model/training/text_trainer.hpp"

namespace cudal1 {

// Some texts of a batch in one row.
struct text_row {
  std::vector<std::size_t> texts;  // of the batch
  std::vector<int64_t> lengths;    // of each
  torch::Tensor tokens;            // int64 [places]
  std::vector<int64_t> before;     // place of the token before each written one
  std::vector<int64_t> written;    // the written tokens
};

// errc::invalid_argument names the sequence that is malformed or too long, or says that nothing is to be learned.
expected<void> check_texts(std::span<const text_episode> batch, const model_shape& shape);
// Longest first, each into the first row with room. Always the same rows for the same batch.
std::vector<text_row> rows_of(std::span<const text_episode> batch, int64_t most_places);

// Of the written tokens of a row, [tokens], in float32 or float64.
struct written_scores {
  torch::Tensor log_p;    // among the allowed tokens
  torch::Tensor entropy;  // of these
  torch::Tensor of_all;   // log probability among all tokens: as the sampler reports it
};
// The logits of all places would be large: they are computed some hundreds at a time, and again for the gradients.
written_scores scores_of(const network& net, const text_row& row, std::span<const text_episode> batch,
                         network::layers_are mode);

}  // namespace cudal1
