// write_report_store DATA KIND: a store for tests of reports. KIND: full, hostile, running, failing, empty, or a number
// of variants of a task.
#include <cstdlib>
#include <iostream>

#include "tests/tools/report_store.hpp"

int main(int argc, char** argv) {
  using namespace cudal1::cli;
  if (argc != 3) {
    std::cerr << "usage: write_report_store DATA full|hostile|running|failing|empty|VARIANTS\n";
    return 2;
  }
  const std::string kind = argv[2];
  report_store_options o;
  o.hostile = kind == "hostile";
  o.running = kind == "running";
  o.failing = kind == "failing";
  if (const int variants = std::atoi(argv[2]); variants > 0) o.variants_of_a_task = variants;
  if (kind == "empty")
    write_empty_store(argv[1]);
  else
    write_report_store(argv[1], o);
  return 0;
}
