// The registry of all kinds of moves.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/moves/move_kind.hpp"

namespace cudal1 {

// In the order of the families.
const std::vector<move_kind>& move_kinds();
const move_kind* find_move(std::string_view name);
// In the order in which a schedule applies them: by phase, then by `order`.
std::vector<const move_kind*> moves_of(move_phase phase);
std::vector<const move_kind*> moves_of(starting_part part);

// Checks a move's name and parameters and applies it; returns what it did here, in one sentence.
expected<std::string> apply_move(graph& g, const move& m, const lowering_target& target);

// Name and summary of each kind of move, for `cudal1 moves`.
std::vector<std::pair<std::string, std::string>> move_catalogue();

}  // namespace cudal1
