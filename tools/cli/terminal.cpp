#include "tools/cli/terminal.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

// Environment variables are read before any thread starts.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::size_t number_in(const char* text) {
  const long n = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return n > 0 && n < 10000 ? static_cast<std::size_t>(n) : 0;
}

}  // namespace

std::string terminal::paint(std::string_view code, std::string_view text) const {
  return color ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

void terminal::print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

void terminal::print_wrapped(std::string_view text) const {
  print(rewrap(text, width));
}

terminal examine(std::FILE* stream) {
  terminal t;
  t.stream = stream;
  const int fd = ::fileno(stream);
  const char* kind = variable("TERM");
  t.live = ::isatty(fd) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
  t.color = t.live && variable("NO_COLOR") == nullptr;
  winsize size{};
  if (::isatty(fd) == 1 && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    t.width = size.ws_col;
    t.height = size.ws_row;
  } else {
    t.width = number_in(variable("COLUMNS"));
  }
  if (t.live && t.width == 0) t.width = 80;
  return t;
}

// Moves the cursor to the start of the area, also if the terminal has become narrower and wrapped the lines.
std::string live_area::back_to_top(const terminal& t) const {
  std::size_t rows = 0;
  for (const auto& line : shown_)
    rows += 1 + (t.width > 0 && !line.empty() ? (std::max<std::size_t>(display_width(line), 1) - 1) / t.width : 0);
  return rows > 0 ? fmt::format("\r\033[{}A", rows) : "\r";
}

void live_area::draw(std::vector<std::string> lines) {
  const terminal t = examine(stream_);
  if (t.height > 1 && lines.size() > t.height - 1) lines.resize(t.height - 1);
  std::string frame = open_ ? back_to_top(t) : "\033[?25l";
  for (auto& line : lines) {
    // The last column stays free: some terminals wrap when it is written.
    line = fit(std::move(line), t.width > 1 ? t.width - 1 : t.width);
    frame += line + "\033[K\n";
  }
  frame += "\033[J";
  shown_ = std::move(lines);
  open_ = true;
  t.print(frame);
}

void live_area::print_above(std::string_view text) {
  const terminal t = examine(stream_);
  if (!open_) return t.print(text);
  std::string frame = back_to_top(t) + "\033[J" + std::string(text);
  for (const auto& line : shown_)
    frame += line + "\033[K\n";
  t.print(frame);
}

void live_area::erase() {
  if (open_) examine(stream_).print(back_to_top(examine(stream_)) + "\033[J");
  close();
}

void live_area::close() {
  if (!open_) return;
  examine(stream_).print("\033[?25h");
  shown_.clear();
  open_ = false;
}

}  // namespace cudal1::cli
