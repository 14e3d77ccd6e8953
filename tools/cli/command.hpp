// What every subcommand shares: where the data is, how errors are reported, what exit codes mean, and how a subcommand
// becomes part of the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "store/store.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// The same for all subcommands, and documented in each --help.
namespace exit_code {
inline constexpr int success = 0;
inline constexpr int negative = 1;        // it worked, and the answer is no: a wrong variant, a missing requirement
inline constexpr int usage = 2;           // the command line, or a file or name on it, is not right
inline constexpr int infrastructure = 3;  // no node, a broken store, a full disk
inline constexpr int interrupted = 130;   // Ctrl-C
}  // namespace exit_code

struct context {
  std::string data;  // the data folder, absolute once a command runs
  int exit = exit_code::success;
  terminal out, err;
};

int exit_code_of(const error& e);
// Runs at the end of a subcommand: keeps the exit code, or says the error on stderr.
void finish(context& c, const expected<int>& result);
// "cudal1: what; what to do" on stderr.
void complain(const context& c, const std::string& message);
// Notes for people on stderr, so that stdout stays what was asked for.
void note(const context& c, const std::string& message);
// One JSON document on stdout.
void print_json(const context& c, const json& document);

// $XDG_DATA_HOME/cudal1, else ~/.local/share/cudal1; the same as cudal1-node's.
std::string default_data_folder();
// The store to read, caught up with its writer. errc::not_found with what to do where there is none yet.
expected<std::unique_ptr<store>> open_for_reading(const context& c);
bool store_exists(const context& c);
inline std::string store_folder(const std::string& data) {
  return data + "/store";
}

// The text at the end of a subcommand's help.
std::string footer(const std::string& examples, const std::string& exit_codes);

// Puts one command into the parser.
using command_adder = void (*)(CLI::App& app, context& c);

// Each file of commands/ registers its commands with such an object at namespace scope; that is all a command needs to
// be part of the program. `place` is where it stands in the help. A command with a parent ("tasks") is a subcommand of
// that one, which has a smaller place.
class command_registration {
 public:
  command_registration(int place, command_adder add, std::string parent = "");
};
void add_registered_commands(CLI::App& app, context& c);

}  // namespace cudal1::cli
