#include "policy/body/matrix_product.hpp"

#include <algorithm>
#include <tuple>

namespace cudal1 {

namespace {

class product_finder {
 public:
  explicit product_finder(const kernel_body& body) : body_(body) {}

  expected<matrix_product> find() {
    for (const int n : body_.needed())
      if (node(n).kind == node_kind::contraction) CUDAL1_CHECK(add(n));
    if (out_.nodes.empty()) return fail(errc::unsupported, "the kernel computes no product");
    const int a = node(out_.nodes.front()).operands[0];
    if (node(a).kind == node_kind::load) {
      out_.a = node(a).access;
      CUDAL1_CHECK(note_gather(node(a)));
      return std::move(out_);
    }
    CUDAL1_CHECK(take_made(a));
    return std::move(out_);
  }

 private:
  const body_node& node(int n) const { return body_.nodes[static_cast<std::size_t>(n)]; }
  const body_access& access(int n) const { return body_.accesses[static_cast<std::size_t>(n)]; }

  expected<void> add(int n) {
    const body_node& made = node(n);
    const body_node& b = node(made.operands[1]);
    if (b.kind != node_kind::load || !b.operands.empty())
      return fail(errc::unsupported, "the product's operand {} is not in memory", b.value);
    if (out_.nodes.empty()) {
      out_.axis = made.axis;
      out_.k = body_.extent(static_cast<std::size_t>(made.axis));
      out_.a_band = made.a_band;
      out_.b_band = made.b_band;
    } else {
      if (made.operands[0] != node(out_.nodes.front()).operands[0] || made.axis != out_.axis)
        return fail(errc::unsupported, "the products of a kernel share one A");
      if (out_.bs.size() == most_products)
        return fail(errc::unsupported, "a kernel computes at most {} products", most_products);
      const body_access &o = access(b.access), &first = access(out_.bs.front());
      if (std::tie(o.strides, o.type.type) != std::tie(first.strides, first.type.type))
        return fail(errc::unsupported, "{} does not lie in memory as {} does, the B of the kernel's other product",
                    o.value, first.value);
      if (made.b_band != out_.b_band) out_.b_band = {};
    }
    out_.nodes.push_back(n);
    out_.bs.push_back(b.access);
    return {};
  }

  // Notes the table of a load whose row another value chooses.
  expected<void> note_gather(const body_node& load) {
    if (load.operands.empty()) return {};
    const body_node& number = node(load.operands[0]);
    if (out_.a_rows >= 0 || number.kind != node_kind::load)
      return fail(errc::unsupported, "the rows of A can be chosen from one table only, by a tensor in memory");
    out_.a_rows = number.access;
    return {};
  }

  expected<void> take_made(int a) {
    std::vector<int> gathered;
    const auto visit = [&](const auto& self, int n) -> expected<void> {
      if (std::ranges::count(out_.a_nodes, n) > 0) return {};
      const body_node& of = node(n);
      if (of.kind == node_kind::contraction) CUDAL1_CHECK(take_inner(of));
      if (of.kind == node_kind::load && !of.operands.empty()) {
        CUDAL1_CHECK(note_gather(of));
        gathered.push_back(of.access);
      }
      if (of.kind == node_kind::pointwise)
        for (const int o : of.operands)
          CUDAL1_CHECK(self(self, o));
      out_.a_nodes.push_back(n);
      return {};
    };
    CUDAL1_CHECK(visit(visit, a));
    if (out_.inner_b >= 0) return {};
    out_.a = gathered.empty() ? whole_access() : gathered.front();
    if (out_.a < 0) return fail(errc::unsupported, "no tensor in memory has an element for each of A's");
    return {};
  }

  expected<void> take_inner(const body_node& inner) {
    const body_node &a = node(inner.operands[0]), &b = node(inner.operands[1]);
    if (out_.inner_b >= 0) return fail(errc::unsupported, "A can be made of one other product only");
    for (const auto* each : {&a, &b})
      if (each->kind != node_kind::load || !each->operands.empty())
        return fail(errc::unsupported, "the product's operand {} is not in memory", each->value);
    out_.a = a.access;
    out_.inner_b = b.access;
    out_.inner_axis = inner.axis;
    out_.inner_k = body_.extent(static_cast<std::size_t>(inner.axis));
    return {};
  }

  // The first access that differs along k, and along the last axis of A's rows.
  int whole_access() const {
    int rows = -1;
    for (int axis = 0; axis < body_.dims(); ++axis) {
      const bool in_a = std::ranges::any_of(out_.a_nodes, [&](int n) {
        return node(n).kind == node_kind::load && access(node(n).access).stride(axis) != 0;
      });
      if (in_a && access(out_.bs.front()).stride(axis) == 0) rows = axis;
    }
    int out = -1;
    for (const int n : out_.a_nodes) {
      if (node(n).kind != node_kind::load || rows < 0) continue;
      const body_access& each = access(node(n).access);
      if (each.stride(rows) != 0 && each.stride(out_.axis) != 0 && (out < 0 || node(n).access < out))
        out = node(n).access;
    }
    return out;
  }

  const kernel_body& body_;
  matrix_product out_;
};

}  // namespace

std::vector<int> matrix_product::accesses_of_a(const kernel_body& body) const {
  std::vector<int> out = {a};
  if (a_rows >= 0) out.push_back(a_rows);
  if (inner_b >= 0) out.push_back(inner_b);
  for (const int n : a_nodes) {
    const body_node& of = body.nodes[static_cast<std::size_t>(n)];
    if (of.kind == node_kind::load && of.access != a) out.push_back(of.access);
  }
  return out;
}

int matrix_product::number_of(int node) const {
  return static_cast<int>(std::ranges::find(nodes, node) - nodes.begin());
}

expected<matrix_product> matrix_product_of(const kernel_body& body) {
  return product_finder(body).find();
}

}  // namespace cudal1
