// Renders the chat template of a language model. The templates are written in Jinja: a subset of it is supported, with
// an error that names what is outside.
#pragma once

#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "policy/model/chat_template/template_syntax.hpp"

namespace cudal1 {

class chat_template {
 public:
  // errc::parse_error and errc::unsupported name the line.
  static expected<chat_template> make(const std::string& source);
  // `variables`: an object, usually with messages, add_generation_prompt, bos_token and eos_token.
  // errc::invalid_argument where the template refuses them, or uses a value in a way that is not possible; the line is
  // named.
  expected<std::string> render(const json& variables) const;

 private:
  std::vector<template_statement> statements_;
};

}  // namespace cudal1
