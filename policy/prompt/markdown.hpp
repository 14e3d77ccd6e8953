// Markdown as language models write it, as far as answers need it: sections under headings, and fenced code blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

struct code_block {
  std::string language;  // the first word after the fence, in lower case; "" without one
  std::string text;      // with plain line ends, each line ended
  bool closed = true;    // false: the text ends inside of it
};

// What stands under one heading, up to the next.
struct markdown_section {
  std::string heading;  // without its marks; "" for what stands before the first
  std::string text;     // all of it, code blocks too
  std::vector<code_block> code;
};

// Headings are `# ...` of any level, a line that is bold as a whole, and a line underlined with === or ---. Fences are
// three or more ` or ~, closed by as many of the same kind; a block may be indented. CRLF becomes LF.
std::vector<markdown_section> read_markdown(std::string_view text);

// Without <think>...</think> and <thinking>...</thinking>; what stands before a lone </think>, whose beginning is part
// of some models' templates, is left out too. `unfinished`: the text ends inside of such a block.
std::string without_thoughts(std::string_view text, bool& unfinished);

}  // namespace cudal1
