#include "policy/codegen/cuda/paired_reductions.hpp"

#include <cstdlib>
#include <optional>

#include "policy/body/operator_values.hpp"

namespace cudal1 {

namespace {

constexpr dtype f = dtype::float32;

const body_node& node_of(const kernel_body& body, int n) {
  return body.nodes[static_cast<std::size_t>(n)];
}
tile::value value_of(const std::string& text, std::vector<tile::value> operands = {}, dtype type = f) {
  return tile::value::operation(text, std::move(operands), type, 1);
}

// ---- a maximum, and the exponentials of what is below it ----

struct maximum_and_exponentials {
  int top = -1, sum = -1;
  bool is_finite_top = false;  // what is subtracted is 0 where the maximum is infinite, of either sign
};

std::optional<maximum_and_exponentials> exponentials_below(const kernel_body& body, int top, int sum) {
  const body_node &maximum = node_of(body, top), &total = node_of(body, sum), &power = node_of(body, total.operands[0]);
  if (maximum.reduction != reduction_kind::max || total.reduction != reduction_kind::sum ||
      power.expression != exponential_of_difference || power.operands[0] != maximum.operands[0])
    return std::nullopt;
  const body_node& below = node_of(body, power.operands[1]);
  const bool finite = below.expression == zero_where_infinite && below.operands[0] == top;
  if (power.operands[1] != top && !finite) return std::nullopt;
  return maximum_and_exponentials{top, sum, finite};
}

// In `run_NAME` each thread has the maximum, and the sum, of the elements that it has seen.
class online_sum final : public paired_reductions {
 public:
  online_sum(kernel_writer& w, tile::kernel_builder& b, const row_layout& l, cuda_row_group& group,
             const maximum_and_exponentials& of)
      : paired_reductions(w, b, l, group, of.top, of.sum), is_finite_top_(of.is_finite_top) {}

  paired_work work() const override {
    return {.element_instructions = 6, .vector_instructions = 8, .element_cycles = 8, .vector_cycles = 60};
  }
  void begin() override {
    b_->change("run_" + top(), tile::value::named(neutral(reduction_kind::max), f));
    b_->change("run_" + sum(), tile::value::named("0.0f", f));
  }
  // -inf counts for nothing.
  void add_vector() override {
    const auto run_top = tile::value::named("run_" + top(), f), run_sum = tile::value::named("run_" + sum(), f);
    const auto below = tile::value::named("below", f), more = tile::value::named("more", f);
    b_->change("top", run_top);
    b_->loop("l", l_->width, tile::unrolling::whole, [&](const index_expr& l) {
      b_->add({tile::combine{"top", {}, reduction_kind::max, paired(l)}});
    });
    b_->define("below", value_of(subtracted("top")));
    b_->change("more", tile::value::named("0.0f", f));
    b_->loop("l", l_->width, tile::unrolling::whole, [&](const index_expr& l) {
      b_->add({tile::combine{"more", {}, reduction_kind::sum, value_of("__expf($0 - $1)", {paired(l), below})}});
    });
    b_->add({tile::assign{"run_" + sum(), value_of("$0 * __expf($1 - $2) + $3", {run_sum, run_top, below, more})}});
    b_->add({tile::assign{"run_" + top(), tile::value::named("top", f)}});
  }
  void end_first() override {
    write_total(first(), "run_" + top(), f);
    b_->define("below_" + top(), value_of(subtracted(top())));
  }
  void end_second() override {
    write_total(second(), fmt::format("run_{} * __expf(run_{} - below_{})", sum(), top(), top()), f);
  }

 private:
  const std::string& top() const { return name(first()); }
  const std::string& sum() const { return name(second()); }
  std::string subtracted(const std::string& top) const {
    const std::string infinite = is_finite_top_ ? fmt::format("fabsf({}) == {}", top, neutral(reduction_kind::min))
                                                : fmt::format("{} == {}", top, neutral(reduction_kind::max));
    return fmt::format("{} ? 0.0f : {}", infinite, top);
  }

  bool is_finite_top_;
};

// ---- a mean, and the squared distances from it ----

bool is_constant(const kernel_body& body, int n, double value) {
  const body_node& c = node_of(body, n);
  return c.kind == node_kind::constant && std::strtof(c.expression.c_str(), nullptr) == static_cast<float>(value);
}

// The node of the mean, by which the second reduction sums squared distances; -1 where it does not.
int mean_of_squares(const kernel_body& body, int sum, int squares) {
  const body_node &total = node_of(body, sum), &more = node_of(body, squares);
  if (total.reduction != reduction_kind::sum || more.reduction != reduction_kind::sum) return -1;
  const body_node& square = node_of(body, more.operands[0]);
  if (square.expression != "$0 * $0" || square.operands.size() != 1) return -1;
  const body_node& distance = node_of(body, square.operands[0]);
  if (distance.expression != "$0 - $1" || distance.operands[0] != total.operands[0]) return -1;
  const body_node& mean = node_of(body, distance.operands[1]);
  const auto columns = static_cast<double>(body.columns());
  if (mean.operands.size() != 2 || mean.operands[0] != sum) return -1;
  const bool is_mean = (mean.expression == "$0 * $1" && is_constant(body, mean.operands[1], 1 / columns)) ||
                       (mean.expression == "$0 / $1" && is_constant(body, mean.operands[1], columns));
  return is_mean ? distance.operands[1] : -1;
}

// Each thread has the number, the mean, and the squared distances from it, of the elements that it has seen; a vector
// has its own.
class online_moments final : public paired_reductions {
 public:
  online_moments(kernel_writer& w, tile::kernel_builder& b, const row_layout& l, cuda_row_group& group, int sum,
                 int squares, int mean, dtype type)
      : paired_reductions(w, b, l, group, sum, squares), mean_(mean), type_(type) {}

  paired_work work() const override {
    return {.element_instructions = 3, .vector_instructions = 20, .element_cycles = 4, .vector_cycles = 24};
  }
  int row_value() const override { return mean_; }
  void begin() override {
    b_->change(seen(), tile::value::named("0.0f", f));
    b_->change(middle(), tile::value::named(zero(), type_));
    b_->change(around(), tile::value::named(zero(), type_));
  }
  void add_vector() override {
    const auto width = static_cast<double>(l_->width);
    const auto named = [](const char* n) { return tile::value::named(n, f); };
    const auto run_seen = tile::value::named(seen(), f), run_middle = tile::value::named(middle(), type_);
    b_->change("total", paired(0));
    for (int64_t l = 1; l < l_->width; ++l)
      b_->add({tile::combine{"total", {}, reduction_kind::sum, paired(l)}});
    b_->define("own", value_of(fmt::format("$0 * {}f", 1 / width), {named("total")}));
    b_->change("near", named("0.0f"));
    b_->loop("l", l_->width, tile::unrolling::whole, [&](const index_expr& l) {
      b_->define("off", value_of("$0 - $1", {paired(l), named("own")}));
      b_->add({tile::combine{"near", {}, reduction_kind::sum, value_of("$0 * $0", {named("off")})}});
    });
    b_->define("share", value_of(fmt::format("{0:.1f}f / ($0 + {0:.1f}f)", width), {run_seen}));
    b_->define("apart", value_of(type_ == f ? "$0 - $1" : "$0 - (float)$1", {named("own"), run_middle}));
    b_->add({tile::combine{
        around(),
        {},
        reduction_kind::sum,
        value_of("$0 + $1 * $1 * ($2 * $3)", {named("near"), named("apart"), run_seen, named("share")})}});
    b_->add({tile::combine{middle(), {}, reduction_kind::sum, value_of("$0 * $1", {named("apart"), named("share")})}});
    b_->add({tile::assign{seen(), value_of(fmt::format("$0 + {:.1f}f", width), {run_seen})}});
  }
  void end_first() override { write_total(first(), fmt::format("{} * {}", seen(), middle()), type_); }
  void end_second() override {
    const std::string mean = name(mean_);
    write_total(second(), fmt::format("{0} + {1} * (({2} - {3}) * ({2} - {3}))", around(), seen(), middle(), mean),
                type_);
  }

 private:
  std::string seen() const { return "seen_" + name(first()); }
  std::string middle() const { return "middle_" + name(first()); }
  std::string around() const { return "around_" + name(second()); }
  const char* zero() const { return type_ == f ? "0.0f" : "0.0"; }

  int mean_;
  dtype type_;
};

}  // namespace

void paired_reductions::declare_vector() {
  elements_ = b_->array("online", f, tile::space::registers, {l_->width});
}

void paired_reductions::set_element(const index_expr& lane, const std::string& inside) {
  const body_node& reduction = w_->node(first_);
  auto value = w_->named(reduction.operands[0]);
  if (!inside.empty()) value = value_of(fmt::format("{} ? $0 : {}", inside, neutral(reduction.reduction)), {value});
  b_->store({elements_, {lane}}, std::move(value));
}

void paired_reductions::write_total(int node, const std::string& own, dtype type) {
  const std::string& name = w_->variable(node);
  const reduction_kind how = w_->node(node).reduction;
  const auto parts = b_->array("part_" + name, type, tile::space::registers, {l_->width});
  for (int64_t l = 0; l < l_->width; ++l)
    b_->store({parts, {l}}, value_of(l == 0 ? own : neutral(how), {}, type));
  group_->write_reductions({{name, type, f, how, parts}});
}

std::unique_ptr<paired_reductions> find_paired_reductions(kernel_writer& w, tile::kernel_builder& b,
                                                          const row_layout& l, cuda_row_group& group,
                                                          const pass_plan& plan) {
  // A vector is worth an exponential or a division more, where the row would be read again.
  if (l.resident || l.width < 4 || l.rounds() == 1) return nullptr;
  const bool is_long = l.rounds() * l.unrolled > most_float_additions;
  for (int pass = 0; pass + 1 < plan.passes(); ++pass) {
    const pass_work before = plan.work_of(pass, {}), after = plan.work_of(pass + 1, {});
    if (before.reduced.size() != 1 || after.reduced.size() != 1 || !before.results.empty() || !after.results.empty())
      continue;
    const int first = before.reduced[0], second = after.reduced[0];
    if (const auto found = exponentials_below(w.body(), first, second); found && !is_long)
      return std::make_unique<online_sum>(w, b, l, group, *found);
    // What a vector has outside of the row would count.
    if (const int mean = mean_of_squares(w.body(), first, second); mean >= 0 && !l.shifted)
      return std::make_unique<online_moments>(w, b, l, group, first, second, mean,
                                              is_long ? dtype::float64 : dtype::float32);
  }
  return nullptr;
}

}  // namespace cudal1
