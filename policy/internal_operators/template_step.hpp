// A step whose kernel a template writes.
#pragma once

#include "policy/codegen/kernel_template.hpp"
#include "policy/internal_operators/internal_operators.hpp"

namespace cudal1 {

// What replaces the step: the operator with the template's name and the chosen values besides the arguments.
operator_use use_of_template(const kernel_template& t, std::vector<std::pair<std::string, argument_value>> arguments,
                             const tunable_values& chosen);
internal_operator kernel_template_operator();

}  // namespace cudal1
