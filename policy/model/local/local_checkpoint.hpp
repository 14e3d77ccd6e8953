// The files of a local model as far as prompts and names of answers need them: everything but the weights. Without
// LibTorch.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "config/base/error.hpp"
#include "policy/chat/chat_models.hpp"
#include "policy/model/chat_template/pretrained_chat.hpp"
#include "policy/model/constraint/token_masks.hpp"
#include "policy/model/model_shape.hpp"

namespace cudal1 {

// Thread-safe.
class local_checkpoint {
 public:
  // A Hugging Face folder, a .gguf file or the folder of an adapter; one object for all that use the same path at the
  // same time. Errors of pretrained_weights::open and pretrained_chat::open.
  static expected<std::shared_ptr<const local_checkpoint>> open(const std::string& path);

  const std::string& path() const { return path_; }
  const pretrained_chat& chat() const { return chat_; }
  const model_shape& shape() const { return shape_; }
  // SHA-256 of the files' names, sizes and beginnings, and of samples of the weights: the same for copies.
  const std::string& identity() const { return identity_; }
  // In place of an endpoint's URL in the names of answers: the identity, and which weights and answers they are.
  std::string url(const chat_model& m) const;
  // Longest answer: max_answer_tokens, but at most half of the context.
  int64_t longest_answer(const chat_model& m) const;
  // What a prompt may have beside the longest answer, in tokens.
  int64_t longest_prompt(const chat_model& m) const { return shape_.context - longest_answer(m); }
  expected<int64_t> tokens_of(std::span<const chat_message> messages) const;
  // Made when it is first wanted. errc::unsupported from token_trie::make.
  expected<std::shared_ptr<const token_trie>> trie() const;

 private:
  local_checkpoint(std::string path, pretrained_chat chat, model_shape shape, std::string identity)
      : path_(std::move(path)), chat_(std::move(chat)), shape_(std::move(shape)), identity_(std::move(identity)) {}

  std::string path_;
  pretrained_chat chat_;
  model_shape shape_;
  std::string identity_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const token_trie> trie_;
};

// As local_checkpoint::identity. errc::not_found, errc::io_error.
expected<std::string> checkpoint_identity(const std::string& path);

}  // namespace cudal1
