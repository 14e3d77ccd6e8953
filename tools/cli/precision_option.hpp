// The option --precision: what error is accepted of variants.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "sandbox/device/accuracy.hpp"

namespace cudal1::cli {

inline CLI::Option* add_precision_option(CLI::App& command, std::string& precision, const std::string& about) {
  return command.add_option("--precision", precision, about)
      ->type_name("NAME")
      ->check(CLI::IsMember({"strict", "eager", "half"}));
}

// "" and "eager" are `own`.
inline accuracy accuracy_named(const std::string& precision) {
  return precision == "strict" ? accuracy::strict : precision == "half" ? accuracy::half : accuracy::own;
}

}  // namespace cudal1::cli
