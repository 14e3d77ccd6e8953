// The text of --help: that of CLI11, in lines that fit the terminal.
#pragma once

#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace cudal1::cli {

// Prints an option as name, type and default, without CLI11's descriptions of validators, which its errors have.
class help_formatter : public CLI::Formatter {
 public:
  // `width`: of the terminal; 0: none.
  explicit help_formatter(std::size_t width) : width_(width) {}
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  std::size_t width_;
};

// The choices of an option, as in {"low", "normal", "high"}; empty: any value.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace cudal1::cli
