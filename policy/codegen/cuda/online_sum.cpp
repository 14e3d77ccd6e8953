#include "policy/codegen/cuda/online_sum.hpp"

#include "policy/codegen/operator_values.hpp"

namespace cudal1 {

std::optional<online_sum> find_online_sum(const kernel_body& body, const pass_plan& plan) {
  const auto node = [&](int n) -> const body_node& { return body.nodes[static_cast<std::size_t>(n)]; };
  for (int pass = 0; pass + 1 < plan.passes(); ++pass) {
    const pass_work first = plan.work_of(pass, {}), second = plan.work_of(pass + 1, {});
    if (first.reduced.size() != 1 || second.reduced.size() != 1 || !first.results.empty() || !second.results.empty())
      continue;
    const online_sum found{first.reduced[0], second.reduced[0]};
    const body_node &top = node(found.top), &sum = node(found.sum), &power = node(sum.operands[0]);
    if (top.reduction != reduction_kind::max || sum.reduction != reduction_kind::sum ||
        power.expression != exponential_of_difference || power.operands[0] != top.operands[0])
      continue;
    const body_node& below = node(power.operands[1]);
    const bool finite = below.expression == zero_where_infinite && below.operands[0] == found.top;
    if (power.operands[1] == found.top || finite) return online_sum{found.top, found.sum, finite};
  }
  return std::nullopt;
}

std::string online_sum_writer::subtracted(const std::string& top) const {
  const std::string infinite = of_.is_finite_top ? fmt::format("fabsf({}) == {}", top, neutral(reduction_kind::min))
                                                 : fmt::format("{} == {}", top, neutral(reduction_kind::max));
  return fmt::format("{} ? 0.0f : {}", infinite, top);
}

void online_sum_writer::begin() {
  w_->line(fmt::format("float run_{} = {};", top(), neutral(reduction_kind::max)));
  w_->line(fmt::format("float run_{} = 0.0f;", sum()));
}

void online_sum_writer::declare_vector() {
  w_->line(fmt::format("float online[{}];", l_->width));
}

void online_sum_writer::set_element(const std::string& lane, const std::string& inside) {
  std::string value = w_->spelled(w_->node(of_.top).operands[0]);
  if (!inside.empty()) value = fmt::format("{} ? {} : {}", inside, value, neutral(reduction_kind::max));
  w_->line(fmt::format("online[{}] = {};", lane, value));
}

// -inf counts for nothing.
void online_sum_writer::add_vector() {
  const auto lanes = fmt::format("for (int l = 0; l < {}; ++l)", l_->width);
  w_->line(fmt::format("float top = run_{};", top()));
  w_->open_unrolled(lanes);
  w_->line(accumulate(reduction_kind::max, "top", "online[l]"));
  w_->close();
  w_->line(fmt::format("const float below = {};", subtracted("top")));
  w_->line("float more = 0.0f;");
  w_->open_unrolled(lanes);
  w_->line("more += __expf(online[l] - below);");
  w_->close();
  w_->line(fmt::format("run_{0} = run_{0} * __expf(run_{1} - below) + more;", sum(), top()));
  w_->line(fmt::format("run_{} = top;", top()));
}

void online_sum_writer::end() {
  write_total(of_.top, "run_" + top());
  w_->line(fmt::format("const float below_{} = {};", top(), subtracted(top())));
  write_total(of_.sum, fmt::format("run_{} * __expf(run_{} - below_{})", sum(), top(), top()));
}

// Of one value of each thread.
void online_sum_writer::write_total(int node, const std::string& own) {
  const std::string& name = w_->variable(node);
  const reduction_kind how = w_->node(node).reduction;
  w_->line(fmt::format("float part_{}[{}];", name, l_->width));
  for (int64_t l = 0; l < l_->width; ++l)
    w_->line(fmt::format("part_{}[{}] = {};", name, l, l == 0 ? own : neutral(how)));
  group_->write_reductions({{name, "float", "float", how}});
}

}  // namespace cudal1
