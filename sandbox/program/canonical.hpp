// Helpers that reader and printer share, so that what is printed is what is read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/program.hpp"

namespace cudal1 {

std::vector<std::string> dtype_names();
// `there is no "float"; did you mean "float32"? (there are ...)`: C's names for the types are known too.
std::string no_such_dtype(std::string_view name);
// Whether a finite double rounds to a finite float.
bool fits_float(double v);
// Puts the arguments into the schema's order; those of an unknown operator, and unknown ones, stay where they are.
void sort_arguments(aten_step& call);
// Puts them into the order of header_sets; unknown ones go last.
void sort_headers(std::vector<std::string>& headers);

json declaration_json(const tensor_declaration& d);
json aten_json(const aten_step& call);
json step_json(const step& s);

}  // namespace cudal1
