// cudal1 top: a live view of the node on the whole terminal.
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_watcher.hpp"
#include "tools/cli/top_view.hpp"

namespace cudal1::cli {

namespace {

constexpr int redraw_ms = 500;

// The other screen of the terminal, without a cursor; keys are read as they are pressed.
class full_screen {
 public:
  explicit full_screen(const terminal& t) : terminal_(t) {
    has_keys_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (has_keys_) {
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    terminal_.print("\033[?1049h\033[?25l");
  }
  full_screen(const full_screen&) = delete;
  full_screen& operator=(const full_screen&) = delete;
  ~full_screen() {
    terminal_.print("\033[?25h\033[?1049l");
    if (has_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  void draw(const std::vector<std::string>& lines) const {
    std::string frame = "\033[H";
    for (const auto& line : lines)
      frame += (&line == &lines.front() ? "" : "\r\n") + line + "\033[K";
    terminal_.print(frame + "\033[J");
  }

 private:
  terminal terminal_;
  termios before_{};
  bool has_keys_ = false;
};

// Waits for a key or for the next redraw; whether to leave.
expected<bool> leaves(interrupt_watch& interrupt) {
  pollfd waiting[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt.fd(), POLLIN, 0}};
  if (::poll(waiting, 2, redraw_ms) < 0 && errno != EINTR)
    return fail(errc::io_error, "poll: {}", std::strerror(errno));
  if (waiting[1].revents != 0) return true;
  if (waiting[0].revents == 0) return false;
  char key = 0;
  const auto n = ::read(STDIN_FILENO, &key, 1);
  return n <= 0 || key == 'q' || key == 'Q';
}

expected<int> top(const context& c) {
  if (!c.out.live || ::isatty(STDIN_FILENO) != 1)
    return fail(
        errc::invalid_argument,
        "`cudal1 top` draws on a terminal, and stdin or stdout is none here; `cudal1 status --json` and `cudal1 "
        "follow` write what it shows into a pipe or a file");
  CUDAL1_TRY(interrupt_watch interrupt, interrupt_watch::start());
  const full_screen screen(c.out);
  node_watcher node(c);
  for (;;) {
    screen.draw(top_frame(node.look(), examine(c.out.stream)));
    CUDAL1_TRY(const bool ends, leaves(interrupt));
    if (ends) return exit_code::success;
  }
}

void add_top(CLI::App& app, context& c) {
  auto* sub = app.add_subcommand("top", "a live view of the node: devices, experiments, progress, best so far");
  sub->footer(footer("  cudal1 top        q or Ctrl-C leaves it; the searches go on",
                     "  0    it was left\n"
                     "  2    stdin or stdout is no terminal"));
  sub->callback([&c] { finish(c, top(c)); });
}

const command_registration registered_top(31, add_top);

}  // namespace

}  // namespace cudal1::cli
