// What all subcommands share: the data folder or the coordinator of another machine, error reports, exit codes, and the
// registration of subcommands.
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

namespace cudal1 {
class remote_node;
}

namespace cudal1::cli {

// The exit codes of all subcommands; each --help documents them.
namespace exit_code {
inline constexpr int success = 0;
inline constexpr int negative = 1;        // a negative result: a wrong variant, a missing requirement
inline constexpr int usage = 2;           // the command line, or a file or name on it, is invalid
inline constexpr int infrastructure = 3;  // no node, a corrupt store, a full disk
inline constexpr int unmeasurable = 4;    // correct, but what else the machine does left no time that can be trusted
inline constexpr int interrupted = 130;   // Ctrl-C
}  // namespace exit_code

struct context {
  // The data folder; absolute when a command runs. With a coordinator: where blobs of its data folder are kept.
  std::string data;
  std::shared_ptr<const remote_node> coordinator;  // on another machine (--cluster); none: what runs on `data` is meant
  int exit = exit_code::success;
  terminal out, err;
  bool quiet = false, verbose = false;  // -q, -v
  std::vector<std::string> csv_rows;    // --csv: members of a JSON document of which one has the rows; else empty
};

// What is worked on, for messages: the data folder, or the coordinator's address.
std::string place_of(const context& c);
// For commands that need files or devices of the coordinator's machine: an error with --cluster, which says to run them
// there. `what`: "`cudal1 store` ...".
expected<void> refuse_remote(const context& c, const std::string& what);

int exit_code_of(const error& e);
// Called at the end of a subcommand: sets the exit code, and prints an error on stderr.
void finish(context& c, const expected<int>& result);
// Prints "cudal1: MESSAGE" on stderr. The message says what is wrong and what to do.
void complain(const context& c, const std::string& message);
// Prints a note on stderr, unless -q was given; stdout has only the requested output.
void note(const context& c, const std::string& message);
// Prints a note on stderr, but only with -v.
void detail(const context& c, const std::string& message);
// What a command prints: text for people, or one JSON document (--json).
enum class shown_as { text, json };
// Prints one JSON document on stdout; with --csv its rows.
void print_json(const context& c, const json& document);
// The flag --csv beside --json, which it sets: print_json() then prints the rows that the first of these members has.
void add_csv_flag(CLI::App& command, context& c, bool& as_json, std::vector<std::string> members);

// Opens the store for reading, up to date with its writer. errc::not_found, with advice, if there is none yet.
expected<std::unique_ptr<store>> open_for_reading(const context& c);
bool store_exists(const context& c);
inline std::string store_folder(const std::string& data) {
  return data + "/store";
}

// The text at the end of a subcommand's help.
std::string footer(const std::string& examples, const std::string& exit_codes);

// Adds one command to the parser.
using command_adder = void (*)(CLI::App& app, context& c);

// Each file of commands/ registers its commands with such an object at namespace scope; nothing else lists them.
// `place` orders the help. A command with a parent ("tasks") is a subcommand of it; the parent has a smaller place.
class command_registration {
 public:
  command_registration(int place, command_adder add, std::string parent = "");
};
void add_registered_commands(CLI::App& app, context& c);

}  // namespace cudal1::cli
