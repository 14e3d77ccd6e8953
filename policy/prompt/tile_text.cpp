#include "policy/prompt/tile_text.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/prompt/answer_shape.hpp"
#include "policy/prompt/tile_frame.hpp"
#include "sandbox/program/form.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

namespace {

constexpr const char* how_to_launch = "write `launch NAME grid=16,16,1 block=256,1,1 shared_bytes=0`";

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    out.emplace_back(line);
    at = end + 1;
  }
  return out;
}

std::string first_word(std::string_view line) {
  const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
  return std::string(line.substr(begin, std::min(line.find_first_of(" \t", begin), line.size()) - begin));
}

std::string without_blanks_around(const std::string& s) {
  const auto first = s.find_first_not_of(" \t\n");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\n") - first + 1);
}

// "16, 16,1" as numbers; none if it is anything else.
std::optional<std::vector<int64_t>> numbers_in(std::string_view text) {
  std::vector<int64_t> out;
  while (true) {
    while (text.starts_with(' '))
      text.remove_prefix(1);
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc() || number < 0) return std::nullopt;
    out.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    while (text.starts_with(' '))
      text.remove_prefix(1);
    if (text.empty()) return out;
    if (!text.starts_with(',')) return std::nullopt;
    text.remove_prefix(1);
  }
}

// "tensor t0 float32[256, 384]".
expected<alloc_step> tensor_of(const std::string& line) {
  const auto words = without_blanks_around(line.substr(line.find("tensor") + std::string_view("tensor").size()));
  const auto open = words.find('['), close = words.rfind(']');
  const auto blank = words.find(' ');
  if (open != std::string::npos && close == words.size() - 1 && blank < open) {
    const auto name = words.substr(0, blank);
    const auto type = dtype_of(without_blanks_around(words.substr(blank, open - blank)));
    const auto shape = numbers_in(std::string_view(words).substr(open + 1, close - open - 1));
    if (is_identifier(name) && type && shape) return alloc_step{name, contiguous(*type, *shape)};
  }
  return fail(errc::parse_error, "\"{}\": write `tensor t0 float32[256, 384]`", line);
}

expected<void> read_size(std::string_view word, launch_step& to, const std::string& line) {
  const auto equals = word.find('=');
  const auto name = word.substr(0, equals);
  const auto numbers = equals == std::string_view::npos ? std::nullopt : numbers_in(word.substr(equals + 1));
  constexpr std::size_t most_extents = 3;
  const bool is_shared = name == "shared_bytes";
  if ((name != "grid" && name != "block" && !is_shared) || !numbers || numbers->size() > most_extents ||
      (is_shared && numbers->size() != 1))
    return fail(errc::parse_error, "\"{}\": {}", line, how_to_launch);
  if (is_shared) {
    to.shared_bytes = numbers->front();
  } else {
    std::ranges::copy(*numbers, (name == "grid" ? to.grid : to.block).begin());
  }
  return {};
}

expected<launch_step> launch_of(const std::string& line) {
  launch_step out;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const auto begin = std::min(line.find_first_not_of(" \t", at), line.size());
    const auto end = std::min(line.find_first_of(" \t", begin), line.size());
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  if (words.size() < 2 || !is_identifier(words[1])) return fail(errc::parse_error, "\"{}\": {}", line, how_to_launch);
  out.kernel = words[1];
  for (std::size_t i = 2; i < words.size(); ++i)
    CUDAL1_CHECK(read_size(words[i], out, line));
  return out;
}

program of_task(const task& t) {
  program out;
  out.name = t.name;
  out.inputs = t.reference.text.inputs;
  out.weights = t.reference.text.weights;
  out.outputs = t.reference.text.outputs;
  out.how.graph = true;
  for (const auto& name : out.outputs) {
    const auto& type = t.reference.types.at(name);
    out.steps.emplace_back(alloc_step{name, contiguous(type.type, type.shape)});
  }
  return out;
}

// The tensor that a parameter is named after; "" if there is none.
std::string tensor_named(const std::string& parameter, const std::set<std::string>& known) {
  for (const char* suffix : {"_in", "_out"})
    if (parameter.ends_with(suffix))
      if (auto name = parameter.substr(0, parameter.size() - std::string_view(suffix).size()); known.contains(name))
        return name;
  return known.contains(parameter) ? parameter : "";
}

std::string name_of(const kernel_parameter& p) {
  const auto end = p.text.find_last_of(" *&");
  return end == std::string::npos ? p.text : p.text.substr(end + 1);
}

// Gives a launch its arguments, by the parameters of its kernel.
expected<void> bind_tensors(launch_step& launch, const kernel_signature& kernel, const std::set<std::string>& known,
                            std::set<std::string>& written) {
  for (const auto& p : kernel.parameters) {
    const auto name = tensor_named(name_of(p), known);
    if (!p.is_pointer || name.empty())
      return fail(errc::invalid_program,
                  "kernel {} has the parameter \"{}\", which is no tensor: parameters are pointers to {}, with _in or "
                  "_out behind their names, such as const float* {}_in; sizes and constants stand in the source",
                  kernel.name, p.text, fmt::join(known, ", "), *known.begin());
    launch_argument a;
    a.tensor = name;
    a.kind = p.type.starts_with("const") ? argument_kind::in
             : written.contains(name)    ? argument_kind::inout
                                         : argument_kind::out;
    launch.args.push_back(std::move(a));
  }
  for (const auto& a : launch.args)
    if (a.kind != argument_kind::in) written.insert(a.tensor);
  return {};
}

expected<tile_code> read_launches(const std::vector<std::string>& lines, const task& t) {
  tile_code out;
  out.made = of_task(t);
  std::vector<launch_step> launches;
  std::size_t at = 0;
  for (; at < lines.size(); ++at) {
    const auto word = first_word(lines[at]);
    if (word == "tensor") {
      CUDAL1_TRY(auto tensor, tensor_of(lines[at]));
      out.made.steps.emplace_back(std::move(tensor));
    } else if (word == "launch") {
      CUDAL1_TRY(auto launch, launch_of(lines[at]));
      launches.push_back(std::move(launch));
    } else if (!word.empty()) {
      break;
    }
  }
  if (launches.empty()) return fail(errc::parse_error, "no kernel is launched: {} before the source", how_to_launch);
  for (; at < lines.size(); ++at)
    out.own += lines[at] + "\n";
  CUDAL1_TRY(const auto kernels, find_kernels(out.own));
  std::set<std::string> known, written;
  for (const auto* list : {&out.made.inputs, &out.made.weights})
    for (const auto& d : *list)
      known.insert(d.name);
  for (const auto& s : out.made.steps)
    known.insert(std::get<alloc_step>(s).name);
  for (auto& launch : launches) {
    const auto kernel = std::ranges::find(kernels, launch.kernel, &kernel_signature::name);
    if (kernel == kernels.end())
      return fail(errc::invalid_program, "{} is launched, but the source has no \"__global__ void {}(...)\"",
                  launch.kernel, launch.kernel);
    CUDAL1_CHECK(bind_tensors(launch, *kernel, known, written));
    out.made.steps.emplace_back(std::move(launch));
  }
  out.made.source = out.own;
  return out;
}

expected<tile_code> read_body(const std::vector<std::string>& lines, const task& t) {
  const auto kind = first_word(lines.front());
  const auto choice = without_blanks_around(lines.front().substr(lines.front().find(kind) + kind.size()));
  const auto frames = frames_of(t);
  const auto frame = std::ranges::find(frames, kind, &tile_frame::kind);
  if (frame == frames.end())
    return fail(errc::parse_error, "the task has no frame \"{}\": {}, then the kernel's source", kind, how_to_launch);
  CUDAL1_TRY(const auto kernel, kernel_of(*frame, choice));
  tile_code out;
  out.made = of_task(t);
  out.made.steps.emplace_back(kernel.launch);
  std::size_t last = lines.size();
  while (last > 1 && lines[last - 1].empty())
    --last;
  for (std::size_t i = 1; i < last; ++i)
    out.own += (lines[i].empty() ? "" : "  " + lines[i]) + "\n";
  out.made.source = kernel.begin + out.own + kernel.end;
  return out;
}

bool is_frame_name(std::string_view word) {
  return word == "rows" || word == "product";
}

// The body in a source that a frame made, without its indentation.
std::optional<std::string> body_text(const program& p, const task& t) {
  const auto end_of_line = p.source.find('\n');
  if (!p.source.starts_with("// ") || end_of_line == std::string::npos) return std::nullopt;
  const auto line = p.source.substr(3, end_of_line - 3);
  const auto kind = first_word(line);
  const auto frames = frames_of(t);
  const auto frame = std::ranges::find(frames, kind, &tile_frame::kind);
  if (frame == frames.end() || line.size() <= kind.size()) return std::nullopt;
  const auto kernel = kernel_of(*frame, line.substr(kind.size() + 1));
  if (!kernel || !p.source.starts_with(kernel->begin) || !p.source.ends_with(kernel->end) ||
      p.source.size() < kernel->begin.size() + kernel->end.size())
    return std::nullopt;
  std::string out = line + "\n";
  for (const auto& each :
       lines_in(p.source.substr(kernel->begin.size(), p.source.size() - kernel->begin.size() - kernel->end.size())))
    out += (each.starts_with("  ") ? each.substr(2) : each) + "\n";
  return out;
}

std::string launches_text(const program& p, const task& t) {
  std::string tensors, launches;
  for (const auto& s : p.steps) {
    if (const auto* a = std::get_if<alloc_step>(&s);
        a != nullptr && std::ranges::count(t.reference.text.outputs, a->name) == 0)
      tensors += fmt::format("tensor {} {}\n", a->name, a->type.text());
    if (const auto* l = std::get_if<launch_step>(&s))
      launches += fmt::format("launch {} grid={} block={} shared_bytes={}\n", l->kernel, fmt::join(l->grid, ","),
                              fmt::join(l->block, ","), l->shared_bytes);
  }
  return launches + tensors + p.source;
}

// The same but for the order of allocations, and whether there is a graph.
bool means_the_same(const program& a, const program& b) {
  const auto steps_of = [](const program& p) {
    std::map<std::string, tensor_type> tensors;
    std::vector<step> launches;
    for (const auto& s : p.steps)
      if (const auto* alloc = std::get_if<alloc_step>(&s))
        tensors.emplace(alloc->name, alloc->type);
      else
        launches.push_back(s);
    return std::pair(std::move(tensors), std::move(launches));
  };
  return a.inputs == b.inputs && a.weights == b.weights && a.outputs == b.outputs && a.setup == b.setup &&
         a.headers == b.headers && steps_of(a) == steps_of(b) &&
         without_blanks_around(a.source) == without_blanks_around(b.source);
}

}  // namespace

bool looks_like_tile(std::string_view text) {
  for (const auto& line : lines_in(text)) {
    const auto word = first_word(line);
    if (!word.empty()) return word == "tensor" || word == "launch" || is_frame_name(word);
  }
  return false;
}

expected<tile_code> read_tile(std::string_view text, const task& t) {
  auto lines = lines_in(text);
  while (!lines.empty() && first_word(lines.front()).empty())
    lines.erase(lines.begin());
  if (lines.empty()) return fail(errc::parse_error, "the code is empty");
  return is_frame_name(first_word(lines.front())) ? read_body(lines, t) : read_launches(lines, t);
}

std::optional<std::string> tile_text_of(const program& p, const task& t) {
  if (p.source.empty()) return std::nullopt;
  const auto named = with_answer_names(p);
  for (const auto& text : {body_text(p, t), std::optional(launches_text(named, t))}) {
    if (!text) continue;
    const auto read = read_tile(*text, t);
    if (read && (means_the_same(read->made, p) || means_the_same(read->made, named))) return text;
  }
  return std::nullopt;
}

std::string as_tile_text(const std::string& program, const task& t) {
  const auto read = read_program(program);
  const auto text = read ? tile_text_of(*read, t) : std::nullopt;
  return text.value_or(program);
}

}  // namespace cudal1
