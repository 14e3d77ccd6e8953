// Schedules: lists of moves. A move is one named, parameterised, legality-checked transformation of a program.
// Text form: `fuse(steps=2..5); block(group=0, threads=256); vectorize(group=0, items=4)`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

enum class device_kind { cpu, cuda };
expected<device_kind> kind_of_device(std::string_view device);  // "cpu", "cuda:0"

struct move {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;  // in the move's fixed order
  bool operator==(const move&) const = default;
};

struct schedule {
  std::vector<move> moves;
  bool operator==(const schedule&) const = default;
};

std::string print_schedule(const schedule& s);
expected<schedule> parse_schedule(std::string_view text);

// A schedule put onto a task's program for a kind of device.
struct lowered {
  checked_program checked;
  std::vector<std::string> explanation;  // one line a move: what it does here and why it may pay
  std::vector<std::string>
      certificates;  // one for each move that needed a proof: the precondition, and where it was found
};

// All moves that are legal after `s`, in a fixed order.
expected<std::vector<move>> legal_moves(const task& t, const schedule& s, device_kind kind);
// errc::invalid_argument with the move's number and the reason where a move is not legal.
expected<lowered> lower(const task& t, const schedule& s, device_kind kind);
// One sentence about a kind of move: for --help, prompts and `cudal1 show`.
std::vector<std::pair<std::string, std::string>> move_catalogue();

}  // namespace cudal1
