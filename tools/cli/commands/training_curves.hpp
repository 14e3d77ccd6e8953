// A training's steps as a picture and as rows.
#pragma once

#include <span>
#include <string>

#include "policy/model/training/text_stages.hpp"

namespace cudal1::cli {

// Of the columns of training_row.
std::string training_header();
// A step in one line.
std::string training_row(const stage_progress& p);
// SVG: loss, scores, share of correct answers, KL and entropy over the steps, with a line where a stage begins.
std::string training_curves(std::span<const stage_progress> steps);

}  // namespace cudal1::cli
