// cudal1 top: a live view of the node on the whole terminal.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "actors/clients/client.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/top_view.hpp"

namespace cudal1::cli {

namespace {

using namespace std::chrono_literals;

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

// One experiment that is followed over a connection of its own.
struct followed {
  node_client client;
  top_experiment shown;
  bool ended = false;
};

class watcher {
 public:
  explicit watcher(const context& c) : context_(c) {}

  top_state look() {
    top_state s;
    s.place = place_of(context_);
    auto node = connect_to_node(context_);
    if (node)
      s.node = std::move(node->status);
    else if (node.error().code != errc::not_found)
      s.problem = node.error().message;
    if (!s.node) {
      followed_.clear();
      return s;
    }
    for (const auto& id : s.node->experiments)
      if (const auto followed = follow(id); !followed) s.problem = followed.error().message;
    std::erase_if(followed_, [&](const auto& one) {
      return std::ranges::find(s.node->experiments, one.first) == s.node->experiments.end();
    });
    for (auto& [id, one] : followed_) {
      read(one);
      if (const auto counted = count_in_flight(one, id); !counted) s.problem = counted.error().message;
      if (!one.ended && !one.shown.progress.experiment.empty()) s.experiments.push_back(one.shown);
    }
    return s;
  }

 private:
  expected<void> follow(const std::string& id) {
    if (followed_.contains(id)) return {};
    CUDAL1_CHECK(read_store());
    CUDAL1_TRY(const auto record, store_->get_experiment(id));
    CUDAL1_TRY(auto client, connect_client(context_));
    client_request r;
    r.verb = client_verb::follow;
    r.experiment = id;
    CUDAL1_CHECK(client.send(r));
    top_experiment shown;
    shown.limits = {record.device, record.policy, record.time_limit_s};
    followed_.emplace(id, followed{std::move(client), std::move(shown), false});
    return {};
  }

  // Takes all answers that have arrived.
  static void read(followed& one) {
    while (!one.ended) {
      const auto answer = one.client.receive(1ms);
      if (!answer) {
        one.ended = answer.error().code != errc::timeout;
        return;
      }
      one.ended = answer->last || error_of(*answer).has_value();
      if (!answer->progress) continue;
      std::map<std::string, double> since;
      for (const auto& [stage, ms] : answer->progress->stage_ms)
        since[stage] = ms - one.shown.progress.stage_ms[stage];
      if (device_ms_of(since) > 0) one.shown.recent_ms = std::move(since);
      one.shown.progress = *answer->progress;
    }
  }

  expected<void> count_in_flight(followed& one, const std::string& id) {
    CUDAL1_CHECK(read_store());
    CUDAL1_TRY(const auto open, store_->unfinished_attempts(id));
    one.shown.in_flight =
        std::ranges::count_if(open, [](const attempt_record& a) { return a.state == attempt_state::leased; });
    return {};
  }

  // Opened once, and up to date.
  expected<void> read_store() {
    if (store_) return store_->refresh();
    CUDAL1_TRY(store_, open_for_reading(context_));
    return {};
  }

  const context& context_;
  std::unique_ptr<store> store_;
  std::map<std::string, followed> followed_;
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
  watcher node(c);
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
