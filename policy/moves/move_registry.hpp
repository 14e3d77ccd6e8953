// All kinds of moves there are.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

// Family by family.
const std::vector<move_kind>& move_kinds();
const move_kind* find_move(std::string_view name);
// As a schedule would hold them: phase after phase, in their order.
std::vector<const move_kind*> moves_of(move_phase phase);
std::vector<const move_kind*> moves_of(starting_part part);

// Applies a move after its name and parameters were checked; gives what it did here, in one sentence.
expected<std::string> apply_move(graph& g, const move& m, const lowering_target& target);

// One sentence about each kind of move: for --help, prompts and `cudal1 show`.
std::vector<std::pair<std::string, std::string>> move_catalogue();

}  // namespace cudal1
