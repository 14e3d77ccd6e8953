#include "tools/cli/commands/package_plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sandbox/interpreter/lane_plan.hpp"
#include "sandbox/program/launch_rules.hpp"
#include "sandbox/program/output_steps.hpp"

namespace cudal1::cli {

namespace {

constexpr int64_t k_nothing = -1;  // in place of a value, a lane or an event

json list_of(const auto& items) {
  return json(json::array(items.begin(), items.end()));
}

std::string real_text(double value) {
  return fmt::format("{:.17g}", value);
}

class plan_writer {
 public:
  explicit plan_writer(const checked_program& p) : p_(p), making_outputs_(p) {
    if (p.text.how.lanes > 1) lanes_ = plan_lanes(p);
  }

  json run() {
    for (const auto* declared : {&p_.text.inputs, &p_.text.weights})
      for (const auto& t : *declared)
        place(t.name);
    auto setup = steps(p_.text.setup, p_.setup_calls, program_section::setup);
    const auto made_in_setup = std::ssize(values_);
    auto called = steps(p_.text.steps, p_.calls, program_section::steps);
    std::vector<int64_t> outputs;
    for (const auto& name : p_.text.outputs)
      outputs.push_back(place(name));
    const auto first_made = std::ssize(p_.text.inputs) + std::ssize(p_.text.weights);
    std::vector<int64_t> kept;
    for (auto v = first_made; v < made_in_setup; ++v)
      if (read_in_steps_.contains(v) || std::ranges::count(outputs, v) > 0) kept.push_back(v);
    add_ends(setup, setup_uses_, {kept.begin(), kept.end()});
    std::set<int64_t> lasting(outputs.begin(), outputs.end());
    for (int64_t v = 0; v < made_in_setup; ++v)
      lasting.insert(v);
    add_ends(called, step_uses_, std::move(lasting));
    json::array listed;
    for (const auto& name : values_) {
      const auto& type = p_.types.at(name);
      const auto viewed = p_.view_of.find(name);
      listed.push_back(json::make_object({{"name", name},
                                          {"dtype", name_of(type.type)},
                                          {"shape", list_of(type.shape)},
                                          {"strides", list_of(type.strides)},
                                          {"memory_of", place(viewed == p_.view_of.end() ? name : viewed->second)}}));
    }
    return json::make_object({{"name", p_.text.name},
                              {"values", json(std::move(listed))},
                              {"inputs", places(p_.text.inputs)},
                              {"weights", places(p_.text.weights)},
                              {"kept", list_of(kept)},
                              {"outputs", list_of(outputs)},
                              {"setup", json(std::move(setup))},
                              {"steps", json(std::move(called))},
                              {"lanes", lanes_.lanes},
                              {"events", lanes_.events}});
  }

 private:
  int64_t place(const std::string& name) {
    const auto [found, is_new] = places_.emplace(name, std::ssize(values_));
    if (is_new) values_.push_back(name);
    return found->second;
  }
  int64_t place_or_nothing(const std::string& name) { return name.empty() ? k_nothing : place(name); }
  json places(const std::vector<tensor_declaration>& declared) {
    std::vector<int64_t> all;
    for (const auto& t : declared)
      all.push_back(place(t.name));
    return list_of(all);
  }

  json::array steps(const std::vector<step>& given, const std::vector<operator_call>& calls, program_section part) {
    const bool is_setup = part == program_section::setup;
    auto& uses = is_setup ? setup_uses_ : step_uses_;
    json::array all;
    for (std::size_t i = 0; i < given.size(); ++i) {
      used_.clear();
      auto made = std::visit([&](const auto& s) { return step_json(s, calls[i]); }, given[i]);
      made.set("label", step_label(i, given[i], part));
      made.set("makes_output", !is_setup && making_outputs_.contains(given[i]));
      if (!is_setup && lanes_.lanes > 1) {
        made.set("lane", int64_t{lanes_.steps[i].lane});
        made.set("event", int64_t{lanes_.steps[i].event});
        made.set("waits", list_of(std::vector<int64_t>(lanes_.steps[i].waits.begin(), lanes_.steps[i].waits.end())));
      }
      if (!is_setup) read_in_steps_.insert(used_.begin(), used_.end());
      uses.push_back(used_);
      all.push_back(std::move(made));
    }
    return all;
  }

  // A value is released behind the last step that uses it, unless it lasts.
  static void add_ends(json::array& steps, const std::vector<std::vector<int64_t>>& uses, std::set<int64_t> lasting) {
    for (std::size_t i = steps.size(); i-- > 0;) {
      std::vector<int64_t> ends;
      for (const auto v : uses[i])
        if (lasting.insert(v).second) ends.push_back(v);
      steps[i].set("last_used", list_of(ends));
    }
  }

  json step_json(const alloc_step& s, const operator_call&) {
    used_.push_back(place(s.name));
    return json::make_object({{"alloc", used_.back()}});
  }

  json step_json(const launch_step& s, const operator_call&) {
    json::array arguments;
    for (const auto& a : s.args) {
      if (!a.is_tensor()) {
        arguments.push_back(json::make_object({{"bits", static_cast<int64_t>(scalar_bits(a))}}));
        continue;
      }
      used_.push_back(place(a.tensor));
      auto argument = json::make_object({{"slot", used_.back()}});
      if (a.map) {
        argument.set("box", list_of(a.map->box));
        argument.set("swizzle", a.map->swizzle);
      }
      arguments.push_back(std::move(argument));
    }
    return json::make_object({{"launch", s.kernel},
                              {"grid", list_of(s.grid)},
                              {"block", list_of(s.block)},
                              {"shared_bytes", s.shared_bytes},
                              {"cooperative", s.cooperative},
                              {"programmatic", s.programmatic},
                              {"args", json(std::move(arguments))}});
  }

  json step_json(const aten_step& s, const operator_call& call) {
    json::array arguments;
    for (std::size_t i = 0; i < call.arguments.size(); ++i)
      arguments.push_back(argument_json(call.arguments[i], call.op->schema.arguments[i]));
    std::vector<int64_t> results;
    for (const auto& name : s.results) {
      results.push_back(place_or_nothing(name));
      if (!name.empty()) used_.push_back(results.back());
    }
    const auto dot = s.op.find('.');
    return json::make_object({{"op", s.op.substr(0, dot)},
                              {"overload", dot == std::string::npos ? "" : s.op.substr(dot + 1)},
                              {"args", json(std::move(arguments))},
                              {"out", list_of(results)},
                              {"list", call.op->schema.list_result},
                              {"relayout", call.op->needs_relayout},
                              {"precision", s.precision}});
  }

  json argument_json(const argument_value& value, const schema_argument& schema) {
    const auto one = [](const char* kind, json v) { return json::make_object({{kind, std::move(v)}}); };
    if (const auto* t = std::get_if<tensor_argument>(&value)) {
      used_.push_back(place(t->name));
      return one("slot", used_.back());
    }
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&value)) {
      std::vector<int64_t> slots;
      for (const auto& t : *many) {
        slots.push_back(place_or_nothing(t.name));
        if (!t.name.empty()) used_.push_back(slots.back());
      }
      return json::make_object({{"slots", list_of(slots)}, {"optional", schema.optional_items}});
    }
    if (const auto* s = std::get_if<scalar_value>(&value)) {
      if (const auto* b = std::get_if<bool>(s)) return one("bool", *b);
      if (const auto* n = std::get_if<int64_t>(s)) return one("int", *n);
      return one("float", real_text(std::get<double>(*s)));
    }
    if (const auto* t = std::get_if<dtype>(&value)) return one("dtype", name_of(*t));
    if (const auto* text = std::get_if<std::string>(&value))
      return one(schema.type == schema_type::memory_format ? "memory_format"
                 : schema.type == schema_type::layout      ? "layout"
                                                           : "text",
                 *text);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) return one("ints", list_of(*v));
    if (const auto* v = std::get_if<std::vector<bool>>(&value)) return one("bools", list_of(*v));
    if (const auto* v = std::get_if<std::vector<double>>(&value)) {
      std::vector<std::string> texts;
      std::ranges::transform(*v, std::back_inserter(texts), real_text);
      return one("floats", list_of(texts));
    }
    return schema.name == "device" ? one("device", true) : json::make_object({});
  }

  const checked_program& p_;
  output_steps making_outputs_;
  lane_plan lanes_;
  std::vector<std::string> values_;
  std::map<std::string, int64_t> places_;
  std::vector<int64_t> used_;  // in the step that is written
  std::vector<std::vector<int64_t>> setup_uses_, step_uses_;
  std::set<int64_t> read_in_steps_;
};

}  // namespace

json package_plan(const checked_program& p) {
  return plan_writer(p).run();
}

}  // namespace cudal1::cli
