// cudal1 mcp: the Model Context Protocol over standard input and output, as a bridge to that of a node over HTTP.
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/child_process.hpp"
#include "tools/cli/child_status.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/interrupt.hpp"
#include "tools/cli/node_process.hpp"
#include "tools/cli/python_process.hpp"
#include "tools/serve/serving_node.hpp"

namespace cudal1::cli {

namespace {

using namespace std::chrono_literals;

constexpr auto look_interval = 100ms;
constexpr auto alive_interval = 10min;

struct mcp_options {
  std::string url;
  node_flags node;
};

// The bridge, which has no dependency beyond Python 3.9 itself. Without a URL it asks the node that serves on the data
// folder, also after that was started again.
expected<pid_t> start_bridge(const std::string& url, const std::string& data) {
  CUDAL1_TRY(const std::string script, python_script("../python_client/cudal1/mcp.py"));
  auto path = std::filesystem::path(script).parent_path().parent_path().lexically_normal().string();
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr && *before != '\0')
    path += ":" + std::string(before);
  ::setenv("PYTHONPATH", path.c_str(), 1);
  if (url.empty()) {
    ::unsetenv("CUDAL1_URL");
    ::setenv("CUDAL1_DATA", std::filesystem::absolute(data).c_str(), 1);
  } else {
    ::setenv("CUDAL1_URL", url.c_str(), 1);
  }
  return child_start().run("python3", {"python3", "-m", "cudal1.mcp"}, "python3, which the protocol needs");
}

expected<int> wait_for(pid_t pid, serve::serving_node* n) {
  auto next = std::chrono::steady_clock::now() + alive_interval;
  for (int status = 0;;) {
    const auto ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return shell_code(status);
    if (ended < 0 && errno != EINTR) return fail(errc::infrastructure, "waiting for python3: {}", std::strerror(errno));
    std::this_thread::sleep_for(look_interval);
    if (n == nullptr || std::chrono::steady_clock::now() < next) continue;
    next += alive_interval;
    if (auto alive = serve::keep_alive(*n); !alive) n = nullptr;  // the client's next request says so
  }
}

// Standard output is the protocol's: notes go to standard error.
expected<int> speak(const mcp_options& o, context& c) {
  if (!o.url.empty()) {
    CUDAL1_TRY(const pid_t pid, start_bridge(o.url, ""));
    return wait_for(pid, nullptr);
  }
  CUDAL1_CHECK(refuse_remote(c, "`cudal1 mcp` needs a node that serves (--url names one elsewhere)"));
  serve::serving_options serving;
  serving.address = "127.0.0.1:0";
  CUDAL1_TRY(auto n, serve::find_or_start_serving(c, o.node, serving, true, -1));
  CUDAL1_TRY(const pid_t pid, start_bridge("", c.data));
  return wait_for(pid, &n);
}

void add_mcp(CLI::App& app, context& c) {
  auto o = std::make_shared<mcp_options>();
  auto* sub =
      app.add_subcommand("mcp", "tools for an agent: the Model Context Protocol over standard input and output");
  sub->add_option("--url", o->url,
                  "of a `cudal1 serve` that runs (default: this machine's node, started if none runs); "
                  "its token is read from $CUDAL1_TOKEN, the authority of its certificate from $CUDAL1_CA_FILE")
      ->type_name("URL");
  sub->add_option("--device", o->node.device, "devices of the node that is started")->type_name("LIST");
  add_node_flags(*sub, o->node);
  sub->footer(
      footer("  claude mcp add cudal1 -- cudal1 mcp\n"
             "  cudal1 mcp --url https://gpu1:4980",
             "  0    the agent has closed standard input\n"
             "  2    a node runs that serves nothing; an invalid flag\n"
             "  3    no node could be started, or there is no python3"));
  sub->callback([o, &c] { finish(c, speak(*o, c)); });
}

const command_registration registered_mcp(23, add_mcp);

}  // namespace

}  // namespace cudal1::cli
