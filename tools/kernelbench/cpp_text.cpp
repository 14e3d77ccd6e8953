#include "tools/kernelbench/cpp_text.hpp"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/interpreter/lane_plan.hpp"
#include "sandbox/program/output_steps.hpp"
#include "tools/kernelbench/argument_text.hpp"
#include "tools/kernelbench/runtime_texts.hpp"

namespace cudal1::kernelbench {

namespace {

constexpr int64_t k_graph_alignment_bytes = 256;  // libraries may choose their kernels by alignment
constexpr int64_t k_alignment_bytes = 16;         // for vector loads of kernels

std::string list_text(const std::vector<int64_t>& items) {
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

class program_writer {
 public:
  program_writer(const checked_program& p, const std::string& name)
      : p_(p), name_(name), kernels_(kernels_of(p)), making_outputs_(p) {
    if (p.text.how.lanes > 1) lanes_ = plan_lanes(p);
  }

  std::string run() {
    // The steps first, because they determine the declarations.
    const auto setup = steps_text(p_.text.setup, p_.setup_calls, program_section::setup);
    const auto steps = steps_text(p_.text.steps, p_.calls, program_section::steps);
    std::string text = head();
    text += "namespace {\n\n";
    text += declarations();
    text += types_;
    text += fmt::format("\nvoid run_setup([[maybe_unused]] values& v) {{\n{}}}\n", setup);
    text += fmt::format("\nvoid run_steps(values& v) {{\n{}}}\n", steps);
    text += outputs();
    text += "\n}  // namespace\n\n";
    text += texts::run();
    if (p_.text.how.graph)
      text.append(texts::captured_graph())
          .append(texts::graph_node())
          .append(texts::rebound_graph())
          .append(texts::graph_bindings())
          .append(texts::graph_runner());
    return text.append(texts::program()).append(texts::module());
  }

 private:
  const std::string& root(const std::string& value) const {
    const auto viewed = p_.view_of.find(value);
    return viewed == p_.view_of.end() ? value : viewed->second;
  }
  bool has_lanes() const { return lanes_.lanes > 1; }

  std::string head() const {
    std::string text;
    if (p_.text.how.graph) text += "#define PROGRAM_GRAPH\n";
    if (has_lanes()) text += "#define PROGRAM_LANES\n";
    if (needs_cuda(p_)) text += "#define PROGRAM_CUDA\n";
    std::set<std::string> headers;
    for (const auto* calls : {&p_.setup_calls, &p_.calls})
      for (const auto& call : *calls) {
        if (call.op == nullptr) continue;
        const auto needed = operator_headers(call.op->schema);
        headers.insert(needed.begin(), needed.end());
      }
    text.append(texts::common()).append(texts::python_objects()).append(texts::torch_python());
    for (const auto& header : headers)
      text += fmt::format("#include <{}>\n", header);
    if (has_precision()) text += texts::product_precision();
    if (calls_own_operators(p_))
      text.append(texts::convolution_chain())
          .append(texts::cudnn_calls())
          .append(texts::convolution_plan())
          .append(texts::convolution_on_gpu())
          .append(texts::own_operators());
    if (needs_cuda(p_)) text += texts::cuda_calls();
    if (!kernels_.empty()) text += texts::kernels();
    if (has_maps()) text.append(texts::tensor_maps()).append(texts::mapped_tensors());
    if (p_.text.how.graph) text += texts::apart_memory();
    if (has_lanes()) text.append(texts::lane_streams()).append(texts::lanes());
    return text;
  }

  std::string declared(const std::vector<tensor_declaration>& tensors, const char* function) const {
    std::string text =
        fmt::format("const std::vector<tensor_type>& {}() {{\n  static const std::vector<tensor_type> all{{", function);
    for (const auto& t : tensors)
      text += fmt::format("\n      {{\"{}\", {}, {}, {}}},", t.name, scalar_type_text(t.type.type),
                          list_text(t.type.shape), list_text(t.type.strides));
    return text + "};\n  return all;\n}\n";
  }

  std::string bound(const std::vector<tensor_declaration>& tensors, const char* function) const {
    std::string text = fmt::format(
        "void {}([[maybe_unused]] values& v, [[maybe_unused]] const std::vector<at::Tensor>& given) {{\n", function);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      text += fmt::format("  {} = given[{}];\n", value_text(tensors[i].name), i);
    return text + "}\n";
  }

  // Values that live only during a call.
  std::vector<std::string> temporaries() const {
    std::vector<std::string> names;
    for (const auto& input : p_.text.inputs)
      names.push_back(input.name);
    names.insert(names.end(), made_in_steps_.begin(), made_in_steps_.end());
    return names;
  }

  std::string declarations() const {
    const auto& t = p_.text;
    std::string text = fmt::format("constexpr const char* program_name = {};\n", string_text(name_));
    text += fmt::format("constexpr bool needs_gpu = {}, has_setup = {};\n", needs_cuda(p_), !t.setup.empty());
    text += fmt::format("constexpr uintptr_t input_alignment = {}, weight_alignment = {};\n\n",
                        t.how.graph ? k_graph_alignment_bytes : k_alignment_bytes, k_alignment_bytes);
    std::vector<tensor_declaration> outputs;
    for (const auto& name : t.outputs)
      outputs.push_back({name, p_.types.at(name)});
    text += declared(t.inputs, "input_types") + declared(t.weights, "weight_types") + declared(outputs, "output_types");
    text += "\n// Every value of the program by its name.\nstruct values {\n  at::Device device{at::kCPU};\n";
    if (t.how.graph) text += "  apart_memory* apart = nullptr;\n";
    if (has_lanes()) text += "  lane_streams* lanes = nullptr;\n";
    std::vector<std::string> kept = made_in_setup_;
    for (const auto& weight : t.weights)
      kept.push_back(weight.name);
    for (const auto& name : kept)
      text += fmt::format("  at::Tensor {}_;\n", name);
    std::string reset;
    for (const auto& name : temporaries()) {
      text += fmt::format("  at::Tensor {}_;\n", name);
      reset += fmt::format("    {}_.reset();\n", name);
    }
    text += fmt::format("\n  // The end of a call.\n  void clear() {{\n{}  }}\n}};\n\n", reset);
    text += bound(t.inputs, "set_inputs") + bound(t.weights, "set_weights");
    return text + "\n" + preparation() + "\n";
  }

  std::string preparation() const {
    std::string text = "// Once for a device.\nvoid prepare([[maybe_unused]] values& v) {\n";
    std::map<std::size_t, int64_t> shared;
    for (const auto* steps : {&p_.text.setup, &p_.text.steps})
      for (const auto& s : *steps)
        if (const auto* launch = std::get_if<launch_step>(&s); launch != nullptr && launch->shared_bytes > 0)
          shared[kernel_index(launch->kernel)] = std::max(shared[kernel_index(launch->kernel)], launch->shared_bytes);
    for (const auto& [kernel, bytes] : shared)
      text += fmt::format("  allow_shared_memory({}, {});\n", kernel, bytes);
    if (has_lanes())
      text += fmt::format(
          "  static auto* const all = new std::map<int, std::unique_ptr<lane_streams>>();  // streams stay\n"
          "  auto& lanes = (*all)[v.device.index()];\n"
          "  if (!lanes)\n"
          "    lanes = std::make_unique<lane_streams>(v.device.index(), own_streams(v.device.index(), {}), {});\n"
          "  v.lanes = lanes.get();\n",
          lanes_.lanes - 1, lanes_.events);
    return text + "}\n";
  }

  std::size_t kernel_index(const std::string& kernel) const {
    return static_cast<std::size_t>(std::find(kernels_.begin(), kernels_.end(), kernel) - kernels_.begin());
  }

  std::string steps_text(const std::vector<step>& steps, const std::vector<operator_call>& calls,
                         program_section part) {
    auto& made = part == program_section::setup ? made_in_setup_ : made_in_steps_;
    std::vector<std::vector<std::string>> texts;
    std::vector<std::vector<std::string>> used(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      texts.emplace_back();
      auto& lines = texts.back();
      if (p_.text.how.graph && part == program_section::steps && making_outputs_.contains(steps[i]))
        lines.emplace_back("const apart_scope apart(v.apart);");
      if (const auto* alloc = std::get_if<alloc_step>(&steps[i])) {
        made.push_back(alloc->name);
        used[i].push_back(alloc->name);
        lines.push_back(alloc_text(*alloc));
      } else if (const auto* launch = std::get_if<launch_step>(&steps[i])) {
        for (const auto& a : launch->args)
          if (a.is_tensor()) used[i].push_back(a.tensor);
        lines.push_back(launch_text(*launch));
      } else {
        aten_text(std::get<aten_step>(steps[i]), calls[i], lines, used[i], made);
      }
    }
    return joined(steps, texts, used, part);
  }

  // One block per step, with its lane, and with resets of the values that it is the last to use.
  std::string joined(const std::vector<step>& steps, const std::vector<std::vector<std::string>>& texts,
                     const std::vector<std::vector<std::string>>& used, program_section part) const {
    const bool laned = has_lanes() && part == program_section::steps;
    std::set<std::string> kept(p_.text.outputs.begin(), p_.text.outputs.end());
    kept.insert(made_in_setup_.begin(), made_in_setup_.end());
    for (const auto* declared : {&p_.text.inputs, &p_.text.weights})
      for (const auto& t : *declared)
        kept.insert(t.name);
    std::vector<std::string> ends(steps.size());
    for (std::size_t i = steps.size(); i-- > 0 && !laned;)
      for (const auto& name : used[i])
        if (kept.insert(name).second) ends[i] += fmt::format("  {}.reset();\n", value_text(name));
    std::string text = laned ? "  v.lanes->begin();\n" : "";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      text += fmt::format("  // {}\n", step_label(i, steps[i], part));
      const laned_step where = laned ? lanes_.steps[i] : laned_step();
      if (where.lane != no_lane) text += fmt::format("  v.lanes->enter({});\n", where.lane);
      for (const int event : where.waits)
        text += fmt::format("  v.lanes->wait({});\n", event);
      text += "  {\n";
      for (const auto& line : texts[i])
        text += "    " + line + "\n";
      text += "  }\n";
      if (where.event != no_event) text += fmt::format("  v.lanes->record({});\n", where.event);
      text += ends[i];
    }
    return text + (laned ? "  v.lanes->join();\n" : "");
  }

  static std::string alloc_text(const alloc_step& s) {
    return fmt::format("{} = allocated({}, {}, {}, v.device);", value_text(s.name), array_ref(s.type.shape),
                       array_ref(s.type.strides), scalar_type_text(s.type.type));
  }
  static std::string array_ref(const std::vector<int64_t>& items) {
    return items.empty() ? "at::IntArrayRef()" : fmt::format("at::IntArrayRef({})", list_text(items));
  }

  bool has_maps() const {
    const auto maps = [](const step& s) {
      const auto* const launch = std::get_if<launch_step>(&s);
      return launch != nullptr && std::ranges::any_of(launch->args, [](const auto& a) { return a.map.has_value(); });
    };
    return std::ranges::any_of(p_.text.setup, maps) || std::ranges::any_of(p_.text.steps, maps);
  }

  bool has_precision() const {
    const auto asks = [](const step& s) {
      const auto* const call = std::get_if<aten_step>(&s);
      return call != nullptr && !call->precision.empty();
    };
    return std::ranges::any_of(p_.text.setup, asks) || std::ranges::any_of(p_.text.steps, asks);
  }

  static std::string tensor_text(const launch_argument& a) {
    if (!a.map) return fmt::format("memory_of({})", value_text(a.tensor));
    return fmt::format("mapped({}, {}, {})", value_text(a.tensor), list_text(a.map->box), a.map->swizzle);
  }

  std::string launch_text(const launch_step& s) const {
    std::vector<std::string> args;
    for (const auto& a : s.args) {
      switch (a.kind) {
        case argument_kind::i32:
          args.push_back(fmt::format("int32_t{{{}}}", a.integer));
          break;
        case argument_kind::i64:
          args.push_back(integer_text(a.integer));
          break;
        case argument_kind::f32:
          args.push_back(float_text(a.real));
          break;
        case argument_kind::f64:
          args.push_back(real_text(a.real));
          break;
        default:
          args.push_back(tensor_text(a));
      }
    }
    const auto sizes = [](const std::array<int64_t, 3>& n) {
      return fmt::format("dim3({}, {}, {})", n[0], n[1], n[2]);
    };
    const auto called =
        s.cooperative || s.programmatic
            ? fmt::format("launch_as({{.cooperative = {}, .programmatic = {}}}, ", s.cooperative, s.programmatic)
            : std::string("launch(");
    return fmt::format("{}\"{}\", {}, {}, {}, {}{}{});", called, s.kernel, kernel_index(s.kernel), sizes(s.grid),
                       sizes(s.block), s.shared_bytes, args.empty() ? "" : ", ", fmt::join(args, ", "));
  }

  void aten_text(const aten_step& s, const operator_call& call, std::vector<std::string>& lines,
                 std::vector<std::string>& used, std::vector<std::string>& made) {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < call.arguments.size(); ++i) {
      auto a = argument_of(call, i);
      lines.insert(lines.end(), a.declarations.begin(), a.declarations.end());
      arguments.push_back(std::move(a.text));
      if (const auto* t = std::get_if<tensor_argument>(&call.arguments[i])) used.push_back(t->name);
      if (const auto* many = std::get_if<std::vector<tensor_argument>>(&call.arguments[i]))
        for (const auto& t : *many)
          if (!t.name.empty()) used.push_back(t.name);
    }
    if (!s.precision.empty())
      lines.push_back(fmt::format("const product_precision precision(product_precision::{});", s.precision));
    std::vector<std::string> targets;
    for (const auto& result : s.results)
      targets.push_back(result.empty() ? "std::ignore" : value_text(result));
    const auto called = fmt::format("{}::call({})", operator_text(s.op), fmt::join(arguments, ", "));
    lines.push_back(targets.size() == 1 ? fmt::format("{} = {};", targets[0], called)
                                        : fmt::format("std::tie({}) = {};", fmt::join(targets, ", "), called));
    for (const auto& result : s.results) {
      if (result.empty()) continue;
      made.push_back(result);
      used.push_back(result);
      const auto& type = p_.types.at(result);
      types_ += fmt::format("const tensor_type type_of_{}{{\"{}\", {}, {}, {}}};\n", result, result,
                            scalar_type_text(type.type), list_text(type.shape), list_text(type.strides));
      if (call.op->needs_relayout)
        lines.push_back(fmt::format("{0} = laid_out_as({0}, type_of_{1});", value_text(result), result));
      lines.push_back(fmt::format("expect({}, type_of_{});", value_text(result), result));
    }
  }

  // Outputs belong to the caller, so values that the program keeps are cloned.
  std::string outputs() const {
    std::set<std::string> kept(made_in_setup_.begin(), made_in_setup_.end());
    for (const auto& weight : p_.text.weights)
      kept.insert(weight.name);
    std::string text = "\nstd::vector<at::Tensor> outputs_of(values& v) {\n";
    if (p_.text.how.graph) text += "  const apart_scope apart(v.apart);\n";
    text += "  std::vector<at::Tensor> outputs;\n";
    for (const auto& output : p_.text.outputs)
      text += fmt::format("  outputs.push_back({}{});\n", value_text(output),
                          kept.contains(root(output)) ? ".clone()" : "");
    return text + "  return outputs;\n}\n";
  }

  const checked_program& p_;
  const std::string& name_;
  std::vector<std::string> kernels_;
  lane_plan lanes_;
  output_steps making_outputs_;
  std::vector<std::string> made_in_setup_, made_in_steps_;
  std::string types_;  // the expected types of ATen steps' results
};

}  // namespace

std::vector<std::string> kernels_of(const checked_program& p) {
  std::vector<std::string> names;
  for (const auto* steps : {&p.text.setup, &p.text.steps})
    for (const auto& s : *steps)
      if (const auto* launch = std::get_if<launch_step>(&s);
          launch != nullptr && std::find(names.begin(), names.end(), launch->kernel) == names.end())
        names.push_back(launch->kernel);
  return names;
}

bool calls_own_operators(const checked_program& p) {
  const auto is_own = [](const operator_call& call) {
    return call.op != nullptr && is_own_operator(call.op->schema.name);
  };
  return std::ranges::any_of(p.setup_calls, is_own) || std::ranges::any_of(p.calls, is_own);
}

bool needs_cuda(const checked_program& p) {
  return p.text.how.graph || p.text.how.lanes > 1 || !kernels_of(p).empty() || calls_own_operators(p);
}

std::string cpp_text(const checked_program& p, const std::string& name) {
  return program_writer(p, name).run();
}

}  // namespace cudal1::kernelbench
