// The printers: the canonical form that is hashed, and the head for display.
#include <algorithm>
#include <cmath>

#include <boost/mp11.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "sandbox/program/canonical.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/near_miss.hpp"
#include "sandbox/program/operators/operators.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

namespace {

json integers_json(const auto& numbers) {
  json::array items;
  for (const int64_t n : numbers)
    items.emplace_back(n);
  return items;
}

json strings_json(const std::vector<std::string>& words) {
  json::array items;
  for (const auto& word : words)
    items.emplace_back(word);
  return items;
}

void add_type(json& object, const tensor_type& type) {
  object.set("dtype", name_of(type.type));
  object.set("shape", integers_json(type.shape));
}

json argument_json(const launch_argument& a) {
  static constexpr const char* kinds[] = {"in", "out", "inout", "i32", "i64", "f32", "f64"};
  json object = json::make_object();
  json value;
  if (a.is_tensor()) {
    value = a.tensor;
  } else if (a.kind == argument_kind::i32 || a.kind == argument_kind::i64) {
    value = a.integer;
  } else {
    value = a.real;  // json prints non-finite numbers as strings
  }
  object.set(kinds[static_cast<std::size_t>(a.kind)], std::move(value));
  if (!a.map) return object;
  json map = json::make_object();
  map.set("box", integers_json(a.map->box));
  if (a.map->swizzle != 0) map.set("swizzle", a.map->swizzle);
  return object.set("map", std::move(map));
}

json declarations_json(const std::vector<tensor_declaration>& declarations) {
  json::array items;
  for (const auto& d : declarations)
    items.push_back(declaration_json(d));
  return items;
}

json steps_json(const std::vector<step>& steps) {
  json::array items;
  for (const auto& s : steps)
    items.push_back(step_json(s));
  return items;
}

json head_json(const program& p) {
  json head = json::make_object();
  head.set("format", program_format);
  head.set("name", p.name);
  head.set("inputs", declarations_json(p.inputs));
  head.set("weights", declarations_json(p.weights));
  head.set("setup", steps_json(p.setup));
  head.set("steps", steps_json(p.steps));
  head.set("outputs", strings_json(p.outputs));
  json how = json::make_object();
  how.set("graph", p.how.graph);
  how.set("lanes", p.how.lanes);
  head.set("execution", std::move(how));
  // Left out where there are none, so that programs from before headers existed keep their ids.
  if (!p.headers.empty()) {
    auto sorted = p.headers;
    sort_headers(sorted);
    head.set("headers", strings_json(sorted));
  }
  return head;
}

}  // namespace

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<dtype>>(
      [&](auto d) { names.push_back(enum_name(static_cast<dtype>(d.value))); });
  return names;
}

std::string no_such_dtype(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> in_c[] = {
      {"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"int", "int32"}, {"long", "int64"}};
  const auto names = dtype_names();
  auto hint = did_you_mean(name, {names.begin(), names.end()});
  for (const auto& [theirs, ours] : in_c)
    if (theirs == name) hint = fmt::format("; did you mean \"{}\"?", ours);
  return fmt::format("there is no {}{} (there are {})", json(name).text(), hint, fmt::join(names, ", "));
}

bool fits_float(double v) {
  // The largest double that rounds to a finite float: half a unit above FLT_MAX is the first that does not.
  return std::abs(v) < 0x1.ffffffp127;
}

void sort_arguments(aten_step& call) {
  const auto* op = find_operator(call.op);
  if (!op || call.args.size() > max_aten_arguments) return;  // too many arguments are reported as another error
  const auto& arguments = op->schema.arguments;
  const auto place = [&](const std::string& name) {
    return std::find_if(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name == name; }) -
           arguments.begin();
  };
  std::stable_sort(call.args.begin(), call.args.end(),
                   [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
}

void sort_headers(std::vector<std::string>& headers) {
  const auto place = [](const std::string& name) {
    return std::find(header_sets.begin(), header_sets.end(), name) - header_sets.begin();
  };
  std::stable_sort(headers.begin(), headers.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
}

json declaration_json(const tensor_declaration& d) {
  json object = json::make_object();
  object.set("name", d.name);
  add_type(object, d.type);
  if (d.type.strides != contiguous_strides(d.type.shape)) object.set("strides", integers_json(d.type.strides));
  return object;
}

json aten_json(const aten_step& call) {
  auto sorted = call;
  sort_arguments(sorted);
  json object = json::make_object();
  object.set("aten", sorted.op);
  object.set("args", json(json::object(sorted.args)));
  object.set("out", strings_json(sorted.results));
  if (!sorted.precision.empty()) object.set("precision", sorted.precision);
  return object;
}

json step_json(const step& s) {
  if (const auto* call = std::get_if<aten_step>(&s)) return aten_json(*call);
  json object = json::make_object();
  if (const auto* alloc = std::get_if<alloc_step>(&s)) {
    object.set("alloc", alloc->name);
    add_type(object, alloc->type);
    return object;
  }
  const auto& launch = std::get<launch_step>(s);
  object.set("launch", launch.kernel);
  object.set("grid", integers_json(launch.grid));
  object.set("block", integers_json(launch.block));
  object.set("shared_bytes", launch.shared_bytes);
  if (launch.cooperative) object.set("cooperative", true);
  if (launch.programmatic) object.set("programmatic", true);
  json::array args;
  for (const auto& a : launch.args)
    args.push_back(argument_json(a));
  object.set("args", std::move(args));
  return object;
}

std::string print_program(const program& p) {
  auto text = head_json(p).text() + "\n";
  if (!p.source.empty()) text.append(program_separator).append("\n").append(p.source);
  return text;
}

std::string print_program_head(const program& p) {
  std::string out = "{";
  bool first = true;
  const auto head = head_json(p);
  for (const auto& [key, value] : head.as_object()) {
    out += first ? "\n  " : ",\n  ";
    first = false;
    out += json(key).text() + ": ";
    const bool lines = value.is_array() && !value.as_array().empty() && value.as_array().front().is_object();
    if (!lines) {
      out += value.text();
      continue;
    }
    out += "[";
    for (std::size_t i = 0; i < value.as_array().size(); ++i)
      out += (i == 0 ? "\n    " : ",\n    ") + value.as_array()[i].text();
    out += "\n  ]";
  }
  return out + "\n}\n";
}

std::string program_id(const program& p) {
  return sha256_hex(print_program(p));
}

}  // namespace cudal1
