// The records as JSON for programs in other languages: what the importer needs of operators.
#include "config/base/describe.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

json pair(const bounds& b) {
  return json::make_array({b.low, b.high});
}

json document_of(const clipping& c) {
  return json::make_object({{"limits", pair(c.limits)}, {"low", c.low_argument}, {"high", c.high_argument}});
}

// Only what is set.
json document_of(const operator_record& r) {
  const operator_traits& traits = r.traits;
  json out = json::make_object({{"name", r.name()}, {"kind", enum_name(r.kind)}});
  const auto mark = [&](const char* name, bool holds) {
    if (holds) out.set(name, true);
  };
  const auto word = [&](const char* name, const char* value) {
    if (value[0] != 0) out.set(name, value);
  };
  for (const std::string_view alias : r.aliases) {
    if (out.find("aliases") == nullptr) out.set("aliases", json::make_array());
    out.find("aliases")->push_back(alias.substr(0, alias.find('(')));
  }
  if (traits.range) out.set("range", pair(*traits.range));
  if (traits.clips) out.set("clips", document_of(*traits.clips));
  if (traits.product.left[0] != 0) out.set("product", json::make_array({traits.product.left, traits.product.right}));
  mark("selects", selects_elements(r));
  mark("elementwise", is_elementwise(r));
  mark("partial", traits.partial);
  mark("commutes", traits.commutes);
  mark("may_copy", traits.may_copy);
  word("with_number", traits.with_number);
  word("outright", traits.outright);
  return out;
}

}  // namespace

json operators_json() {
  json::array all;
  for (const auto& r : operator_records())
    all.push_back(document_of(r));
  return json::make_object({{"operators", json(std::move(all))}});
}

}  // namespace cudal1
