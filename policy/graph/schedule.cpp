#include "policy/graph/schedule.hpp"

#include <cctype>

namespace cudal1 {

namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

bool is_word(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

bool is_value(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '+' && c != '-') return false;
  }
  return true;
}

expected<std::pair<std::string, std::string>> parse_parameter(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos)
    return fail(errc::parse_error, "\"{}\" should be a parameter, as in threads=256", trim(text));
  const auto name = trim(text.substr(0, equals));
  const auto value = trim(text.substr(equals + 1));
  if (!is_word(name) || !is_value(value))
    return fail(errc::parse_error, "\"{}\" should be a parameter, as in threads=256", trim(text));
  return std::pair(std::string(name), std::string(value));
}

expected<move> parse_move(std::string_view text) {
  const auto open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')')
    return fail(errc::parse_error, "\"{}\" should be a move, as in fuse(steps=0..2)", text);
  move out;
  out.name = std::string(trim(text.substr(0, open)));
  if (!is_word(out.name)) return fail(errc::parse_error, "\"{}\" is not the name of a move", out.name);
  std::string_view rest = trim(text.substr(open + 1, text.size() - open - 2));
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    CUDAL1_TRY(auto parameter, parse_parameter(rest.substr(0, comma)));
    out.parameters.push_back(std::move(parameter));
    if (comma == std::string_view::npos) break;
    rest = trim(rest.substr(comma + 1));
    if (rest.empty()) return fail(errc::parse_error, "a parameter is missing after the last comma of \"{}\"", text);
  }
  return out;
}

}  // namespace

std::string print_schedule(const schedule& s) {
  std::string out;
  for (const auto& m : s.moves) {
    if (!out.empty()) out += "; ";
    out += m.name + '(';
    for (std::size_t i = 0; i < m.parameters.size(); ++i) {
      if (i > 0) out += ", ";
      out += m.parameters[i].first + '=' + m.parameters[i].second;
    }
    out += ')';
  }
  return out;
}

expected<schedule> parse_schedule(std::string_view text) {
  schedule out;
  text = trim(text);
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto part = trim(text.substr(0, end));
    const std::string where = "move " + std::to_string(out.moves.size());
    if (part.empty()) return fail(errc::parse_error, "{}: there is no move between two semicolons", where);
    auto parsed = parse_move(part);
    if (!parsed) return fail_in(where, parsed.error());
    out.moves.push_back(std::move(*parsed));
    if (end == std::string_view::npos) break;
    text = trim(text.substr(end + 1));
  }
  return out;
}

}  // namespace cudal1
