// How a task file specifies the draws of a tensor, the facts that hold in every draw, and its content.
#pragma once

#include <string>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/size_expression.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Reads the keys "draw", "facts", "content" and "quantiles" of a declaration, each of which may be missing; numbers may
// be size expressions. Default draws: the standard normal for floating types, a fair coin for bool; integer tensors
// have none and need a draw unless their content is fixed.
expected<input_spec> read_input_spec(const json& declaration, const tensor_type& type, const size_names& sizes,
                                     const std::string& where);

// "uniform on [0, 1)", "normal, mean 0, standard deviation 1".
std::string draw_text(const draw_spec& draw);
json draw_json(const draw_spec& draw);  // only the members that its distribution has
json facts_json(const std::vector<fact>& facts);
json content_json(const tensor_content& content);

}  // namespace cudal1
