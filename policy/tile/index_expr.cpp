#include "policy/tile/index_expr.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

namespace cudal1 {

namespace {

constexpr int64_t k_any = int64_t{1} << 62;  // beyond every index
constexpr int64_t k_limit = std::numeric_limits<int64_t>::max();

int64_t saturated_product(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a < 0) != (b < 0) ? -k_limit : k_limit;
}
int64_t saturated_sum(int64_t a, int64_t b) {
  int64_t out = 0;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return a < 0 ? -k_limit : k_limit;
}
index_range divided(const index_range& of, int64_t divisor) {
  return {of.least / divisor, of.most / divisor};
}
index_range smaller(const index_range& a, const index_range& b) {
  return {std::min(a.least, b.least), std::min(a.most, b.most)};
}
index_range larger(const index_range& a, const index_range& b) {
  return {std::max(a.least, b.least), std::max(a.most, b.most)};
}
index_range remaining(const index_range& of, int64_t divisor) {
  if (of.least < 0) return {1 - divisor, divisor - 1};  // it has the sign of what is divided
  return of.most < divisor ? of : index_range{0, divisor - 1};
}

}  // namespace

index_range index_range::operator+(const index_range& other) const {
  return {saturated_sum(least, other.least), saturated_sum(most, other.most)};
}

index_range index_range::operator*(int64_t factor) const {
  const int64_t a = saturated_product(least, factor), b = saturated_product(most, factor);
  return {std::min(a, b), std::max(a, b)};
}

// `number`: a constant's value, a factor or a divisor. `text`: a variable's, or a type.
struct index_expr::node {
  operation kind = operation::constant;
  std::vector<index_expr> parts;
  int64_t number = 0;
  std::string text;
  int64_t least = 0, most = 0;
};

index_expr::index_expr(int64_t value)
    : node_(std::make_shared<node>(node{operation::constant, {}, value, {}, value, value})) {}

index_expr index_expr::variable(std::string text, int64_t count) {
  if (count == 1) return 0;
  return index_expr(std::make_shared<node>(node{operation::variable, {}, 0, std::move(text), 0, count - 1}));
}

index_expr index_expr::unknown(std::string text) {
  return index_expr(std::make_shared<node>(node{operation::variable, {}, 0, std::move(text), -k_any, k_any}));
}

int64_t index_expr::least() const {
  return node_->least;
}
int64_t index_expr::most() const {
  return node_->most;
}

// Terms in the order in which they were added, the constant last.
index_expr index_expr::operator+(const index_expr& other) const {
  std::vector<index_expr> terms;
  int64_t constant = 0;
  const auto add = [&](const index_expr& i, const auto& self) -> void {
    if (i.node_->kind == operation::constant) {
      constant = saturated_sum(constant, i.node_->number);
    } else if (i.node_->kind == operation::sum) {
      for (const auto& part : i.node_->parts)
        self(part, self);
    } else {
      terms.push_back(i);
    }
  };
  add(*this, add);
  add(other, add);
  if (terms.empty()) return constant;
  if (terms.size() == 1 && constant == 0) return terms[0];
  node n{operation::sum, std::move(terms), 0, {}, constant, constant};
  for (const auto& term : n.parts) {
    n.least = saturated_sum(n.least, term.least());
    n.most = saturated_sum(n.most, term.most());
  }
  if (constant != 0) n.parts.emplace_back(constant);
  return index_expr(std::make_shared<node>(std::move(n)));
}

index_expr index_expr::operator-(const index_expr& other) const {
  return *this + other * -1;
}

index_expr index_expr::operator*(int64_t factor) const {
  if (factor == 0 || is(0)) return 0;
  if (factor == 1) return *this;
  if (node_->kind == operation::constant) return saturated_product(node_->number, factor);
  if (node_->kind == operation::product) return node_->parts[0] * saturated_product(node_->number, factor);
  const index_range all = index_range{least(), most()} * factor;
  return index_expr(std::make_shared<node>(node{operation::product, {*this}, factor, {}, all.least, all.most}));
}

index_expr index_expr::operator/(int64_t divisor) const {
  if (divisor == 1) return *this;
  if (node_->kind == operation::constant) return node_->number / divisor;
  if (least() >= 0 && most() < divisor) return 0;
  if (node_->kind == operation::quotient) return node_->parts[0] / (node_->number * divisor);
  return index_expr(
      std::make_shared<node>(node{operation::quotient, {*this}, divisor, {}, least() / divisor, most() / divisor}));
}

index_expr index_expr::operator%(int64_t divisor) const {
  if (divisor == 1) return 0;
  if (node_->kind == operation::constant) return node_->number % divisor;
  if (least() >= 0 && most() < divisor) return *this;
  return index_expr(std::make_shared<node>(node{operation::remainder, {*this}, divisor, {}, 0, divisor - 1}));
}

index_expr index_expr::min(const index_expr& a, const index_expr& b) {
  if (a.most() <= b.least()) return a;
  if (b.most() <= a.least()) return b;
  const index_range of = smaller({a.least(), a.most()}, {b.least(), b.most()});
  return index_expr(std::make_shared<node>(node{operation::minimum, {a, b}, 0, "min", of.least, of.most}));
}

index_expr index_expr::max(const index_expr& a, const index_expr& b) {
  if (a.least() >= b.most()) return a;
  if (b.least() >= a.most()) return b;
  const index_range of = larger({a.least(), a.most()}, {b.least(), b.most()});
  return index_expr(std::make_shared<node>(node{operation::maximum, {a, b}, 0, "max", of.least, of.most}));
}

std::vector<index_expr> index_expr::upper_bounds() const {
  return node_->kind == operation::minimum ? node_->parts : std::vector{*this};
}

index_expr index_expr::as(const std::string& type) const {
  if (node_->kind == operation::constant) return *this;
  return index_expr(std::make_shared<node>(node{operation::conversion, {*this}, 0, type, least(), most()}));
}

index_range index_expr::range_in(const known_ranges& known) const {
  const node& n = *node_;
  if (n.kind == operation::constant) return {n.number, n.number};
  if (n.kind == operation::variable) return known(n.text).value_or(index_range{n.least, n.most});
  const index_range of = n.parts[0].range_in(known);
  switch (n.kind) {
    case operation::product:
      return of * n.number;
    case operation::quotient:
      return divided(of, n.number);
    case operation::remainder:
      return remaining(of, n.number);
    case operation::minimum:
      return smaller(of, n.parts[1].range_in(known));
    case operation::maximum:
      return larger(of, n.parts[1].range_in(known));
    case operation::sum: {
      index_range out = of;
      for (std::size_t i = 1; i < n.parts.size(); ++i)
        out = out + n.parts[i].range_in(known);
      return out;
    }
    default:
      return of;
  }
}

index_expr::c_value index_expr::computed_in(const known_values& known, std::string& overflows,
                                            int_width added_to) const {
  const node& n = *node_;
  if (n.kind == operation::constant) return {{n.number, n.number}, !range_of_int.holds({n.number, n.number})};
  if (n.kind == operation::variable) {
    const bool says_so = n.text.find("long long") != std::string::npos;
    return known(n.text).value_or(c_value{{n.least, n.most}, says_so});
  }
  const auto fitting = [&](c_value v) {
    if (!v.is_wide && !range_of_int.holds(v.range)) overflows = text();
    return v;
  };
  if (n.kind == operation::sum) {
    c_value out{{0, 0}, added_to == int_width::bits_64};
    for (const auto& part : n.parts) {
      const c_value next = part.computed_in(known, overflows);
      out.range = out.range + next.range;
      out.is_wide = out.is_wide || next.is_wide;
      out = fitting(out);
    }
    return out;
  }
  const c_value of = n.parts[0].computed_in(known, overflows);
  switch (n.kind) {
    case operation::product:
      return fitting({of.range * n.number, of.is_wide || !range_of_int.holds({n.number, n.number})});
    case operation::conversion:
      return fitting({of.range, n.text.find("long long") != std::string::npos});
    case operation::quotient:
      return {divided(of.range, n.number), of.is_wide};
    case operation::minimum:
    case operation::maximum: {
      const c_value other = n.parts[1].computed_in(known, overflows);
      const index_range range =
          n.kind == operation::minimum ? smaller(of.range, other.range) : larger(of.range, other.range);
      return {range, of.is_wide || other.is_wide};
    }
    default:
      return {remaining(of.range, n.number), of.is_wide};
  }
}

void index_expr::residue::add(const residue& other, int64_t factor, int64_t divisor) {
  const auto reduced = [&](int64_t n) { return (n % divisor + divisor) % divisor; };
  const int64_t times = reduced(factor);
  constant = reduced(constant + other.constant * times);
  for (const auto& [name, own] : other.factors) {
    int64_t& sum = factors[name];
    sum = reduced(sum + own * times);
    if (sum == 0) factors.erase(name);
  }
}

index_expr::residue index_expr::modulo(int64_t divisor, const known_residues& known) const {
  const node& n = *node_;
  residue out;
  switch (n.kind) {
    case operation::constant:
      out.add({1, {}}, n.number, divisor);
      return out;
    case operation::variable:
      return known(n.text, divisor).value_or(residue{0, {{n.text, 1}}});
    case operation::sum:
      for (const auto& part : n.parts)
        out.add(part.modulo(divisor, known), 1, divisor);
      return out;
    case operation::product:
      if (n.number % divisor != 0) out.add(n.parts[0].modulo(divisor, known), n.number, divisor);
      return out;
    case operation::conversion:
      return n.parts[0].modulo(divisor, known);
    case operation::remainder:
      if (n.number % divisor == 0) return n.parts[0].modulo(divisor, known);
      break;
    case operation::minimum:
    case operation::maximum: {
      residue left = n.parts[0].modulo(divisor, known);
      if (left == n.parts[1].modulo(divisor, known)) return left;
      break;
    }
    case operation::quotient:
      if (n.parts[0].modulo(divisor * n.number, known).is_zero()) return out;
      break;
  }
  out.factors[text()] = 1;
  return out;
}

int64_t index_expr::value_in(const std::function<int64_t(const std::string&)>& values) const {
  const node& n = *node_;
  switch (n.kind) {
    case operation::constant:
      return n.number;
    case operation::variable:
      return values(n.text);
    case operation::product:
      return n.parts[0].value_in(values) * n.number;
    case operation::quotient:
      return n.parts[0].value_in(values) / n.number;
    case operation::remainder:
      return n.parts[0].value_in(values) % n.number;
    case operation::conversion:
      return n.parts[0].value_in(values);
    case operation::minimum:
      return std::min(n.parts[0].value_in(values), n.parts[1].value_in(values));
    case operation::maximum:
      return std::max(n.parts[0].value_in(values), n.parts[1].value_in(values));
    case operation::sum:
      break;
  }
  int64_t sum = 0;
  for (const auto& part : n.parts)
    sum += part.value_in(values);
  return sum;
}

void index_expr::each_variable(const variable_reader& read) const {
  if (node_->kind == operation::variable)
    read(node_->text, node_->most == k_any ? std::nullopt : std::optional(index_range{node_->least, node_->most}));
  for (const auto& part : node_->parts)
    part.each_variable(read);
}

bool index_expr::divides() const {
  return node_->kind == operation::quotient || node_->kind == operation::remainder ||
         std::ranges::any_of(node_->parts, [](const index_expr& part) { return part.divides(); });
}

int64_t index_expr::each_part(const part_reader& read) const {
  switch (node_->kind) {
    case operation::constant:
      return node_->number;
    case operation::conversion:
      return node_->parts[0].each_part(read);
    case operation::product:
      return node_->number * node_->parts[0].each_part(
                                 [&](const index_expr& part, int64_t factor) { read(part, factor * node_->number); });
    case operation::sum: {
      int64_t constant = 0;
      for (const auto& part : node_->parts)
        constant += part.each_part(read);
      return constant;
    }
    default:
      read(*this, 1);
      return 0;
  }
}

std::optional<std::string> index_expr::name() const {
  return node_->kind == operation::variable ? std::optional(node_->text) : std::nullopt;
}

std::string index_expr::operand() const {
  switch (node_->kind) {
    case operation::variable:
    case operation::conversion:
    case operation::minimum:
    case operation::maximum:
      return text();
    case operation::constant:
      return node_->number < 0 ? "(" + text() + ")" : text();
    default:
      return "(" + text() + ")";
  }
}

std::string index_expr::text() const {
  const node& n = *node_;
  switch (n.kind) {
    case operation::constant:
      return std::to_string(n.number);
    case operation::variable:
      return n.text;
    case operation::product:
      return fmt::format("{} * {}", n.parts[0].operand(), n.number);
    case operation::quotient:
      return fmt::format("{} / {}", n.parts[0].operand(), n.number);
    case operation::remainder:
      return fmt::format("{} % {}", n.parts[0].operand(), n.number);
    case operation::conversion:
      return fmt::format("({}){}", n.text, n.parts[0].operand());
    case operation::minimum:
    case operation::maximum:
      return fmt::format("{}({}, {})", n.text, n.parts[0].text(), n.parts[1].text());
    case operation::sum:
      break;
  }
  const auto negative = [](const node& p) {
    return (p.kind == operation::constant || p.kind == operation::product) && p.number < 0;
  };
  std::vector<index_expr> parts = n.parts;
  const node &first = *parts.front().node_, &last = *parts.back().node_;
  if (negative(first) && last.kind == operation::constant && !negative(last))
    std::rotate(parts.begin(), parts.end() - 1, parts.end());  // 8 - i rather than i * -1 + 8
  std::string out;
  for (const auto& part : parts) {
    const node& p = *part.node_;
    const bool is_negative = negative(p);
    if (out.empty())
      out = part.text();
    else if (!is_negative)
      out += " + " + part.text();
    else if (p.kind == operation::constant)
      out += fmt::format(" - {}", -p.number);
    else
      out += fmt::format(" - {}{}", p.parts[0].operand(), p.number == -1 ? "" : fmt::format(" * {}", -p.number));
  }
  return out;
}

std::vector<index_expr> split(const index_expr& number, std::span<const int64_t> extents) {
  std::vector<index_expr> out(extents.size(), 0);
  int64_t below = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    out[d] = number / below % extents[d];
    below *= extents[d];
  }
  return out;
}

std::vector<index_expr> split_in_vectors(const index_expr& number, std::span<const int64_t> extents, int64_t width) {
  std::vector<int64_t> vectors(extents.begin(), extents.end());
  vectors.back() /= width;
  auto out = split(number, vectors);
  out.back() = out.back() * width;
  return out;
}

std::vector<index_expr> named_coordinates(const std::string& prefix, std::span<const int64_t> extents) {
  std::vector<index_expr> out;
  for (std::size_t d = 0; d < extents.size(); ++d)
    out.push_back(index_expr::variable(fmt::format("{}{}", prefix, d), extents[d]));
  return out;
}

index_expr offset_of(std::span<const index_expr> coordinates, std::span<const int64_t> strides) {
  index_expr sum = 0;
  for (std::size_t d = 0; d < coordinates.size(); ++d)
    sum = sum + coordinates[d] * strides[d];
  return sum;
}

}  // namespace cudal1
