#include "config/installation.hpp"

#include <system_error>

#include <fmt/format.h>

namespace cudal1 {

namespace fs = std::filesystem;

bool is_in_wheel(const fs::path& bin) {
  return bin.parent_path().filename() == "cudal1_programs";
}

std::string libtorch_advice(const fs::path& bin) {
  if (is_in_wheel(bin))
    return fmt::format(
        "`pip install torch==2.11.0` installs LibTorch 2.11 into the environment that has cudal1 ({}); start the "
        "command `cudal1`, which finds it",
        bin.parent_path().parent_path().string());
  return fmt::format(
      "`pip install torch==2.11.0` installs LibTorch 2.11; {} finds it and makes the link through which the programs "
      "load it",
      (bin / "cudal1-setup").string());
}

std::string libtorch_advice() {
  std::error_code problem;
  return libtorch_advice(fs::read_symlink("/proc/self/exe", problem).parent_path());
}

std::string host_compiler_advice() {
  return "install GCC's C++ compiler, 12 or newer, as root: apt-get install --no-install-recommends g++ (Debian, "
         "Ubuntu), dnf install gcc-c++ (Fedora, RHEL)";
}

}  // namespace cudal1
