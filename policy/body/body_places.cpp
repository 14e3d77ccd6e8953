// The axes of a body, its scopes, and where values are in them.
#include <algorithm>

#include "policy/body/body_builder.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

std::optional<place> broadcast_place(const std::vector<int64_t>& shape, const std::vector<int64_t>& to,
                                     const place& where) {
  if (shape.size() > to.size()) return std::nullopt;
  const std::size_t shift = to.size() - shape.size();
  place out(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1 && shape[d] != to[d + shift]) return std::nullopt;
    if (shape[d] == to[d + shift]) out[d] = where[d + shift];
  }
  return out;
}

// Rows first, then columns; the place of the results' scope. Along an axis of one index nothing moves.
void body_builder::add_axes() {
  const row_domain& rows = domain_.rows;
  scope& results = scopes_.emplace_back();
  results.shape = rows.shape;
  results.where.resize(rows.shape.size());
  const auto add = [&](coordinate& along, int64_t extent, axis_role role, int64_t multiple) {
    if (extent != 1) along.terms.emplace_back(static_cast<int>(body_.axes.size()), multiple);
    body_.axes.push_back({extent, role});
  };
  for (const bool is_column : {false, true}) {
    for (int64_t d = 0; d < std::ssize(rows.shape); ++d) {
      const bool is_reduced = std::ranges::count(rows.reduced, d) > 0;
      const axis_role role = is_column ? axis_role::reduced : axis_role::parallel;
      const int64_t size = rows.shape[rules::at(d)], inner = size / rows.groups;
      if (d == rows.split_dim)
        add(results.where[rules::at(d)], is_column ? inner : rows.groups, role, is_column ? 1 : inner);
      else if (is_reduced == is_column)
        add(results.where[rules::at(d)], size, role, 1);
    }
  }
  const auto first = std::ssize(rows.shape) - std::ssize(rows.windows);
  for (std::size_t i = 0; i < rows.windows.size(); ++i) {
    body_.windows.push_back(
        {rows.windows[i], static_cast<int>(first) + static_cast<int>(i), static_cast<int>(body_.axes.size())});
    add(taps_.emplace_back(), rows.windows[i].kernel, axis_role::tap, 1);
  }
}

void body_builder::add_scopes() {
  const row_domain& rows = domain_.rows;
  if (!rows.windows.empty()) {
    scope slid{scope_kind::windows, rows.slid, scopes_.front().where, 0};
    const std::size_t first = rows.slid.size() - rows.windows.size();
    for (std::size_t i = 0; i < rows.windows.size(); ++i) {
      for (auto& [axis, multiple] : slid.where[first + i].terms)
        multiple *= rows.windows[i].stride;
      for (const auto& [axis, multiple] : taps_[i].terms)
        slid.where[first + i].terms.emplace_back(axis, multiple * rows.windows[i].dilation);
    }
    windows_ = static_cast<int>(scopes_.size());
    scopes_.push_back(std::move(slid));
  }
  first_part_ = static_cast<int>(scopes_.size());
  if (!domain_.parts) return;
  const joined_parts& parts = *domain_.parts;
  for (int64_t p = 0; p < parts.count; ++p) {
    scope part{scope_kind::part, parts.whole, scopes_.front().where, p};
    coordinate& joined = part.where[rules::at(parts.dim)];
    joined.offset = parts.interleaved ? p : p * parts.part[rules::at(parts.dim)];
    for (auto& [axis, multiple] : joined.terms)
      if (parts.interleaved) multiple *= parts.count;
    scopes_.push_back(std::move(part));
  }
}

// The place of values that are one per row: with the reduced dimensions of size 1, or without them.
std::optional<place> body_builder::place_of_rows(const std::vector<int64_t>& shape) const {
  const row_domain& rows = domain_.rows;
  if (rows.split_dim >= 0 || rows.reduced.empty()) return std::nullopt;
  std::vector<int64_t> kept = rows.shape, squeezed;
  place where_kept = scopes_.front().where, where_squeezed;
  for (const auto d : rows.reduced) {
    kept[rules::at(d)] = 1;
    where_kept[rules::at(d)] = {};
  }
  if (shape == kept) return where_kept;
  for (int64_t d = 0; d < std::ssize(rows.shape); ++d) {
    if (std::ranges::count(rows.reduced, d) > 0) continue;
    squeezed.push_back(rows.shape[rules::at(d)]);
    where_squeezed.push_back(where_kept[rules::at(d)]);
  }
  return shape == squeezed ? std::optional(where_squeezed) : std::nullopt;
}

// The place of values that are the same along dimensions of the results.
std::optional<place> body_builder::place_along(const std::vector<int64_t>& shape) const {
  const row_domain& rows = domain_.rows;
  if (rows.split_dim >= 0 || !rows.windows.empty()) return std::nullopt;
  if (domain_.parts) {
    // They are the same in all parts, too.
    const auto joined = std::ssize(rows.shape) - domain_.parts->dim;
    if (!rows.reduced.empty() || (std::ssize(shape) >= joined && shape.end()[-joined] != 1)) return std::nullopt;
  }
  return broadcast_place(shape, rows.shape, scopes_.front().where);
}

std::optional<place> body_builder::place_in(int number, const std::vector<int64_t>& shape) const {
  const scope& now = scopes_[rules::at(number)];
  if (shape == now.shape) return now.where;
  if (now.kind == scope_kind::operand) return broadcast_place(shape, now.shape, now.where);
  if (now.kind != scope_kind::results) return std::nullopt;
  if (is_ungrouped(shape)) {
    place out(now.where.begin(), now.where.begin() + std::ssize(shape) - 1);
    coordinate& last = out.emplace_back();
    int64_t below = 1;
    for (std::size_t d = now.shape.size(); d-- > shape.size() - 1; below *= now.shape[d])
      for (const auto& [axis, multiple] : now.where[d].terms)
        last.terms.emplace_back(axis, multiple * below);
    return out;
  }
  const auto rows = place_of_rows(shape);
  return rows ? rows : place_along(shape);
}

expected<place> body_builder::place_of(const tensor_type& result) const {
  auto out = place_here(result.shape);
  if (!out)
    return fail(errc::unsupported, "{} has neither the shape of the kernel's elements nor that of its rows",
                result.text());
  return std::move(*out);
}

bool body_builder::is_by_element(const std::vector<int64_t>& shape) const {
  if (scope_now().kind != scope_kind::operand && (domain_.parts || !domain_.rows.windows.empty())) return false;
  if (shape == this->shape()) return true;
  return place_here(shape) && (scope_now().kind == scope_kind::operand || !place_of_rows(shape));
}

bool body_builder::has_columns(const place& where) const {
  return std::ranges::any_of(where, [&](const coordinate& c) {
    return std::ranges::any_of(c.terms, [&](const auto& t) { return body_.axes[rules::at(t.first)].is_column(); });
  });
}

std::vector<int64_t> body_builder::strides_at(const std::vector<int64_t>& by_dim, const place& where) const {
  std::vector<int64_t> out(body_.axes.size(), 0);
  for (std::size_t d = 0; d < std::min(by_dim.size(), where.size()); ++d)
    for (const auto& [axis, multiple] : where[d].terms)
      out[rules::at(axis)] += multiple * by_dim[d];
  return out;
}

int64_t body_builder::offset_at(const std::vector<int64_t>& by_dim, const place& where) {
  int64_t out = 0;
  for (std::size_t d = 0; d < std::min(by_dim.size(), where.size()); ++d)
    out += where[d].offset * by_dim[d];
  return out;
}

}  // namespace cudal1
