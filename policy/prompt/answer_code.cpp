#include "policy/prompt/answer_code.hpp"

#include <algorithm>
#include <optional>

#include "policy/graph/schedule.hpp"
#include "policy/prompt/plain_json.hpp"
#include "policy/prompt/tile_text.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

namespace {

enum class block_kind { whole, head, source, other };

constexpr const char* how_to_write =
    "write exactly one fenced block under \"## Code\" that holds the whole program: the JSON head, a line ---, and the "
    "CUDA source";

bool is_blank(std::string_view s) {
  return s.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Where a line that consists of the separator and blanks begins; npos without one.
std::size_t separator_in(std::string_view text, std::size_t& after) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    after = std::min(end + 1, text.size());
    if (line == program_separator) return at;
    at = end + 1;
  }
  return std::string_view::npos;
}

// A head is told from other JSON, such as a step that the analysis quotes, by its keys.
bool looks_like_head(std::string_view text) {
  return text.find("\"steps\"") != std::string_view::npos || text.find("\"format\"") != std::string_view::npos;
}

block_kind kind_of(const code_block& block) {
  // Comments before the head are part of it.
  const auto plain = plain_json(block.text);
  const auto first = plain.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && plain[first] == '{' && looks_like_head(plain)) {
    std::size_t after = 0;
    const auto separator = separator_in(block.text, after);
    const auto length = object_length(plain);
    const bool only_head =
        separator == std::string_view::npos && length > 0 && is_blank(std::string_view(plain).substr(length));
    return only_head ? block_kind::head : block_kind::whole;
  }
  return block.text.find("__global__") != std::string::npos ? block_kind::source : block_kind::other;
}

// The head strict, the separator without blanks.
std::string strict_program(const std::string& text) {
  std::size_t after = 0;
  const auto separator = separator_in(text, after);
  if (separator == std::string::npos) {
    const auto length = object_length(text);
    return length == 0 ? text : plain_json(text.substr(0, length)) + text.substr(length);
  }
  return plain_json(text.substr(0, separator)) + std::string(program_separator) + "\n" + text.substr(after);
}

std::string joined(const std::string& head, const std::string& source) {
  std::size_t after = 0;
  const auto separator = separator_in(source, after);
  const bool begins_with_it = separator != std::string::npos && is_blank(source.substr(0, separator));
  return plain_json(head) + std::string(program_separator) + "\n" + (begins_with_it ? source.substr(after) : source);
}

// Each text once.
void keep_distinct(std::vector<std::string>& texts) {
  std::vector<std::string> kept;
  for (auto& t : texts)
    if (std::ranges::find(kept, t) == kept.end()) kept.push_back(std::move(t));
  texts = std::move(kept);
}

struct found_blocks {
  std::vector<std::string> whole, heads, sources;
  bool unclosed = false;

  bool any() const { return !whole.empty() || !heads.empty() || !sources.empty(); }
};

found_blocks blocks_of(const std::vector<markdown_section>& sections) {
  found_blocks found;
  for (const auto& s : sections)
    for (const auto& block : s.code) {
      found.unclosed = found.unclosed || !block.closed;
      switch (kind_of(block)) {
        case block_kind::whole:
          found.whole.push_back(strict_program(block.text));
          break;
        case block_kind::head:
          found.heads.push_back(block.text);
          break;
        case block_kind::source:
          found.sources.push_back(block.text);
          break;
        case block_kind::other:
          break;
      }
    }
  for (auto* list : {&found.whole, &found.heads, &found.sources})
    keep_distinct(*list);
  return found;
}

expected<std::string> program_among(found_blocks found) {
  if (found.whole.size() > 1)
    return fail(errc::parse_error, "there are {} different programs in the answer, but one is asked for; {}",
                found.whole.size(), how_to_write);
  if (found.whole.size() == 1) return std::move(found.whole.front());
  if (found.heads.size() > 1 || found.sources.size() > 1)
    return fail(
        errc::parse_error,
        "there are {} different heads and {} different sources in blocks of their own, so it is not clear which "
        "are the program; {}",
        found.heads.size(), found.sources.size(), how_to_write);
  if (found.heads.empty())
    return fail(errc::parse_error, "the code block has CUDA source without the JSON head that launches it; {}",
                how_to_write);
  if (found.sources.empty()) return plain_json(found.heads.front());  // of ATen steps alone
  return joined(found.heads.front(), found.sources.front());
}

// A program that stands in the section without a fence, from its head to the section's end.
std::optional<std::string> unfenced_program(const std::vector<markdown_section>& sections) {
  for (const auto& s : sections) {
    if (!s.code.empty()) continue;
    const auto begin = s.text.find('{');
    if (begin != std::string::npos && looks_like_head(s.text)) return strict_program(s.text.substr(begin));
  }
  return std::nullopt;
}

expected<std::string> find_program(const std::vector<markdown_section>& code,
                                   const std::vector<markdown_section>& others) {
  auto found = blocks_of(code);
  if (!found.any()) {
    const bool unclosed = found.unclosed;
    found = blocks_of(others);
    found.unclosed = found.unclosed || unclosed;
  }
  if (found.unclosed)
    return fail(errc::parse_error,
                "the last code block is not closed, so the program may be incomplete; end it with ```");
  if (found.any()) return program_among(std::move(found));
  if (auto text = unfenced_program(code)) return std::move(*text);
  return fail(errc::parse_error, "there is no program in the answer; {}", how_to_write);
}

// A block that has moves and nothing else; line breaks separate moves too.
std::optional<std::string> schedule_in(const code_block& block) {
  std::string text;
  for (std::size_t at = 0; at < block.text.size();) {
    const auto end = std::min(block.text.find('\n', at), block.text.size());
    auto line = block.text.substr(at, end - at);
    at = end + 1;
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line.compare(first, 2, "//") == 0 || line[first] == '#') continue;
    line = line.substr(first, line.find_last_not_of(" \t;") + 1 - first);
    if (line.empty()) continue;
    text += (text.empty() ? "" : text.back() == ',' || text.back() == '(' ? " " : "; ") + line;
  }
  const auto open = text.find('(');
  if (open == std::string::npos || text.find('{') != std::string::npos) return std::nullopt;
  return text;
}

expected<std::string> find_schedule(const std::vector<markdown_section>& code,
                                    const std::vector<markdown_section>& others) {
  std::vector<std::string> found;
  for (const auto* sections : {&code, &others}) {
    for (const auto& s : *sections)
      for (const auto& block : s.code)
        if (auto text = schedule_in(block)) found.push_back(std::move(*text));
    if (!found.empty()) break;
  }
  keep_distinct(found);
  if (found.size() == 1) return std::move(found.front());
  return fail(
      errc::parse_error,
      "there {} in the answer, but one is asked for; write exactly one fenced block under \"## Code\" with moves "
      "separated by semicolons, such as fuse(steps=0..2); block(group=0, threads=256)",
      found.empty() ? "is no schedule" : fmt::format("are {} different schedules", found.size()));
}

// One block that begins as code of the form does; else a program of the format, which is as good.
expected<std::string> find_tile(const std::vector<markdown_section>& code,
                                const std::vector<markdown_section>& others) {
  std::vector<std::string> found;
  bool unclosed = false, has_source = false;
  for (const auto* sections : {&code, &others}) {
    for (const auto& s : *sections)
      for (const auto& block : s.code) {
        unclosed = unclosed || !block.closed;
        has_source = has_source || kind_of(block) == block_kind::source;
        if (looks_like_tile(block.text)) found.push_back(block.text);
      }
    if (!found.empty()) break;
  }
  keep_distinct(found);
  if (unclosed)
    return fail(errc::parse_error, "the last code block is not closed, so the code may be incomplete; end it with ```");
  if (found.size() == 1) return std::move(found.front());
  constexpr const char* how =
      "write exactly one fenced block under \"## Code\" that begins with a frame of the task, such as `rows "
      "threads=256`, and has the body of its kernel, or with `launch NAME grid=16,16,1 block=256,1,1 shared_bytes=0`, "
      "and has the source";
  if (found.size() > 1)
    return fail(errc::parse_error, "there are {} different kernels in the answer, but one is asked for; {}",
                found.size(), how);
  if (auto program = find_program(code, others)) return program;
  return fail(errc::parse_error, "{}; {}",
              has_source ? "the code block has a kernel, but nothing that launches it"
                         : "there is no code in the tile vocabulary in the answer",
              how);
}

}  // namespace

expected<std::string> find_code(const std::vector<markdown_section>& code, const std::vector<markdown_section>& others,
                                answer_form form) {
  if (form == answer_form::tile) return find_tile(code, others);
  return form == answer_form::program ? find_program(code, others) : find_schedule(code, others);
}

}  // namespace cudal1
