// The progress of a running search: a frame that is redrawn in place on a terminal, lines on a pipe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/protocol.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// The user's settings, which experiment_progress does not contain.
struct run_limits {
  std::string device, policy;  // "": the node's choice
  double time_limit_s = 0;     // 0: none
};

// The lines of a frame, cut to the terminal's width and height. `remark` is the last line; "" for none.
std::vector<std::string> progress_frame(const experiment_progress& p, const run_limits& limits, const terminal& t,
                                        const std::string& remark);
// The frames of a search over several models, one under the other.
std::vector<std::string> search_frame(const experiment_progress& lead, const std::vector<experiment_progress>& others,
                                      const run_limits& limits, const terminal& t, const std::string& remark);
// "0:42  312 evaluations, 7.41/s, 12 of 16 tasks ahead; failed: hang 1".
std::string progress_line(const experiment_progress& p);

enum class view_mode { shown, silent };

class run_view {
 public:
  run_view(terminal t, run_limits limits, view_mode mode = view_mode::shown)
      : terminal_(t), limits_(std::move(limits)), mode_(mode), area_(t.stream) {}

  void set_limits(run_limits limits) { limits_ = std::move(limits); }
  // Shows what is being done, before there is progress or in addition to it.
  void remark(const std::string& what);
  // Prints a line that is not redrawn.
  void note(const std::string& what);
  void forget_remark() { remark_.clear(); }  // from the next frame on
  // `others`: of a search over several models, the experiments that `p` leads.
  void update(const experiment_progress& p, std::vector<experiment_progress> others = {});
  // Erases the frame.
  void close() { area_.erase(); }
  // Leaves the frame on the terminal.
  void keep() { area_.close(); }

 private:
  void draw();
  void print_lines(const experiment_progress& p, const std::string& model);
  terminal terminal_;
  run_limits limits_;
  view_mode mode_;
  live_area area_;
  experiment_progress last_;
  std::vector<experiment_progress> others_;
  std::string remark_;
  std::map<std::string, double> printed_best_;  // by experiment and task
  std::map<std::string, double> printed_at_s_;  // by experiment
  std::map<std::string, std::string> printed_problem_;
};

}  // namespace cudal1::cli
