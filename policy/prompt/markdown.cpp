#include "policy/prompt/markdown.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace cudal1 {

namespace {

std::string_view trimmed(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct fence {
  char mark = '`';
  std::size_t length = 0, indent = 0;
  std::string language;
};

// The fence that a line opens.
std::optional<fence> fence_of(std::string_view line) {
  fence f;
  f.indent = std::min(line.find_first_not_of(" \t"), line.size());
  const auto rest = line.substr(f.indent);
  if (rest.empty() || (rest.front() != '`' && rest.front() != '~')) return std::nullopt;
  f.mark = rest.front();
  f.length = std::min(rest.find_first_not_of(f.mark), rest.size());
  if (f.length < 3) return std::nullopt;
  const auto info = trimmed(rest.substr(f.length));
  if (f.mark == '`' && info.find('`') != std::string_view::npos) return std::nullopt;  // inline code
  f.language = std::string(info.substr(0, std::min(info.find_first_of(" \t"), info.size())));
  std::ranges::transform(f.language, f.language.begin(), [](unsigned char c) { return std::tolower(c); });
  return f;
}

bool closes(std::string_view line, const fence& open) {
  const auto rest = trimmed(line);
  return rest.size() >= open.length && rest.find_first_not_of(open.mark) == std::string_view::npos;
}

bool is_underline(std::string_view line) {
  const auto rest = trimmed(line);
  return rest.size() >= 3 && (rest.find_first_not_of('=') == std::string_view::npos ||
                              rest.find_first_not_of('-') == std::string_view::npos);
}

// `**Code**`, `__Code__`, with a colon or a number.
std::optional<std::string> bold_line(std::string_view line) {
  for (const std::string_view mark : {"**", "__"}) {
    auto rest = trimmed(line);
    if (rest.ends_with(':')) rest.remove_suffix(1);
    if (rest.size() > 2 * mark.size() && rest.starts_with(mark) && rest.ends_with(mark)) {
      rest = rest.substr(mark.size(), rest.size() - 2 * mark.size());
      if (rest.find(mark) == std::string_view::npos) return std::string(trimmed(rest));
    }
  }
  return std::nullopt;
}

std::optional<std::string> heading_of(std::string_view line) {
  const auto rest = trimmed(line);
  const auto marks = std::min(rest.find_first_not_of('#'), rest.size());
  if (marks >= 1 && marks <= 6 && marks < rest.size() && (rest[marks] == ' ' || rest[marks] == '\t')) {
    auto title = trimmed(rest.substr(marks));
    while (title.ends_with('#') || title.ends_with(':'))
      title = trimmed(title.substr(0, title.size() - 1));
    if (auto bold = bold_line(title)) return bold;
    return std::string(title);
  }
  return bold_line(line);
}

// Without the indentation of its fence.
std::string_view outdented(std::string_view line, std::size_t indent) {
  const auto blanks = std::min({line.find_first_not_of(" \t"), indent, line.size()});
  return line.substr(blanks);
}

class reader {
 public:
  explicit reader(std::string_view text) : lines_(lines_of(text)) { sections_.emplace_back(); }

  std::vector<markdown_section> run() {
    while (at_ < lines_.size()) {
      if (const auto open = fence_of(lines_[at_])) {
        read_code(*open);
      } else if (auto heading = heading_of(lines_[at_])) {
        begin_section(std::move(*heading));
        ++at_;
      } else if (at_ + 1 < lines_.size() && is_title(at_)) {
        begin_section(std::string(trimmed(lines_[at_])));
        at_ += 2;
      } else {
        add_line(lines_[at_++]);
      }
    }
    return std::move(sections_);
  }

 private:
  // A line of words that the next one underlines. A paragraph before a line --- is no title: titles are short.
  bool is_title(std::size_t i) const {
    constexpr std::size_t longest = 60;
    const auto line = trimmed(lines_[i]);
    return !line.empty() && line.size() <= longest && std::isalpha(static_cast<unsigned char>(line.front())) != 0 &&
           line.back() != '.' && line.back() != ';' && (i == 0 || trimmed(lines_[i - 1]).empty()) &&
           is_underline(lines_[i + 1]);
  }

  void begin_section(std::string heading) { sections_.push_back({std::move(heading), "", {}}); }
  void add_line(std::string_view line) { sections_.back().text.append(line).append("\n"); }

  void read_code(const fence& open) {
    add_line(lines_[at_++]);
    code_block block{open.language, "", false};
    for (; at_ < lines_.size() && !block.closed; ++at_) {
      block.closed = closes(lines_[at_], open);
      if (!block.closed) block.text.append(outdented(lines_[at_], open.indent)).append("\n");
      add_line(lines_[at_]);
    }
    sections_.back().code.push_back(std::move(block));
  }

  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  std::vector<markdown_section> sections_;
};

}  // namespace

std::vector<markdown_section> read_markdown(std::string_view text) {
  return reader(text).run();
}

std::string without_thoughts(std::string_view text, bool& unfinished) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 2> tags{
      {{"<think>", "</think>"}, {"<thinking>", "</thinking>"}}};
  unfinished = false;
  std::string out(text);
  for (const auto& [open, close] : tags) {
    for (auto end = out.find(close); end != std::string::npos; end = out.find(close)) {
      const auto begin = out.rfind(open, end);
      const auto from = begin == std::string::npos ? 0 : begin;
      out.erase(from, end + close.size() - from);
    }
    if (const auto begin = out.find(open); begin != std::string::npos) {
      unfinished = true;
      out.erase(begin);
    }
  }
  return out;
}

}  // namespace cudal1
