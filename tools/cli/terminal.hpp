// Properties of the terminal behind a stream, and text that is redrawn in place.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1::cli {

struct terminal {
  std::FILE* stream = stdout;
  bool live = false;       // a terminal that can move its cursor
  bool color = false;      // live, and NO_COLOR is not set
  std::size_t width = 0;   // columns; 0: no limit (a file, a pipe)
  std::size_t height = 0;  // lines; 0: no limit

  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string dim(std::string_view text) const { return paint("2", text); }
  std::string good(std::string_view text) const { return paint("32", text); }
  std::string bad(std::string_view text) const { return paint("31", text); }
  std::string paint(std::string_view code, std::string_view text) const;
  // Writes and flushes; ignores write errors such as EPIPE.
  void print(std::string_view text) const;
  // Prints the text in lines that fit the width: rewrap().
  void print_wrapped(std::string_view text) const;
};

// The current properties of a stream. One that is not a terminal has no limits, except the width $COLUMNS if it is set.
terminal examine(std::FILE* stream);

// Lines at the end of a terminal's text that are redrawn in place, with one write per frame to avoid flicker. The
// cursor is hidden from the first draw() until close(), the destructor or `restore_sequence`.
class live_area {
 public:
  explicit live_area(std::FILE* stream) : stream_(stream) {}
  live_area(const live_area&) = delete;
  live_area& operator=(const live_area&) = delete;
  ~live_area() { close(); }

  // Cuts the lines to the terminal's width and their number to its height.
  void draw(std::vector<std::string> lines);
  // Prints text above the area, where it scrolls.
  void print_above(std::string_view text);
  // Leaves the last frame on the terminal.
  void close();
  // Removes the last frame, then closes.
  void erase();

  // Shows the cursor: for a signal handler that exits immediately.
  static constexpr std::string_view restore_sequence = "\033[?25h\n";

 private:
  std::string back_to_top(const terminal& t) const;
  std::FILE* stream_;
  std::vector<std::string> shown_;
  bool open_ = false;
};

}  // namespace cudal1::cli
