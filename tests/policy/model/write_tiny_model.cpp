// Writes the folder of a tiny model, for tests of commands: write_tiny_model FOLDER [SEED] [CONTEXT].
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/policy/model/tiny_model.hpp"

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    cudal1::write_tiny_model(arguments[1], count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1,
                             count > 3 ? std::strtoll(arguments[3], nullptr, 10) : 8192);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
