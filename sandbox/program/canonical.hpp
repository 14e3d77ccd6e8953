// Helpers that the reader and the printer of programs share, so that printed programs are read back unchanged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/program/program.hpp"

namespace cudal1 {

std::vector<std::string> dtype_names();
// `there is no "float"; did you mean "float32"? (there are ...)`: C's type names are recognised too.
std::string no_such_dtype(std::string_view name);
// Whether a finite double rounds to a finite float.
bool fits_float(double v);
// Puts the arguments into the schema's order; arguments of an unknown operator, and unknown arguments, keep theirs.
void sort_arguments(aten_step& call);
// Puts them into the order of header_sets; unknown ones go last.
void sort_headers(std::vector<std::string>& headers);

json declaration_json(const tensor_declaration& d);
json aten_json(const aten_step& call);
json step_json(const step& s);

}  // namespace cudal1
