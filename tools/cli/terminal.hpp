// What stands at the other end of a stream, and text that is redrawn in place.
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
  std::size_t width = 0;   // columns; 0 is no limit (a file, a pipe)
  std::size_t height = 0;  // lines; 0 is no limit

  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string dim(std::string_view text) const { return paint("2", text); }
  std::string good(std::string_view text) const { return paint("32", text); }
  std::string bad(std::string_view text) const { return paint("31", text); }
  std::string paint(std::string_view code, std::string_view text) const;
  // Writes and flushes. A reader that has gone (EPIPE) is not our error.
  void print(std::string_view text) const;
};

// Looks at the stream now. A stream that is no terminal has no limits, but for $COLUMNS where it is set.
terminal examine(std::FILE* stream);

// Lines at the end of the terminal's text that are replaced in place: one write a frame, so that nothing flickers; the
// cursor is hidden meanwhile and comes back with close(), the destructor and `restore_sequence`.
class live_area {
 public:
  explicit live_area(std::FILE* stream) : stream_(stream) {}
  live_area(const live_area&) = delete;
  live_area& operator=(const live_area&) = delete;
  ~live_area() { close(); }

  // Lines longer than the terminal is wide are cut, and those it is not high enough for are left out.
  void draw(std::vector<std::string> lines);
  // `text` scrolls away above the area.
  void print_above(std::string_view text);
  // Leaves the last frame where it stands.
  void close();
  // Takes it away.
  void erase();

  // Shows the cursor: for a signal handler that leaves at once.
  static constexpr std::string_view restore_sequence = "\033[?25h\n";

 private:
  std::string back_to_top(const terminal& t) const;
  std::FILE* stream_;
  std::vector<std::string> shown_;
  bool open_ = false;
};

}  // namespace cudal1::cli
