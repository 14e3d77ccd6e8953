#include "policy/codegen/kernel_writer.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "policy/tile/c_text.hpp"
#include "policy/tile/statement_check.hpp"
#include "policy/tile/statement_print.hpp"
#include "policy/tile/statement_work.hpp"

namespace cudal1 {

namespace {

std::set<int> all_nodes_of(const kernel_body& body, const std::set<int>& nodes) {
  const auto made_of = body.made_of({nodes.begin(), nodes.end()});
  return {made_of.begin(), made_of.end()};
}

}  // namespace

kernel_writer::kernel_writer(const emit_request& request) : request_(&request), needed_(body().needed()) {
  // What a convolution adds up has variables, too.
  if (!body().windows.empty()) needed_ = all_nodes_of(body(), needed_);
  for (const int n : body().made_of({needed_.begin(), needed_.end()}))
    if (node(n).kind == node_kind::load) used_operands_.insert(node(n).access);
  name_everything();
}

std::string kernel_writer::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int n = 2; !taken_.insert(name).second; ++n)
    name = wanted + std::to_string(n);
  return name;
}

// Names from the program get a suffix that no keyword, function or generated variable has.
void kernel_writer::name_everything() {
  const auto clean = [](const std::string& value) {
    std::string out;
    for (const char c : value)
      out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "n" + out;
    // The sandbox reserves names that contain this word.
    for (auto at = out.find("cudal1"); at != std::string::npos; at = out.find("cudal1"))
      out.replace(at, 6, "c");
    return out;
  };
  for (const auto& o : body().accesses)
    pointers_.push_back(unique(clean(o.value) + "_in"));
  for (const auto& r : body().results)
    targets_.push_back(unique(clean(r.target.value) + "_out"));
  // Those of products have no variables.
  const std::set<int> inside = body().windows.empty() ? body().inside_contractions() : std::set<int>();
  int unnamed = 0;
  for (std::size_t i = 0; i < body().nodes.size(); ++i) {
    const auto& n = body().nodes[i];
    const bool has_none = inside.contains(static_cast<int>(i));
    variables_.push_back(has_none          ? ""
                         : n.value.empty() ? "t" + std::to_string(unnamed)
                                           : unique(clean(n.value) + "_v"));
    if (!has_none) ++unnamed;
  }
}

// A tensor of which the kernel has a part gets a parameter of its own, and the part a pointer into it.
void kernel_writer::open_kernel(int64_t launch_bounds, int64_t blocks, int64_t cluster) {
  std::string parameters;
  std::vector<std::string> parts;
  std::map<std::string, std::string> whole;  // the parameter of a tensor that is written in parts
  const auto add = [&](const std::string& type, const std::string& name) {
    if (!parameters.empty()) parameters += ", ";
    parameters += type + "* __restrict__ " + name;
  };
  const auto part = [&](const std::string& type, const std::string& name, const std::string& of, int64_t offset) {
    parts.push_back(fmt::format("{}* const {} = {} + {};", type, name, of, offset));
  };
  for (std::size_t i = 0; i < body().accesses.size(); ++i) {
    const auto& o = body().accesses[i];
    if (!operand_used(static_cast<int>(i))) continue;
    const std::string type = (in_place(o) ? "" : "const ") + memory_type(o.type.type);
    const std::string name = o.offset == 0 ? pointers_[i] : unique(pointers_[i] + "_whole");
    add(type, name);
    if (o.offset != 0) part(type, pointers_[i], name, o.offset);
  }
  for (std::size_t i = 0; i < body().results.size(); ++i) {
    if (!request_->options.in_place.empty()) continue;
    const auto& o = body().results[i].target;
    const std::string type = memory_type(o.type.type);
    if (!is_part(static_cast<int>(i))) {
      add(type, targets_[i]);
      continue;
    }
    std::string& name = whole[o.value];
    if (name.empty()) add(type, name = unique(targets_[i] + "_whole"));
    part(type, targets_[i], name, o.offset);
  }
  text_ += "// " + request_->comment + "\n";
  std::string bounds;
  if (launch_bounds > 0)
    bounds = blocks > 1 ? fmt::format("__launch_bounds__({}, {}) ", launch_bounds, blocks)
                        : fmt::format("__launch_bounds__({}) ", launch_bounds);
  if (cluster > 1) bounds += fmt::format("__cluster_dims__({}, 1, 1) ", cluster);
  text_ += "__global__ void " + bounds + request_->name + "(" + parameters + ") {\n";
  for (const auto& each : parts)
    text_ += "  " + each + "\n";
  if (request_->options.in_place.empty()) return;
  for (std::size_t i = 0; i < body().accesses.size(); ++i) {
    if (in_place(body().accesses[i]) && operand_used(static_cast<int>(i))) targets_[0] = pointers_[i];
  }
}

bool kernel_writer::is_part(int result) const {
  const auto& all = body().results;
  const auto& value = all[static_cast<std::size_t>(result)].target.value;
  return std::ranges::count(all, value, [](const body_result& r) { return r.target.value; }) > 1;
}

bool kernel_writer::is_first_part(int result) const {
  const auto& all = body().results;
  const auto last = all.begin() + result;
  return std::none_of(all.begin(), last, [&](const auto& r) { return r.target.value == last->target.value; });
}

std::vector<launch_argument> kernel_writer::arguments() const {
  std::vector<launch_argument> out;
  for (std::size_t i = 0; i < body().accesses.size(); ++i) {
    const auto& o = body().accesses[i];
    if (!operand_used(static_cast<int>(i))) continue;
    launch_argument a;
    a.kind = in_place(o) ? argument_kind::inout : argument_kind::in;
    a.tensor = o.value;
    out.push_back(std::move(a));
  }
  if (!request_->options.in_place.empty()) return out;
  for (std::size_t i = 0; i < body().results.size(); ++i) {
    if (!is_first_part(static_cast<int>(i))) continue;
    launch_argument a;
    a.kind = argument_kind::out;
    a.tensor = body().results[i].target.value;
    out.push_back(std::move(a));
  }
  return out;
}

std::vector<step> kernel_writer::allocations() const {
  std::vector<step> out;
  if (!request_->options.in_place.empty()) return out;
  for (std::size_t i = 0; i < body().results.size(); ++i) {
    const auto& target = body().results[i].target;
    if (is_first_part(static_cast<int>(i)))
      out.push_back(alloc_step{target.value, contiguous(target.type.type, target.type.shape)});
  }
  return out;
}

emitted_kernel kernel_writer::launched(int64_t blocks, int64_t threads) const {
  emitted_kernel out;
  out.source = text_;
  out.steps = allocations();
  launch_step l;
  l.kernel = request_->name;
  l.grid = {blocks, 1, 1};
  l.block = {threads, 1, 1};
  l.args = arguments();
  out.steps.emplace_back(std::move(l));
  return out;
}

namespace {

// From the pointer that a kernel has to the tensor's last element.
int64_t elements_of(const body_access& o) {
  return o.type.storage_bytes() / size_of(o.type.type) - o.offset;
}

}  // namespace

kernel_writer::tensors kernel_writer::add_tensors(tile::kernel_builder& b) const {
  tensors out;
  for (std::size_t i = 0; i < body().accesses.size(); ++i) {
    const auto& o = body().accesses[i];
    if (operand_used(static_cast<int>(i)))
      out.operands[static_cast<int>(i)] = b.tensor(pointers_[i], o.type.type, elements_of(o), o.offset);
  }
  for (std::size_t i = 0; i < body().results.size(); ++i) {
    const auto& o = body().results[i].target;
    out.results[static_cast<int>(i)] = b.tensor(targets_[i], o.type.type, elements_of(o), o.offset);
  }
  return out;
}

tile::access kernel_writer::place_of(int n, const tensors& at, index_expr offset,
                                     const std::function<tile::value(int)>& row) const {
  tile::access out{at.operands.at(node(n).access), {std::move(offset)}};
  if (node(n).operands.empty()) return out;
  const int chosen = node(n).operands[0];
  const auto& o = body().accesses[static_cast<std::size_t>(node(n).access)];
  out.row =
      tile::gather{std::make_shared<tile::value>(row ? row(chosen) : named(chosen)), o.gather_count, o.gather_stride};
  return out;
}

void kernel_writer::define_nodes(tile::kernel_builder& b, const std::vector<int>& nodes, const value_of_node& load,
                                 const value_of_node& spell) const {
  for (const int n : nodes) {
    const body_node& from = node(n);
    if (!is_needed(n) || from.kind == node_kind::constant) continue;
    b.define(variable(n), from.kind == node_kind::load ? load(n) : expression(n, spell), from.value);
  }
}

void kernel_writer::define_row_value(tile::kernel_builder& b, int n, std::set<int>& known,
                                     const value_of_node& load) const {
  const body_node& from = node(n);
  if (!from.per_row || from.kind == node_kind::constant || from.kind == node_kind::reduce || known.contains(n)) return;
  for (const int o : from.operands)
    define_row_value(b, o, known, load);
  define_nodes(b, {n}, load);
  known.insert(n);
}

tile::value kernel_writer::expression(int n, const value_of_node& spell) const {
  const body_node& from = node(n);
  std::vector<tile::value> operands;
  for (const int o : from.operands)
    operands.push_back(spell ? spell(o) : named(o));
  return tile::value::operation(from.expression, std::move(operands), from.type, from.operations);
}

std::vector<index_expr> kernel_writer::row_coordinates(tile::kernel_builder& b) const {
  const auto dims = static_cast<std::size_t>(body().row_dims());
  const index_expr row = index_expr::variable("row", body().rows());
  std::vector<index_expr> out(dims, row);
  if (dims > 1) {
    const auto at = split(row, body().row_extents());
    for (std::size_t d = dims; d-- > 0;)
      b.let("int", fmt::format("r{}", d), at[d]);
    out = named_coordinates("r", body().row_extents());
  }
  for (auto& each : out)
    each = each.as("long long");
  return out;
}

kernel_writer::tensors kernel_writer::row_pointers(tile::kernel_builder& b, const tensors& of,
                                                   const std::function<index_expr(const body_access&)>& offset) const {
  tensors out;
  for (const auto& [i, tensor] : of.operands) {
    const auto& o = body().accesses[static_cast<std::size_t>(i)];
    out.operands[i] =
        b.pointer(pointer(i) + "_r", tensor, offset(o), in_place(o) ? tile::pointee::written : tile::pointee::read);
    if (in_place(o)) out.results[0] = out.operands[i];
  }
  if (!request_->options.in_place.empty()) return out;
  for (const auto& [i, tensor] : of.results)
    out.results[i] = b.pointer(target(i) + "_r", tensor, offset(body().results[static_cast<std::size_t>(i)].target),
                               tile::pointee::written);
  return out;
}

expected<emitted_kernel> kernel_writer::finished(const tile::kernel& k) {
  return finished(k, std::optional(tile::work_of(k)));
}

expected<emitted_kernel> kernel_writer::finished(const tile::kernel& k, std::optional<kernel_work> work) {
  if (auto checked = tile::check(k); !checked) return fail_in(request_->comment, checked.error());
  text_ += tile::print(k, 1) + "}\n";
  auto out = launched(k.blocks, k.threads);
  std::get<launch_step>(out.steps.back()).shared_bytes = tile::dynamic_bytes(k);
  if (work) out.work[request_->name] = std::move(*work);
  return out;
}

kernel_writer::loads kernel_writer::direct_loads() const {
  loads out;
  for (const int n : needed_) {
    const body_node& from = node(n);
    if (from.kind != node_kind::load || !from.operands.empty()) continue;
    (from.per_row ? out.by_row : out.by_element).push_back(n);
  }
  return out;
}

}  // namespace cudal1
