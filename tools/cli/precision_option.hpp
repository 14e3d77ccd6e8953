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

// "no evaluations yet; `cudal1 run` starts a search", of what was held to that precision.
inline std::string no_evaluations(const std::string& precision) {
  if (accuracy_named(precision) == accuracy::own) return "no evaluations yet; `cudal1 run` starts a search";
  return "no evaluations held to precision " + precision + " yet; `cudal1 run --precision " + precision +
         "` starts a search";
}

}  // namespace cudal1::cli
