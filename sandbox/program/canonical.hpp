// Helpers that reader and printer share, so that what is printed is what is read.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/program.hpp"

namespace cudal1 {

std::vector<std::string> dtype_names();
// Whether a finite double rounds to a finite float.
bool fits_float(double v);
// Puts the arguments into the schema's order; those of an unknown operator, and unknown ones, stay where they are.
void sort_arguments(aten_step& call);

json declaration_json(const tensor_declaration& d);
json aten_json(const aten_step& call);
json step_json(const step& s);

}  // namespace cudal1
