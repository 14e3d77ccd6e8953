#include "policy/codegen/pass_plan.hpp"

#include <algorithm>

namespace cudal1 {

namespace {
constexpr int k_worth_keeping = 8;  // additions: cheaper values are recomputed
}

pass_plan::pass_plan(const kernel_body& body) : body_(&body), reached_(body.needed()) {
  for (const auto& n : body.nodes) {
    int level = 0;
    for (const int o : body.uncontracted_operands(static_cast<int>(levels_.size())))
      level = std::max(level, levels_[static_cast<std::size_t>(o)]);
    levels_.push_back(n.kind == node_kind::reduce ? level + 1 : level);
  }
  for (const int n : reached_)
    last_ = std::max(last_, level(n));
}

// What the node is computed from, where it is.
void pass_plan::add_operands(int of, std::vector<int>& into) const {
  const auto& operands = body_->uncontracted_operands(of);
  into.insert(into.end(), operands.begin(), operands.end());
}

bool pass_plan::is_row_result(const body_result& r) const {
  return body_->columns() > 1 && body_->is_one_per_row(r.target.strides);
}

pass_work pass_plan::work_of(int pass, const std::set<int>& kept) const {
  pass_work work;
  std::vector<int> reach;
  for (const int n : reached_) {
    if (node(n).kind != node_kind::reduce || level(n) != pass + 1) continue;
    work.reduced.push_back(n);
    reach.push_back(node(n).operands[0]);
  }
  for (std::size_t r = 0; r < body_->results.size(); ++r) {
    const auto& result = body_->results[r];
    if (level(result.node) != pass || is_row_result(result)) continue;
    work.results.push_back(static_cast<int>(r));
    reach.push_back(result.node);
  }
  std::set<int> seen;
  while (!reach.empty()) {
    const int n = reach.back();
    reach.pop_back();
    if (node(n).per_row || !seen.insert(n).second || kept.contains(n)) continue;
    add_operands(n, reach);
  }
  work.elements.assign(seen.begin(), seen.end());
  for (const int n : work.elements) {
    if (node(n).kind == node_kind::scan) work.scanned.push_back(n);
  }
  return work;
}

std::vector<int> pass_plan::operands_of(const pass_work& work) const {
  std::vector<int> out;
  for (const int n : work.elements)
    add_operands(n, out);
  for (const int n : work.reduced)
    out.push_back(node(n).operands[0]);
  for (const int r : work.results)
    out.push_back(body_->results[static_cast<std::size_t>(r)].node);
  return out;
}

std::vector<int> pass_plan::worth_keeping(const pass_work& work, int pass, const std::set<int>& kept,
                                          keeping which) const {
  std::vector<int> out;
  std::set<int> candidates;
  for (const int n : work.elements) {
    const bool worth = node(n).cost >= k_worth_keeping || (which == keeping::costly_or_joined && joins(n));
    if (node(n).kind == node_kind::pointwise && worth && !kept.contains(n)) candidates.insert(n);
  }
  std::set<int> barrier = kept;
  barrier.insert(candidates.begin(), candidates.end());
  for (int later = pass + 1; later < passes(); ++later) {
    for (const int n : work_of(later, barrier).elements) {
      if (candidates.erase(n) > 0) out.push_back(n);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Whether the value depends on elements of more than one tensor.
bool pass_plan::joins(int root) const {
  std::set<int> seen;
  std::vector<int> reach{root};
  int loads = 0;
  while (!reach.empty()) {
    const int n = reach.back();
    reach.pop_back();
    if (node(n).per_row || !seen.insert(n).second) continue;
    loads += node(n).kind == node_kind::load ? 1 : 0;
    add_operands(n, reach);
  }
  return loads > 1;
}

expected<void> pass_plan::check_row_kernel(const std::string& in_place) const {
  const bool has_several_column_dims = body_->dims() - body_->row_dims() > 1;
  if (body_->has_scan() && (body_->has(node_kind::reduce) || has_several_column_dims))
    return fail(errc::unsupported,
                "a running sum cannot share a kernel with a reduction, nor be over several column dimensions");
  if (has_scan_of_scan())
    return fail(errc::unsupported, "a running sum cannot share a kernel with one that it depends on");
  if (!in_place.empty() && reads_after_write())
    return fail(errc::unsupported, "the operand to overwrite is still read after the first write");
  return {};
}

bool pass_plan::has_scan_of_scan() const {
  std::vector<bool> behind;  // a running sum
  for (const auto& n : body_->nodes) {
    const bool after =
        std::ranges::any_of(n.operands, [&](int o) -> bool { return behind[static_cast<std::size_t>(o)]; });
    if (after && n.kind == node_kind::scan) return true;
    behind.push_back(after || n.kind == node_kind::scan);
  }
  return false;
}

bool pass_plan::reads_after_write() const {
  return level(body_->results[0].node) < last_;
}

}  // namespace cudal1
