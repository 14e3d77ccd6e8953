#include "policy/chat/server_error.hpp"

#include <charconv>

#include "config/base/utf8.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t longest_message = 2000;

std::string text_of(const json* member) {
  if (member == nullptr || member->is_null()) return {};
  return member->is_string() ? member->as_string() : member->text();
}

// One line, shortened.
std::string tidy(std::string text) {
  text = replace_invalid_utf8(std::move(text));
  std::string out;
  for (const char c : text)
    if (static_cast<unsigned char>(c) > ' ') {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  if (out.size() > longest_message) out = replace_invalid_utf8(out.substr(0, longest_message)) + "...";
  return out.empty() ? "(no explanation)" : out;
}

}  // namespace

server_error read_server_error(int status, const json& reply) {
  server_error e{.status = status, .message = "", .param = "", .code = ""};
  const json* inner = reply.find("error");
  if (inner != nullptr && inner->is_string()) {
    e.message = inner->as_string();
  } else {
    const json& from = inner != nullptr && inner->is_object() ? *inner : reply;
    e.message = text_of(from.find("message"));
    if (e.message.empty()) e.message = text_of(from.find("detail"));
    e.param = text_of(from.find("param"));
    e.code = text_of(from.find("code"));
    if (e.message.empty()) e.message = from.text();
  }
  if (status == 0) std::from_chars(e.code.data(), e.code.data() + e.code.size(), e.status);
  e.message = tidy(std::move(e.message));
  return e;
}

server_error read_server_body(int status, std::string_view body) {
  if (const auto reply = json::parse(body); reply && reply->is_object()) return read_server_error(status, *reply);
  return {.status = status, .message = tidy(std::string(body.substr(0, 2 * longest_message))), .param = "", .code = ""};
}

}  // namespace cudal1
