// A Python that is confined as a compiler is: it reads everything, writes to folders that are named, and has no
// network.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "tools/cli/python_process.hpp"

namespace cudal1::cli {

// For run_child(). `folder`: its home and the place of its temporary files. The limits of time are the caller's:
// PyTorch computes on all cores, so that of the processor should be far above that of the clock.
child_options python_child(const std::string& folder, std::vector<std::string> command);

// Runs `python script words... --report FILE` so, and gives what it has written to that file. What it prints is shown
// at its end: a terminal that is given to a process can be typed into by it. `writable`: a folder that is there.
// `stop_fd`: the process is ended once that is readable (errc::cancelled); -1 for none.
expected<python_result> run_confined_python(const std::string& python, const std::string& script,
                                            std::vector<std::string> words, const std::string& writable, int stop_fd);

}  // namespace cudal1::cli
