// cudal1 config: prints the configuration file with every key, or checks one.
#include "config/configuration.hpp"
#include "tools/cli/command.hpp"

namespace cudal1::cli {

namespace {

expected<int> print_defaults(const context& c) {
  c.out.print(print_configuration({}));
  return exit_code::success;
}

expected<int> check(const std::string& file, const context& c) {
  CUDAL1_CHECK(load_configuration(file, "", {}, {}));
  note(c, fmt::format("{} is a valid configuration file", file));
  return exit_code::success;
}

void add_config(CLI::App& app, context& c) {
  auto file = std::make_shared<std::string>();
  auto* sub = app.add_subcommand("config", "print every configuration key, as a commented file");
  sub->add_option("--check", *file, "check this file instead: its keys, types and ranges")->type_name("FILE");
  sub->footer(
      footer("  cudal1 config > ~/.local/share/cudal1/cudal1.toml   a file to start from: all keys commented out\n"
             "  cudal1 config --check cudal1.toml",
             "  0    printed, or the file is valid\n  2    the file is invalid"));
  sub->callback([file, &c] { finish(c, file->empty() ? print_defaults(c) : check(*file, c)); });
}

const command_registration registered_config(125, add_config);

}  // namespace

}  // namespace cudal1::cli
