#include "policy/chat/request_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "config/base/split_mix.hpp"
#include "config/base/utf8.hpp"

namespace cudal1 {

namespace {

constexpr int64_t bytes_per_token = 3, tokens_per_message = 8;

bool names(const server_error& e, std::string_view field) {
  if (e.param == field) return true;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  for (auto at = e.message.find(field); at != std::string::npos; at = e.message.find(field, at + 1)) {
    const auto after = at + field.size();
    if ((at == 0 || !letter(e.message[at - 1])) && (after >= e.message.size() || !letter(e.message[after])))
      return true;
  }
  return false;
}

// Refused as such, not for its value: "max_tokens is too large" is about the value.
bool is_about_support(const server_error& e) {
  constexpr std::array<std::string_view, 8> words = {"unsupported",  "not support",     "unrecognized",  "unknown",
                                                     "extra inputs", "extra_forbidden", "not permitted", "not allowed"};
  std::string text = e.message + " " + e.code;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(words, [&](std::string_view w) { return text.find(w) != std::string::npos; });
}

}  // namespace

server_dialect adapted(server_dialect sent, const server_error& refusal) {
  if ((refusal.status != 400 && refusal.status != 422) || !is_about_support(refusal)) return sent;
  if (!sent.completion_tokens && names(refusal, "max_tokens")) {
    sent.completion_tokens = true;
  } else if (names(refusal, "stream_options")) {
    sent.stream_options = false;
  } else if (names(refusal, "temperature")) {
    sent.temperature = false;
  } else if (names(refusal, "top_p")) {
    sent.top_p = false;
  } else if (names(refusal, "seed")) {
    sent.seed = false;
  }
  return sent;
}

server_dialect both(const server_dialect& a, const server_dialect& b) {
  return {.completion_tokens = a.completion_tokens || b.completion_tokens,
          .temperature = a.temperature && b.temperature,
          .top_p = a.top_p && b.top_p,
          .seed = a.seed && b.seed,
          .stream_options = a.stream_options && b.stream_options};
}

int64_t seed_of(const chat_request& r) {
  return static_cast<int64_t>(split_mix(r.seed + split_mix_step * (static_cast<uint64_t>(r.sample) + 1)) >> 33);
}

std::string request_body(const chat_request& r, const std::string& model, const server_dialect& d) {
  json messages = json::make_array();
  for (const auto& m : r.messages)
    messages.push_back(json::make_object({{"role", m.role}, {"content", replace_invalid_utf8(m.content)}}));
  json body = json::make_object({{"model", model}, {"messages", std::move(messages)}});
  body.set(d.completion_tokens ? "max_completion_tokens" : "max_tokens", r.max_tokens);
  if (d.temperature) body.set("temperature", r.temperature.value());
  if (d.top_p) body.set("top_p", r.top_p.value());
  if (d.seed) body.set("seed", seed_of(r));
  body.set("stream", d.stream);
  if (d.stream && d.stream_options) body.set("stream_options", json::make_object({{"include_usage", true}}));
  return body.text();
}

std::string answer_key(const std::string& url, const std::string& model, const chat_request& r) {
  return sha256_hex(json::make_object({{"format", 1}, {"url", url}, {"model", model}, {"request", to_json(r)}}).text());
}

int64_t estimated_tokens(int64_t bytes) {
  return (bytes + bytes_per_token - 1) / bytes_per_token;
}

int64_t estimated_prompt_tokens(const chat_request& r) {
  int64_t tokens = 0;
  for (const auto& m : r.messages)
    tokens += tokens_per_message + estimated_tokens(static_cast<int64_t>(m.content.size()));
  return tokens;
}

}  // namespace cudal1
