#include "policy/codegen/cuda/online_sum.hpp"

#include "policy/body/operator_values.hpp"

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
  b_->change("run_" + top(), tile::value::named(neutral(reduction_kind::max), dtype::float32));
  b_->change("run_" + sum(), tile::value::named("0.0f", dtype::float32));
}

void online_sum_writer::declare_vector() {
  online_ = b_->array("online", dtype::float32, tile::space::registers, {l_->width});
}

void online_sum_writer::set_element(const index_expr& lane, const std::string& inside) {
  auto value = w_->named(w_->node(of_.top).operands[0]);
  if (!inside.empty())
    value = tile::value::operation(fmt::format("{} ? $0 : {}", inside, neutral(reduction_kind::max)), {value},
                                   dtype::float32, 1);
  b_->store({online_, {lane}}, std::move(value));
}

// -inf counts for nothing.
void online_sum_writer::add_vector() {
  constexpr dtype f = dtype::float32;
  const auto c = [](const std::string& text, std::vector<tile::value> operands = {}) {
    return tile::value::operation(text, std::move(operands), f, 1);
  };
  const auto run_top = tile::value::named("run_" + top(), f), run_sum = tile::value::named("run_" + sum(), f);
  const auto below = tile::value::named("below", f), more = tile::value::named("more", f);
  b_->change("top", run_top);
  b_->loop("l", l_->width, tile::unrolling::whole, [&](const index_expr& l) {
    b_->add({tile::combine{"top", {}, reduction_kind::max, tile::value::element({online_, {l}}, f)}});
  });
  b_->define("below", c(subtracted("top")));
  b_->change("more", tile::value::named("0.0f", f));
  b_->loop("l", l_->width, tile::unrolling::whole, [&](const index_expr& l) {
    b_->add({tile::combine{
        "more", {}, reduction_kind::sum, c("__expf($0 - $1)", {tile::value::element({online_, {l}}, f), below})}});
  });
  b_->add({tile::assign{"run_" + sum(), c("$0 * __expf($1 - $2) + $3", {run_sum, run_top, below, more})}});
  b_->add({tile::assign{"run_" + top(), tile::value::named("top", f)}});
}

void online_sum_writer::end() {
  write_total(of_.top, "run_" + top());
  b_->define("below_" + top(), tile::value::operation(subtracted(top()), {}, dtype::float32, 1));
  write_total(of_.sum, fmt::format("run_{} * __expf(run_{} - below_{})", sum(), top(), top()));
}

// The total of one value of each thread.
void online_sum_writer::write_total(int node, const std::string& own) {
  const std::string& name = w_->variable(node);
  const reduction_kind how = w_->node(node).reduction;
  const auto parts = b_->array("part_" + name, dtype::float32, tile::space::registers, {l_->width});
  for (int64_t l = 0; l < l_->width; ++l)
    b_->store({parts, {l}}, tile::value::operation(l == 0 ? own : neutral(how), {}, dtype::float32, 1));
  group_->write_reductions({{name, dtype::float32, dtype::float32, how, parts}});
}

}  // namespace cudal1
