// A text table that adapts to a given width.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

struct column {
  std::string title;
  bool right = false;           // right-aligned
  std::size_t least_width = 0;  // > 0: cells may be cut (with an ellipsis) to this width
  int drop = 0;                 // > 0: left out if cutting is not enough, the highest first
  bool cut_last = false;        // cut only where no column is left that may be left out
};

class table {
 public:
  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }

  // Lines of at most `width` characters (0: no limit) as far as the columns allow, each ended with a newline. The
  // heading is bold on a terminal with colors.
  std::string text(std::size_t width) const;
  std::string text(const terminal& t) const;
  std::string markdown() const;

 private:
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cudal1::cli
