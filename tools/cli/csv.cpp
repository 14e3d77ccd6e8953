#include "tools/cli/csv.hpp"

#include <algorithm>

namespace cudal1::cli {

namespace {

using cells = std::vector<std::pair<std::string, std::string>>;  // by column

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

void flatten(const json& value, const std::string& name, cells& row) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.as_object())
      flatten(member, name.empty() ? key : name + "." + key, row);
  } else if (!value.is_null()) {
    row.emplace_back(name, value.is_string() ? value.as_string() : value.text());
  }
}

const json* rows_of(const json& document, const std::vector<std::string>& members) {
  if (document.is_array()) return &document;
  for (const auto& name : members)
    if (const auto* found = document.find(name); found != nullptr && found->is_array()) return found;
  return nullptr;
}

}  // namespace

std::string csv_text(const json& document, const std::vector<std::string>& members) {
  const json* const list = rows_of(document, members);
  if (list == nullptr) return "";
  std::vector<std::string> columns;
  std::vector<cells> rows;
  for (const auto& item : list->as_array()) {
    flatten(item, "", rows.emplace_back());
    for (const auto& [column, text] : rows.back())
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
  }
  std::string out;
  for (const auto& column : columns)
    out += (&column == &columns.front() ? "" : ",") + quoted(column);
  if (!columns.empty()) out += "\n";
  for (const auto& row : rows) {
    for (const auto& column : columns) {
      if (&column != &columns.front()) out += ",";
      const auto cell = std::ranges::find(row, column, &cells::value_type::first);
      if (cell != row.end()) out += quoted(cell->second);
    }
    out += "\n";
  }
  return out;
}

}  // namespace cudal1::cli
