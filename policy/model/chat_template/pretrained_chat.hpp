// How a pretrained model is talked to: its tokenizer, its chat template, and the tokens that end its answers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "policy/chat/chat_types.hpp"
#include "policy/model/chat_template/chat_template.hpp"
#include "policy/model/tokenizer/tokenizer.hpp"

namespace cudal1 {

class pretrained_chat {
 public:
  // A Hugging Face folder (chat_template.jinja or tokenizer_config.json, generation_config.json or config.json) or a
  // GGUF file. errc::not_found where it has no chat template: it is no model for chats.
  static expected<pretrained_chat> open(const std::string& path);

  // The tokens of a conversation up to where the model's answer begins. Texts of special tokens within the messages
  // become special tokens, as transformers has it.
  expected<std::vector<token>> prompt_of(std::span<const chat_message> messages) const;
  const tokenizer& words() const { return words_; }
  const std::vector<token>& ends() const { return ends_; }

 private:
  // What the files say beside the tokenizer.
  struct settings {
    std::string source;  // of the template
    std::string bos, eos;
    std::vector<token> ends;
  };
  pretrained_chat(tokenizer words, chat_template shape, settings found)
      : words_(std::move(words)),
        template_(std::move(shape)),
        bos_(std::move(found.bos)),
        eos_(std::move(found.eos)),
        ends_(std::move(found.ends)) {}
  static expected<settings> settings_of_folder(const std::string& folder);
  static expected<settings> settings_of_gguf(const std::string& path, const tokenizer& words);

  tokenizer words_;
  chat_template template_;
  std::string bos_, eos_;
  std::vector<token> ends_;
};

}  // namespace cudal1
