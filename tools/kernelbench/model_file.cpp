#include "tools/kernelbench/model_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/base64.hpp"
#include "config/base/blob.hpp"
#include "config/base/describe.hpp"
#include "config/base/hash.hpp"
#include "tools/kernelbench/cpp_text.hpp"
#include "tools/kernelbench/cuda_text.hpp"
#include "tools/kernelbench/fixed_content.hpp"
#include "tools/kernelbench/runtime_texts.hpp"

namespace cudal1::kernelbench {

namespace {

constexpr std::size_t k_hash_digits = 12;
constexpr int64_t k_large_constant = 1 << 20;  // bytes

// The name with only characters that file names and C identifiers may have.
std::string word_of(const std::string& name) {
  std::string out;
  for (const char ch : name)
    out += std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
  return out.empty() ? "task" : out;
}

// The module's name of each weight, in the program's order. A program keeps its task's weights.
expected<std::vector<std::string>> weight_names(const task& t) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    if (!t.weights[i].content)
      return fail(errc::unsupported, "its weight {} has no name in the module (no content)",
                  t.reference.text.weights[i].name);
    names.push_back(t.weights[i].content->tensor);
  }
  return names;
}

// The import's names for tensors that forward makes and for constants that it has computed: no module has these.
bool is_made_in_forward(const std::string& tensor) {
  constexpr std::array<std::string_view, 4> beginnings{"constant_", "c_lifted", "lifted_tensor", "_tensor_constant"};
  return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view b) { return tensor.starts_with(b); });
}

// Constants of the definition, in case the module does not hold them itself. A large one that forward does not make is
// the module's.
expected<std::string> constants(const task& t, const std::string& blobs) {
  std::string text;
  for (std::size_t i = 0; i < t.weights.size(); ++i) {
    const auto& content = t.weights[i].content;
    const auto& type = t.reference.text.weights[i].type;
    if (!content || !content->fixed) continue;
    if (type.bytes() > k_large_constant && !is_made_in_forward(content->tensor)) continue;
    CUDAL1_TRY(const auto bytes, read_fixed_content(blobs, *content, type));
    text += fmt::format("    {}: (\"{}\", [{}], \"{}\"),\n", python_text(content->tensor), name_of(type.type),
                        fmt::join(type.shape, ", "), base64(bytes));
  }
  return text;
}

// A class as task_interface.hpp names it, as a Python expression.
std::string class_text(const std::string& name) {
  const auto colon = name.find(':');
  if (colon == std::string::npos) return name;
  return fmt::format("_kb_importlib.import_module(\"{}\").{}", name.substr(0, colon), name.substr(colon + 1));
}

// What forward returns, as a Python expression of the outputs `o`; see task_interface.hpp.
std::string returned_text(const json& v) {
  if (v.is_null()) return "None";
  if (v.is_int()) return fmt::format("o[{}]", v.as_int());
  const auto& [kind, items] = v.as_object().front();
  std::string text;
  if (kind == "object") {
    for (const auto& item : items.as_array())
      text += item.is_string()
                  ? class_text(item.as_string()) + "("
                  : fmt::format("{}={}, ", item.as_array()[0].as_string(), returned_text(item.as_array()[1]));
    return text + ")";
  }
  for (const auto& item : items.as_array())
    text += kind == "dict" ? fmt::format("{}: {}, ", python_text(item.as_array()[0].as_string()),
                                         returned_text(item.as_array()[1]))
                           : returned_text(item) + ", ";
  if (kind == "tuple") return "(" + text + ")";
  return kind == "list" ? "[" + text + "]" : "{" + text + "}";
}

// Of each state its name, its kind, and its places among the program's inputs and outputs.
std::string states_text(const task& t) {
  std::string text;
  const auto& p = t.reference.text;
  for (const auto& s : t.states) {
    const auto input = std::find_if(p.inputs.begin(), p.inputs.end(), [&](const auto& i) { return i.name == s.input; });
    const auto output = std::find(p.outputs.begin(), p.outputs.end(), s.output);
    text += fmt::format("    ({}, \"{}\", {}, {}),\n", python_text(s.name), enum_name(s.kind), input - p.inputs.begin(),
                        output - p.outputs.begin());
  }
  return text;
}

std::string modes_text(const task& t) {
  if (!t.origin || !t.origin->modes) return "_KB_MODES = None\n";
  std::string items;
  for (const auto& [names, training] :
       {std::pair{&t.origin->modes->training, "True"}, std::pair{&t.origin->modes->evaluation, "False"}})
    for (const auto& name : *names)
      items += fmt::format("    {}: {},\n", python_text(name), training);
  return items.empty() ? "_KB_MODES = {}\n" : "_KB_MODES = {\n" + items + "}\n";
}

std::string type_text(const tensor_type& t) {
  return fmt::format("\n    (_kb_torch.{}, [{}], [{}]),", name_of(t.type), fmt::join(t.shape, ", "),
                     fmt::join(t.strides, ", "));
}

// Element types, shapes and strides of the program's tensors.
std::string types_text(const checked_program& p) {
  std::string text;
  const auto add = [&](const char* name, const std::string& items) {
    text += fmt::format("{} = [{}{}]\n", name, items, items.empty() ? "" : "\n");
  };
  std::string inputs, weights, outputs;
  for (const auto& t : p.text.inputs)
    inputs += type_text(t.type);
  for (const auto& t : p.text.weights)
    weights += type_text(t.type);
  for (const auto& name : p.text.outputs)
    outputs += type_text(p.types.at(name));
  add("_KB_INPUT_TYPES", inputs);
  add("_KB_WEIGHT_TYPES", weights);
  add("_KB_OUTPUT_TYPES", outputs);
  return text;
}

// "9.0" as (9, 0).
std::string capability_text(const std::string& capability) {
  const auto dot = capability.find('.');
  if (dot == std::string::npos) return "None";
  return fmt::format("({}, {})", capability.substr(0, dot), capability.substr(dot + 1));
}

bool same_declarations(const std::vector<tensor_declaration>& a, const std::vector<tensor_declaration>& b) {
  return a == b;
}

std::string about(const task& t, const exported_variant& v, const checked_program& p) {
  std::string text =
      fmt::format("# {}: the program {} that cudal1 found, as a module that needs only PyTorch and nvcc.\n", t.name,
                  v.id.substr(0, k_hash_digits));
  if (!v.measured.empty()) text += fmt::format("# Measured: {}\n", v.measured);
  for (const auto& line : v.explanation)
    text += fmt::format("# - {}\n", line);
  if (!v.warning.empty()) text += fmt::format("# WARNING: {}\n", v.warning);
  if (p.text.how.graph)
    text +=
        "# It runs as one CUDA graph, in which the addresses of a call's inputs and outputs are set before each "
        "launch.\n# Tensors whose addresses cannot be set are copied; kernel_notes() lists them.\n";
  if (p.text.how.lanes > 1) text += fmt::format("# Independent steps overlap on up to {} streams.\n", p.text.how.lanes);
  for (std::size_t at = 0; (at = text.find('\r', at)) != std::string::npos;)
    text.erase(at, 1);
  return text + "# The first part is the problem's own code, without comments; Model is its reference.\n\n";
}

}  // namespace

expected<std::string> problem_source(const task& t, const std::string& blobs) {
  if (!t.origin)
    return fail(errc::unsupported, "it was not imported from Python, so there is no Model that a file could hold");
  if (!t.is_whole_model())
    return fail(errc::unsupported, "it is the module {} of a model, alone: only a whole Model can be exported",
                t.origin->part);
  CUDAL1_TRY(const auto file, open_blob(blobs, t.origin->source));
  std::ifstream in(std::filesystem::path(blobs) / t.origin->source, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in) return fail(errc::io_error, "cannot read {}/{}", blobs, t.origin->source);
  return text;
}

expected<bool> is_library_only(const std::string& program) {
  CUDAL1_TRY(const auto p, check_program_text(program));
  return kernels_of(p).empty();
}

std::string file_name(const task& t) {
  if (t.origin && t.origin->level && t.origin->problem)
    return fmt::format("level_{}_problem_{}_sample_0_kernel.py", *t.origin->level, *t.origin->problem);
  return word_of(t.name) + "_kernel.py";
}

std::string python_text(std::string_view text) {
  for (const std::string_view quotes : {"'''", "\"\"\""}) {
    const bool fits = text.find(quotes) == std::string_view::npos && text.find('\r') == std::string_view::npos &&
                      text.find('\0') == std::string_view::npos &&
                      (text.empty() || (text.back() != quotes[0] && text.back() != '\\'));
    if (fits && text.find('\n') != std::string_view::npos) return fmt::format("r{}{}{}", quotes, text, quotes);
  }
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

expected<std::string> model_file(const task& t, const exported_variant& v, const std::string& blobs) {
  CUDAL1_TRY(const auto p, check_program_text(v.program));
  if (!same_declarations(p.text.inputs, t.reference.text.inputs) ||
      !same_declarations(p.text.weights, t.reference.text.weights))
    return fail(errc::invalid_program, "the variant's inputs or weights are not the task's");
  CUDAL1_TRY(const auto weights, weight_names(t));
  CUDAL1_TRY(const auto embedded, constants(t, blobs));
  CUDAL1_TRY(const auto cuda, cuda_text(p));
  const auto word = word_of(t.name);
  const auto cpp = cpp_text(p, t.name);
  const auto digest = sha256_hex(cpp + '\0' + cuda).substr(0, k_hash_digits);
  std::string text = about(t, v, p) + v.source + (v.source.ends_with('\n') ? "" : "\n");
  text +=
      "\n\n# ---- the program ---------------------------------------------------------------------------------------\n"
      "import base64 as _kb_base64\nimport dataclasses as _kb_dataclasses\nimport importlib as _kb_importlib\n"
      "import inspect as _kb_inspect\nimport weakref as _kb_weakref\nimport zlib as _kb_zlib\n\nimport torch as "
      "_kb_torch\n"
      "from torch.compiler import is_dynamo_compiling as _kb_is_dynamo_compiling\n"
      "from torch.utils import _pytree as _kb_pytree\n"
      "from torch.utils.cpp_extension import load_inline as _kb_load_inline\n\n";
  text += fmt::format("_KB_NAME = \"{}_{}\"\n_KB_NEEDS_CUDA = {}\n", word, digest, needs_cuda(p) ? "True" : "False");
  text += fmt::format("# The compute capability of the GPU that it was measured on.\n_KB_MEASURED_ON = {}\n",
                      capability_text(v.capability));
  text += fmt::format("# The version of cuDNN whose engines it names by number; None: it names none.\n_KB_CUDNN = {}\n",
                      calls_own_operators(p) && !v.cudnn.empty() ? python_text(v.cudnn) : "None");
  text += "# Parameters and buffers, in the program's order.\n_KB_WEIGHTS = [";
  for (const auto& name : weights)
    text += fmt::format("\n    {},", python_text(name));
  text += weights.empty() ? "]\n" : "\n]\n";
  text += "# Element types, shapes and strides that the program was made for.\n" + types_text(p);
  text +=
      "# Constants of the definition that a module may not hold: element type, shape, compressed bytes.\n_KB_CONSTANTS "
      "= {";
  text += embedded.empty() ? "}\n" : "\n" + embedded + "}\n";
  const auto states = states_text(t);
  text +=
      "# What a call leaves for the next one: name, kind, places among the program's inputs and outputs.\n_KB_STATES = "
      "[";
  text += states.empty() ? "]\n" : "\n" + states + "]\n";
  text += "# In what forward returns the outputs; None: as they are.\n";
  text += t.returns ? fmt::format("_KB_RETURNS = lambda o: {}  # noqa: E731\n", returned_text(*t.returns))
                    : "_KB_RETURNS = None\n";
  text +=
      "# Whether modules were in training mode, where that decides what forward computes; None: all as Model makes "
      "it.\n";
  text += modes_text(t);
  text +=
      "# Where gradients are needed: \"error\" lets backward() raise one, \"eager\" runs Model's forward instead.\n";
  text += fmt::format("_KB_GRADIENTS = \"{}\"\n\n", enum_name(v.needed_gradients));
  text += fmt::format("_KB_CUDA = {}\n\n_KB_CPP = {}\n", python_text(cuda), python_text(cpp));
  return text.append(texts::model_new());
}

std::vector<support_file> support_files() {
  return {{"check.py", texts::check()},
          {"evaluate_file.py", texts::evaluate_file()},
          {"pytorch_calls.py", texts::pytorch_calls()},
          {"core_turns.py", texts::core_turns()},
          {"host_pace.py", texts::host_pace()},
          {"measuring.py", texts::measuring()}};
}

}  // namespace cudal1::kernelbench
