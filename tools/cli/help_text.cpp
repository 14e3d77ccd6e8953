#include "tools/cli/help_text.hpp"

#include <algorithm>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t usual_width = 80;

bool is_paragraph(const std::string& line) {
  return line.size() > usual_width && line.front() != ' ';
}

// The lines of a paragraph, which are as long as those of the source, as one.
std::string joined_paragraphs(const std::string& text) {
  std::string out;
  bool continues = false;
  for (const auto& line : split_lines(text)) {
    const bool goes_on = continues && !line.empty() && line.front() != ' ' && !line.starts_with("Usage: ");
    if (!out.empty()) out += goes_on ? ' ' : '\n';
    out += line;
    continues = is_paragraph(line);
  }
  return out + "\n";
}

}  // namespace

std::string help_formatter::make_option_opts(const CLI::Option* option) const {
  std::string kind = option->get_type_name();
  kind.erase(std::min(kind.find(':'), kind.size()));
  std::string text = option->get_type_size() == 0 || kind.empty() ? "" : " " + kind;
  if (option->get_expected_max() > 1) text += " ...";
  if (!option->get_default_str().empty()) text += " (" + option->get_default_str() + ")";
  return text;
}

std::string help_formatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const auto text = CLI::Formatter::make_help(app, std::move(name), mode);
  return width_ == 0 ? text : rewrap(joined_paragraphs(text), width_);
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  // CLI11 keeps them in its description of the type alone: "NAME:{low,normal,high}".
  const auto kind = option.get_type_name();
  const auto begins = kind.find('{'), ends = kind.find('}');
  if (begins == std::string::npos || ends == std::string::npos || ends < begins) return {};
  std::vector<std::string> all;
  std::string_view rest = std::string_view(kind).substr(begins + 1, ends - begins - 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    all.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return all;
}

}  // namespace cudal1::cli
