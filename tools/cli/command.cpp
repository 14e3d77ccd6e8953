#include "tools/cli/command.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "actors/clients/remote_node.hpp"
#include "actors/clients/remote_records.hpp"
#include "store/reader.hpp"
#include "tools/cli/csv.hpp"

namespace cudal1::cli {

namespace {

struct registered_command {
  int place = 0;
  std::string parent;
  command_adder add = nullptr;
};

// Filled before main begins, in no particular order.
std::vector<registered_command>& registered_commands() {
  static std::vector<registered_command> all;
  return all;
}

}  // namespace

command_registration::command_registration(int place, command_adder add, std::string parent) {
  registered_commands().push_back({place, std::move(parent), add});
}

void add_registered_commands(CLI::App& app, context& c) {
  auto& all = registered_commands();
  std::ranges::sort(all, {}, &registered_command::place);
  for (const auto& command : all)
    command.add(command.parent.empty() ? app : *app.get_subcommand(command.parent), c);
}

std::string place_of(const context& c) {
  return c.coordinator ? c.coordinator->address() : c.data;
}

expected<void> refuse_remote(const context& c, const std::string& what) {
  if (!c.coordinator) return {};
  return fail(errc::invalid_argument, "{}: run it on the coordinator's machine, without --cluster ({} is another one)",
              what, c.coordinator->address());
}

int exit_code_of(const error& e) {
  switch (e.code) {
    case errc::invalid_argument:
    case errc::parse_error:
    case errc::invalid_program:
    case errc::unsupported:
    case errc::not_found:
    case errc::already_exists:
      return exit_code::usage;
    case errc::compile_failed:
    case errc::refused:
    case errc::variant_fault:
      return exit_code::negative;
    case errc::cancelled:
      return exit_code::interrupted;
    case errc::infrastructure:
    case errc::timeout:
    case errc::io_error:
    case errc::corrupt:
    case errc::out_of_memory:
    case errc::out_of_budget:
      return exit_code::infrastructure;
  }
  return exit_code::infrastructure;
}

void complain(const context& c, const std::string& message) {
  c.err.print("cudal1: " + message + "\n");
}

void note(const context& c, const std::string& message) {
  if (!c.quiet) c.err.print(c.err.dim(message) + "\n");
}

void detail(const context& c, const std::string& message) {
  if (c.verbose) note(c, message);
}

void finish(context& c, const expected<int>& result) {
  if (result) {
    c.exit = *result;
    return;
  }
  c.exit = exit_code_of(result.error());
  complain(c, result.error().message);
}

void print_json(const context& c, const json& document) {
  c.out.print(c.csv_rows.empty() ? document.text(2) + "\n" : csv_text(document, c.csv_rows));
}

void add_csv_flag(CLI::App& command, context& c, bool& as_json, std::vector<std::string> members) {
  command
      .add_flag_callback(
          "--csv",
          [&c, &as_json, members = std::move(members)] {
            as_json = true;
            c.csv_rows = members;
          },
          "the rows of the table, with the members of --json as columns")
      ->excludes("--json");
}

bool store_exists(const context& c) {
  if (c.coordinator) {
    const auto opened = remote_records::open(c.coordinator);
    return opened || opened.error().code != errc::not_found;
  }
  std::error_code ignored;
  return std::filesystem::exists(store_folder(c.data), ignored);
}

expected<std::unique_ptr<store>> open_for_reading(const context& c) {
  if (c.coordinator) {
    auto records = remote_records::open(c.coordinator);
    if (records) return make_reader(std::move(*records));
    if (records.error().code == errc::not_found)
      return fail(errc::not_found, "the coordinator at {} has no store yet; `cudal1 run` creates one",
                  c.coordinator->address());
    return tl::unexpected<error>(std::move(records).error());
  }
  detail(c, "reading " + store_folder(c.data));
  if (!store_exists(c))
    return fail(errc::not_found, "there is no store in {} yet; `cudal1 run` creates one, --data chooses another folder",
                c.data);
  CUDAL1_TRY(auto opened, store::open_reader(store_folder(c.data)));
  CUDAL1_CHECK(opened->refresh());
  return opened;
}

std::string footer(const std::string& examples, const std::string& exit_codes) {
  return fmt::format("\nExamples:\n{}\n\nExit codes:\n{}\n", examples, exit_codes);
}

}  // namespace cudal1::cli
