// The files that `cudal1 report` writes: a page, its charts, its tables.
#pragma once

#include <string>

#include "tools/cli/command.hpp"

namespace cudal1::cli {

struct page_files {
  std::string html;       // a file
  std::string plots;      // a folder
  std::string tables;     // a folder
  std::string evaluator;  // results of KernelBench's own evaluator, which the page then has, too
  bool any() const { return !html.empty() || !plots.empty() || !tables.empty(); }
};

// Writes those that are named; each file appears whole. The rest as of read_page().
expected<int> write_page(const page_files& files, const std::string& experiment, const std::string& against,
                         const context& c);

}  // namespace cudal1::cli
