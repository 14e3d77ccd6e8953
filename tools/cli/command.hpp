// What every subcommand shares: where the data is, how errors are said, what exit codes mean. One file a subcommand,
// each with an add_... that puts it into the parser.
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

// --against KIND, one of against_names().
void add_against_option(CLI::App& command, std::string& kind);

void add_run(CLI::App& app, context& c);
void add_evaluate(CLI::App& app, context& c);
void add_status(CLI::App& app, context& c);
void add_tasks(CLI::App& app, context& c);
void add_tasks_import(CLI::App& tasks, context& c);
void add_baseline(CLI::App& app, context& c);
void add_best(CLI::App& app, context& c);
void add_report(CLI::App& app, context& c);
void add_show(CLI::App& app, context& c);
void add_export(CLI::App& app, context& c);
void add_experiments(CLI::App& app, context& c);
void add_stop(CLI::App& app, context& c);
void add_moves(CLI::App& app, context& c);
void add_operators(CLI::App& app, context& c);
void add_config(CLI::App& app, context& c);
void add_doctor(CLI::App& app, context& c);

}  // namespace cudal1::cli
