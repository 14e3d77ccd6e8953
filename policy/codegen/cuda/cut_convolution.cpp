#include "policy/codegen/cuda/cut_convolution.hpp"

#include <algorithm>
#include <map>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/pass_plan.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

const body_node& node_of(const kernel_body& body, int n) {
  return body.nodes[static_cast<std::size_t>(n)];
}

bool is_slid_along(const kernel_body& body, int axis) {
  return std::ranges::find(body.windows, axis, &body_window::row) != body.windows.end();
}

// The sum of values from whose mean these are the squared distances, summed up; nothing where it is another sum.
std::optional<int> sum_behind(const kernel_body& body, int squares) {
  const body_node& reduced = node_of(body, squares);
  if (reduced.kind != node_kind::reduce || reduced.reduction != reduction_kind::sum) return std::nullopt;
  const body_node& square = node_of(body, reduced.operands[0]);
  if (square.kind != node_kind::pointwise || square.expression != "$0 * $0") return std::nullopt;
  const body_node& distance = node_of(body, square.operands[0]);
  if (distance.kind != node_kind::pointwise || distance.expression != "$0 - $1") return std::nullopt;
  const body_node& mean = node_of(body, distance.operands[1]);
  if (mean.kind != node_kind::pointwise || mean.operands.size() != 2 ||
      node_of(body, mean.operands[1]).kind != node_kind::constant)
    return std::nullopt;
  const std::string& number = node_of(body, mean.operands[1]).expression;
  const auto columns = static_cast<double>(body.columns());
  const bool is_mean = (mean.expression == "$0 * $1" && number == c_literal(1 / columns, dtype::float32)) ||
                       (mean.expression == "$0 / $1" && number == c_literal(columns, dtype::float32));
  const body_node& sum = node_of(body, mean.operands[0]);
  if (!is_mean || sum.kind != node_kind::reduce || sum.reduction != reduction_kind::sum ||
      sum.operands[0] != distance.operands[0])
    return std::nullopt;
  return mean.operands[0];
}

// The reductions of one level.
std::vector<int> reductions(const kernel_body& body, const pass_plan& plan, int level) {
  std::vector<int> out;
  for (const int n : body.needed())
    if (node_of(body, n).kind == node_kind::reduce && plan.level(n) == level) out.push_back(n);
  return out;
}

// Whether the weights of the convolution differ along the axis.
bool is_of_channels(const kernel_body& body, int axis) {
  const auto sum = std::ranges::find(body.nodes, node_kind::contraction, &body_node::kind);
  const body_node& weight = node_of(body, sum->operands[1]);
  return body.accesses[static_cast<std::size_t>(weight.access)].stride(axis) != 0;
}

int64_t channels_of(const kernel_body& body) {
  int64_t out = 1;
  for (int d = 0; d < body.dims(); ++d)
    if (is_of_channels(body, d)) out *= body.extent(static_cast<std::size_t>(d));
  return out;
}

// A tensor with so many values for each index of the axes that no window slides along: for all channels, or for each.
enum class values_of_channels { one, each };
body_access partial_tensor(const kernel_body& body, const std::string& name, int64_t parts, values_of_channels which) {
  body_access out;
  out.value = name;
  out.strides.assign(body.axes.size(), 0);
  int64_t below = 1;
  const auto add = [&](bool channels) {
    for (int d = body.dims(); d-- > 0;) {
      if (is_slid_along(body, d) || is_of_channels(body, d) != channels) continue;
      out.strides[static_cast<std::size_t>(d)] = below;
      below *= body.extent(static_cast<std::size_t>(d));
    }
  };
  if (which == values_of_channels::each) add(true);
  below *= parts;
  add(false);
  out.type = contiguous(dtype::float32, {below});
  return out;
}

// The type that holds the node's values as they are.
dtype exact_type(const body_node& n) {
  for (const dtype half : {dtype::float16, dtype::bfloat16})
    if (n.kind == node_kind::pointwise && n.expression == loaded(half, stored(half, "$0"))) return half;
  return n.type;
}

class cutter {
 public:
  cutter(const kernel_body& whole, int64_t parts, const std::string& prefix)
      : whole_(whole), plan_(whole), parts_(parts), prefix_(prefix) {}

  cut_convolution cut() {
    make_convolution();
    make_rest();
    add_partials();
    make_totals();
    return std::move(out_);
  }

 private:
  bool depends(int n) const { return plan_.level(n) > 0; }
  bool is_of_rest(const body_result& r) const { return depends(r.node) && !plan_.is_row_result(r); }
  std::string name(const char* what) { return fmt::format("{}_{}{}", prefix_, what, named_++); }

  // What the convolution's kernel stores of each element.
  void make_convolution() {
    out_.convolution = whole_;
    make_elementwise(out_.convolution);
    std::erase_if(out_.convolution.results,
                  [&](const body_result& r) { return depends(r.node) || plan_.is_row_result(r); });
  }

  // ---- the last kernel ----
  // The nodes of elements that the last kernel needs; none behind one of `loaded`. Values of rows that depend on sums
  // are collected.
  std::set<int> elements_of_rest(int loaded) {
    std::set<int> seen;
    std::vector<int> reach;
    for (const auto& r : whole_.results)
      if (is_of_rest(r)) reach.push_back(r.node);
    while (!reach.empty()) {
      const int n = reach.back();
      reach.pop_back();
      if (node_of(whole_, n).per_row && depends(n)) {
        of_rows_.insert(n);
        continue;
      }
      if (!seen.insert(n).second || n == loaded) continue;
      const auto& operands = whole_.uncontracted_operands(n);
      reach.insert(reach.end(), operands.begin(), operands.end());
    }
    return seen;
  }
  int sum() const {
    return static_cast<int>(std::ranges::find(whole_.nodes, node_kind::contraction, &body_node::kind) -
                            whole_.nodes.begin());
  }
  // The value that the convolution's kernel stores for the last one: what is reduced, if all else is made of that, or
  // the convolution itself; -1 where it needs none.
  int stored_element() {
    if (!elements_of_rest(-1).contains(sum())) return -1;
    for (const int n : reductions(whole_, plan_, 1)) {
      const int x = node_of(whole_, n).operands[0];
      if (!node_of(whole_, x).per_row && !elements_of_rest(x).contains(sum())) return x;
    }
    return sum();
  }
  body_access stored_access(int n) {
    for (const auto& r : out_.convolution.results)
      if (r.node == n) return r.target;
    const auto like = std::ranges::find_if(whole_.results, [&](const body_result& r) { return is_of_rest(r); });
    body_access out = like->target;
    out.value = name("elements");
    out.type = contiguous(exact_type(node_of(whole_, n)), {whole_.rows() * whole_.columns()});
    out.aligned = true;
    out_.convolution.results.push_back({n, out});
    return out;
  }
  void make_rest() {
    if (std::ranges::none_of(whole_.results, [&](const body_result& r) { return is_of_rest(r); })) return;
    kernel_body rest = whole_;
    std::erase_if(rest.results, [&](const body_result& r) { return !is_of_rest(r); });
    const int element = stored_element();
    std::map<int, int> instead;
    if (element >= 0) instead[element] = add_load(rest, stored_access(element), values_per::element);
    for (const int n : of_rows_) {
      body_access value = row_tensor(whole_, name("row"), node_of(whole_, n).type, whole_.row_dims());
      row_values_.push_back({n, value});
      instead[n] = add_load(rest, std::move(value), values_per::row);
    }
    const auto replace = [&](int& n) {
      if (const auto found = instead.find(n); found != instead.end()) n = found->second;
    };
    for (auto& n : rest.nodes)
      if (n.kind != node_kind::contraction) std::ranges::for_each(n.operands, replace);
    for (auto& r : rest.results)
      replace(r.node);
    tidy(rest);
    rest.windows.clear();
    drop_contracted_axes(rest);
    make_elementwise(rest);
    order_axes(rest);
    collapse_axes(rest);
    out_.rest = std::move(rest);
  }

  // ---- sums ----
  void add_partials() {
    kernel_body& convolution = out_.convolution;
    out_.first_partial = static_cast<int>(convolution.results.size());
    const auto add = [&](int node, const char* what, values_of_channels which = values_of_channels::each) {
      convolution.results.push_back({node, partial_tensor(whole_, name(what), parts_, which)});
      return static_cast<int>(convolution.results.size()) - 1;
    };
    // Reductions of the same values share their parts.
    for (const int n : reductions(whole_, plan_, 1)) {
      const int x = node_of(whole_, n).operands[0];
      const reduction_kind how = node_of(whole_, n).reduction;
      const auto known =
          std::ranges::find_if(out_.partials, [&](const partial_reduction& p) { return p.node == x && p.how == how; });
      reduced_[n] = static_cast<std::size_t>(known - out_.partials.begin());
      if (known == out_.partials.end()) out_.partials.push_back({x, how, add(x, "part")});
    }
    for (const int n : reductions(whole_, plan_, 2)) {
      partial_reduction& p = out_.partials[reduced_.at(*sum_behind(whole_, n))];
      if (p.squares >= 0) continue;
      p.squares = add(p.node, "squares");
      if (out_.count < 0) out_.count = add(p.node, "count", values_of_channels::one);
    }
    // The nodes' numbers change.
    tidy(convolution);
    for (auto& p : out_.partials)
      p.node = convolution.results[static_cast<std::size_t>(p.result)].node;
  }

  // The axes of the second kernel: the rows, the columns that no window slides along, and the parts.
  std::vector<int> kept_axes() const {
    std::vector<int> out;
    for (int d = 0; d < whole_.dims(); ++d)
      if (!is_slid_along(whole_, d)) out.push_back(d);
    return out;
  }
  body_access of_totals(body_access o, int64_t stride_of_parts) const {
    std::vector<int64_t> strides;
    for (const int d : kept_axes())
      strides.push_back(o.stride(d));
    strides.push_back(stride_of_parts);
    o.strides = std::move(strides);
    std::erase_if(o.divided, [&](const divided_axis& d) { return d.axis >= whole_.row_dims(); });
    return o;
  }
  void make_totals() {
    kernel_body total = whole_;
    total.windows.clear();
    total.axes.clear();
    for (const int d : kept_axes())
      total.axes.push_back(whole_.axes[static_cast<std::size_t>(d)]);
    total.axes.push_back({parts_, axis_role::reduced});
    for (auto& o : total.accesses)
      o = of_totals(std::move(o), 0);
    total.results.clear();
    for (const auto& r : whole_.results)
      if (plan_.is_row_result(r)) total.results.push_back({r.node, of_totals(r.target, 0)});
    for (auto& [n, value] : row_values_)
      total.results.push_back({n, of_totals(std::move(value), 0)});
    std::map<int, int> loads;
    const auto load = [&](int result) {
      const auto [at, is_new] = loads.try_emplace(result, -1);
      if (is_new)
        at->second = add_load(total,
                              of_totals(out_.convolution.results[static_cast<std::size_t>(result)].target,
                                        result == out_.count ? 1 : channels_of(whole_)),
                              values_per::element);
      return at->second;
    };
    for (const auto& [n, part] : reduced_)
      total.nodes[static_cast<std::size_t>(n)].operands = {load(out_.partials[part].result)};
    for (const int n : reductions(whole_, plan_, 2)) {
      // Squared distances from the row's mean are those from the part's mean, and that of the two means for each
      // element (Chan, Golub and LeVeque, 1979).
      const partial_reduction& p = out_.partials[reduced_.at(*sum_behind(whole_, n))];
      const body_node& square = node_of(whole_, node_of(whole_, n).operands[0]);
      const int mean = node_of(whole_, square.operands[0]).operands[1];
      const int away = add_pointwise(total, "$1 > 0.0f ? $0 / $1 - $2 : 0.0f", {load(p.result), load(out_.count), mean},
                                     values_per::element, 6);
      total.nodes[static_cast<std::size_t>(n)].operands = {
          add_pointwise(total, "$0 + $1 * $2 * $2", {load(p.squares), load(out_.count), away}, values_per::element, 3)};
    }
    tidy(total);
    collapse_axes(total);
    out_.totals = std::move(total);
  }

  const kernel_body& whole_;
  pass_plan plan_;
  int64_t parts_;
  const std::string& prefix_;
  int named_ = 0;
  std::set<int> of_rows_;                // nodes that the last kernel reads
  std::vector<body_result> row_values_;  // and the tensors that have them
  std::map<int, std::size_t> reduced_;   // the number of the parts of a reduction
  cut_convolution out_;
};

}  // namespace

bool reduces_places(const kernel_body& body) {
  return std::ranges::any_of(body.windows, [&](const body_window& w) { return w.row >= body.row_dims(); });
}

expected<void> check_reduced_places(const kernel_body& body) {
  if (body.has_scan()) return fail(errc::unsupported, "the kernel of a convolution has no running sums");
  for (const auto& w : body.windows)
    if (w.row >= 0 && w.row < body.row_dims())
      return fail(errc::unsupported, "the kernel of a convolution reduces its channels, or all of its places");
  const pass_plan plan(body);
  for (int level = 1; level < plan.passes(); ++level)
    for (const int n : reductions(body, plan, level)) {
      const auto sum = level == 2 ? sum_behind(body, n) : std::nullopt;
      if (node_of(body, n).type != dtype::float32)
        return fail(errc::unsupported, "the kernel of a convolution reduces float32 only");
      if (level > 2 || (level == 2 && (!sum || plan.level(*sum) != 1)))
        return fail(errc::unsupported, "a reduction over the places of a convolution depends on another one");
    }
  return {};
}

cut_convolution cut_at_sums(const kernel_body& body, int64_t parts, const std::string& prefix) {
  return cutter(body, parts, prefix).cut();
}

}  // namespace cudal1
