// cudal1: the command line. Its subcommands are the files of cli/commands/.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "actors/clients/remote_node.hpp"
#include "actors/transport/certificates.hpp"
#include "config/base/utf8.hpp"
#include "config/data_folder.hpp"
#include "store/replay/replay_devices.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/command_line.hpp"
#include "tools/cli/help_text.hpp"

namespace {

using namespace cudal1;
using namespace cudal1::cli;

constexpr const char* description =
    R"(cudal1 searches for fast CUDA kernels. Give it tasks (PyTorch programs that say what must be computed); it writes
variants, compiles, verifies and times each one in a sandbox against the task's own program, and stores every result.)";

constexpr const char* journey = R"(
A typical workflow:
  cudal1 doctor                      what this machine has and lacks
  cudal1 tasks                       the tasks that can be searched
  cudal1 run model.py                ... or your own PyTorch model
  cudal1 run --time 4m               search; ends with a table of the best
  cudal1 best softmax                the best variants of one task
  cudal1 show 3f9a1c2b               how one of them works: moves, proof, timing, CUDA source
  cudal1 export fast_kernels         the winners as files
  cudal1 evaluate softmax mine.cu1   your own variant, by the same rules

Everything is kept in the data folder; reading it (best, show, export, ...) needs no node. `cudal1 run`, `evaluate`,
`baseline` and `doctor` start a node (cudal1-node) if none runs on the folder; it exits when it is idle.

With --cluster HOST:PORT the commands work on a coordinator on another machine (`cudal1-node --listen`), as its
certificate NAME.pem of `cudal1 cluster add NAME --client` allows. Files that you name are those of this machine.

Environment: CUDAL1_DATA (the data folder), CUDAL1_COORDINATOR (--cluster), CUDAL1_TASKS (the built-in tasks), NO_COLOR, COLUMNS.

Exit codes: 0 done; 1 a negative result (a wrong variant, a missing requirement); 2 the command line, or a file or name
on it, is invalid; 3 infrastructure (no node, a corrupt store, a full disk); 130 Ctrl-C.
)";

// What the command line says of a coordinator on another machine.
struct remote_flags {
  std::string address, identity;
  // Which flags are given, and not only their variables.
  bool names_data = false, names_cluster = false;
};

void use_coordinator(const remote_flags& r, context& c) {
  if (r.names_data)
    throw CLI::ValidationError("--cluster",
                               "--data is a folder of this machine, and --cluster another one's: give one");
  const std::string file = r.identity.empty() ? cluster_folder(c.data) + "/client.pem" : r.identity;
  auto own = read_identity(file);
  if (!own && own.error().code == errc::not_found)
    throw CLI::ValidationError(
        "--identity", fmt::format("{} is not there: `cudal1 cluster add NAME --client` on the coordinator's machine "
                                  "makes your certificate, NAME.pem; copy it there, or name it with --identity",
                                  file));
  if (!own) throw CLI::ValidationError("--identity", own.error().message);
  auto made = remote_node::make(r.address, *own);
  if (!made) throw CLI::ValidationError("--cluster", made.error().message);
  c.coordinator = std::move(*made);
  c.data += "/remote";  // where blobs of other machines are kept
}

void add_everything(CLI::App& app, context& c, remote_flags& r) {
  app.formatter(std::make_shared<help_formatter>(c.out.width));
  app.require_subcommand(1);
  app.fallthrough();  // --data may come before or after the command
  app.set_help_flag("-h,--help", "this text; `cudal1 COMMAND --help` has examples and exit codes");
  app.set_version_flag("--version", CUDAL1_VERSION, "the version");
  app.add_option("--data", c.data, "the data folder: store, cache, log; also $CUDAL1_DATA")
      ->type_name("DIR")
      ->envname("CUDAL1_DATA")
      ->capture_default_str();
  app.add_option("--cluster", r.address, "the coordinator of another machine; also $CUDAL1_COORDINATOR")
      ->type_name("HOST:PORT")
      ->envname("CUDAL1_COORDINATOR");
  app.add_option("--identity", r.identity, "with --cluster: your certificate (default: DATA/cluster/client.pem)")
      ->type_name("FILE");
  auto* quiet = app.add_flag("-q,--quiet", c.quiet, "no notes and no progress: results and errors alone");
  app.add_flag("-v,--verbose", c.verbose, "also say which node, files and programs are used")->excludes(quiet);
  app.footer(journey);
  app.get_formatter()->column_width(30);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("Subcommands", "Commands");
  add_registered_commands(app, c);
  // Called before the callback of the command, which needs an absolute path.
  app.parse_complete_callback([&c, &r] {
    // It stands in JSON, which is UTF-8.
    if (!is_valid_utf8(c.data))
      throw CLI::ValidationError(
          "--data", fmt::format("the name of the data folder is not UTF-8 (\"{}\")", replace_invalid_utf8(c.data)));
    std::error_code problem;
    const auto absolute = std::filesystem::absolute(c.data, problem);
    if (!problem) c.data = absolute.lexically_normal().string();
    while (c.data.size() > 1 && c.data.back() == '/')
      c.data.pop_back();
    if (r.names_data && !r.names_cluster) r.address.clear();  // a flag overrides a variable
    if (!r.address.empty()) use_coordinator(r, c);
    if (r.address.empty() && !r.identity.empty())
      throw CLI::ValidationError("--identity", "it is the certificate for --cluster, which is not given");
  });
}

int run_command_line(int argc, char** argv) {
  context c;
  c.out = examine(stdout);
  c.err = examine(stderr);
  c.data = default_data_folder();
  CLI::App app(description, "cudal1");
  remote_flags remote;
  const auto names = [argc, argv](const std::string& flag) {
    return std::any_of(argv + std::min(argc, 1), argv + argc,
                       [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
  };
  remote.names_data = names("--data");
  remote.names_cluster = names("--cluster");
  add_everything(app, c, remote);
  if (argc > 1 && argv[1] == complete_word) {
    for (const auto& [word, about] : completions(app, {argv + 2, argv + argc}, c))
      c.out.print(word + "\t" + about + "\n");
    return exit_code::success;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return report_parse_error(app, e, c);
  }
  return c.exit;
}

}  // namespace

int main(int argc, char** argv) {
  const replay_devices replays;
  std::signal(SIGPIPE, SIG_DFL);  // `cudal1 best | head` ends without a message
  try {
    return run_command_line(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cudal1: %s; this is a bug in cudal1, please report it\n", e.what());
    return exit_code::infrastructure;
  }
}
