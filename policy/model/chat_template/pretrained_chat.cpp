#include "policy/model/chat_template/pretrained_chat.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "config/base/text_file.hpp"
#include "policy/model/checkpoint/gguf_file.hpp"

namespace cudal1 {

namespace {

// A JSON file of the folder; null where there is none.
expected<json> file_of(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return json();
  CUDAL1_TRY(const std::string text, read_text_file(path));
  auto read = json::parse(text);
  if (!read) return fail_in(path, read.error());
  return read;
}

// A text, or the content of an added token.
std::string token_text(const json* v) {
  if (v != nullptr && v->is_object()) v = v->find("content");
  return v != nullptr && v->is_string() ? v->as_string() : "";
}

// One template, or the default one of several.
std::string template_source(const json* v) {
  if (v == nullptr || !v->is_array()) return token_text(v);
  for (const auto& each : v->as_array())
    if (token_text(each.find("name")) == "default") return token_text(each.find("template"));
  return "";
}

void add_end(std::vector<token>& ends, int64_t id) {
  if (id >= 0 && id < (1 << 24) && std::ranges::find(ends, static_cast<token>(id)) == ends.end())
    ends.push_back(static_cast<token>(id));
}

void add_ends(std::vector<token>& ends, const json& config) {
  const json* ids = config.find("eos_token_id");
  if (ids != nullptr && ids->is_int()) add_end(ends, ids->as_int());
  if (ids != nullptr && ids->is_array())
    for (const auto& each : ids->as_array())
      if (each.is_int()) add_end(ends, each.as_int());
}

}  // namespace

expected<pretrained_chat::settings> pretrained_chat::settings_of_folder(const std::string& folder) {
  settings out;
  CUDAL1_TRY(const json words, file_of(folder + "/tokenizer_config.json"));
  CUDAL1_TRY(const json generation, file_of(folder + "/generation_config.json"));
  CUDAL1_TRY(const json config, file_of(folder + "/config.json"));
  std::error_code ignored;
  if (const std::string path = folder + "/chat_template.jinja"; std::filesystem::exists(path, ignored)) {
    CUDAL1_TRY(out.source, read_text_file(path));
  } else {
    out.source = template_source(words.find("chat_template"));
  }
  out.bos = token_text(words.find("bos_token"));
  out.eos = token_text(words.find("eos_token"));
  add_ends(out.ends, generation);
  add_ends(out.ends, config);
  return out;
}

expected<pretrained_chat::settings> pretrained_chat::settings_of_gguf(const std::string& path, const tokenizer& words) {
  settings out;
  CUDAL1_TRY(const auto file, gguf_file::open(path));
  CUDAL1_TRY(const auto source, file.optional<std::string>("tokenizer.chat_template"));
  out.source = source.value_or("");
  CUDAL1_TRY(const auto bos, file.optional<int64_t>("tokenizer.ggml.bos_token_id"));
  CUDAL1_TRY(const auto eos, file.optional<int64_t>("tokenizer.ggml.eos_token_id"));
  CUDAL1_TRY(const auto eot, file.optional<int64_t>("tokenizer.ggml.eot_token_id"));
  out.bos = words.bytes_of(static_cast<token>(std::clamp<int64_t>(bos.value_or(-1), -1, 1 << 24)));
  out.eos = words.bytes_of(static_cast<token>(std::clamp<int64_t>(eos.value_or(-1), -1, 1 << 24)));
  add_end(out.ends, eos.value_or(-1));
  add_end(out.ends, eot.value_or(-1));
  return out;
}

expected<pretrained_chat> pretrained_chat::open(const std::string& path) {
  CUDAL1_TRY(auto words, tokenizer::open(path));
  CUDAL1_TRY(auto found, path.ends_with(".gguf") ? settings_of_gguf(path, words) : settings_of_folder(path));
  if (found.source.empty())
    return fail(errc::not_found, "{}: has no chat template; it is a base model, or its files are not complete", path);
  auto shape = chat_template::make(found.source);
  if (!shape) return fail_in(path, shape.error());
  if (const auto end = words.find(found.eos)) add_end(found.ends, *end);
  return pretrained_chat(std::move(words), std::move(*shape), std::move(found));
}

expected<std::vector<token>> pretrained_chat::prompt_of(std::span<const chat_message> messages) const {
  json turns = json::make_array();
  for (const auto& each : messages)
    turns.push_back(json::make_object({{"role", each.role}, {"content", each.content}}));
  CUDAL1_TRY(const std::string text, template_.render(json::make_object({{"messages", std::move(turns)},
                                                                         {"add_generation_prompt", true},
                                                                         {"bos_token", bos_},
                                                                         {"eos_token", eos_}})));
  return words_.encode(text);
}

}  // namespace cudal1
