#include "policy/tile/statement.hpp"

#include <algorithm>

namespace cudal1::tile {

value value::named(std::string c, dtype type) {
  value v;
  v.c_ = std::move(c);
  v.type_ = type;
  return v;
}

value value::operation(std::string c, std::vector<value> operands, dtype type, double instructions) {
  value v = named(std::move(c), type);
  v.operands_ = std::move(operands);
  v.instructions_ = instructions;
  return v;
}

value value::element(access from, dtype type) {
  value v;
  v.type_ = type;
  v.from_ = std::move(from);
  return v;
}

value value::of_index(const index_expr& i, dtype type) {
  value v;
  v.type_ = type;
  v.index_ = i;
  return v;
}

int64_t buffer::elements() const {
  int64_t out = 1;
  for (const int64_t extent : shape)
    out *= extent;
  return out;
}

int64_t dynamic_bytes(const kernel& k) {
  int64_t out = 0;
  for (const auto& b : k.buffers)
    if (b.dynamic_at || b.launched) out = std::max(out, b.dynamic_at.value_or(0) + b.elements() * size_of(b.type));
  return out;
}

buffer_id kernel_builder::tensor(std::string name, dtype type, int64_t elements, int64_t first) {
  made_.buffers.push_back({std::move(name), type, space::global, {elements}, first});
  return made_.buffers.size() - 1;
}

buffer_id kernel_builder::array(std::string name, dtype type, space where, std::vector<int64_t> shape,
                                std::optional<std::string> values, std::string remark, std::string spelled) {
  made_.buffers.push_back({std::move(name), type, where, std::move(shape)});
  made_.buffers.back().spelled = std::move(spelled);
  add({declare{made_.buffers.size() - 1, std::move(values), std::move(remark)}});
  return made_.buffers.size() - 1;
}

buffer_id kernel_builder::vectors(std::string name, dtype type, std::vector<int64_t> shape) {
  const buffer_id made = array(std::move(name), type, space::shared, std::move(shape));
  made_.buffers[made].aligned = true;
  return made;
}

buffer_id kernel_builder::dynamic(std::string name, dtype type, int64_t at, int64_t elements) {
  const buffer_id made = vectors(std::move(name), type, {elements});
  made_.buffers[made].dynamic_at = at;
  return made;
}

buffer_id kernel_builder::launched(std::string name, dtype type, int64_t elements, int64_t alignment) {
  buffer made{std::move(name), type, space::shared, {elements}};
  made.aligned = true;
  made.launched = alignment;
  made_.buffers.push_back(std::move(made));
  add({declare{made_.buffers.size() - 1}});
  return made_.buffers.size() - 1;
}

buffer_id kernel_builder::known_pointer(std::string name, buffer_id into, index_range offset) {
  buffer made = made_.buffers[into];
  made.name = std::move(name);
  made.into = into;
  made.known_offset = offset;
  made_.buffers.push_back(std::move(made));
  return made_.buffers.size() - 1;
}

buffer_id kernel_builder::view(std::string name, buffer_id into, dtype type, const index_expr& offset, pointee use,
                               space where, std::string remark) {
  buffer made{std::move(name),
              type,
              where,
              {made_.buffers[into].elements() * size_of(made_.buffers[into].type) / size_of(type)}};
  made.into = into;
  made.offset = offset;
  made.writes = use == pointee::written;
  made.aligned = made_.buffers[into].aligned;
  made_.buffers.push_back(std::move(made));
  add({point{made_.buffers.size() - 1, pointer_is::constant, std::move(remark)}});
  return made_.buffers.size() - 1;
}

buffer_id kernel_builder::pointer(std::string name, buffer_id into, const index_expr& offset, pointee use,
                                  pointer_is is) {
  buffer made = made_.buffers[into];
  made.name = std::move(name);
  made.into = into;
  made.offset = offset;
  made.writes = use == pointee::written;
  made_.buffers.push_back(std::move(made));
  add({point{made_.buffers.size() - 1, is}});
  return made_.buffers.size() - 1;
}

index_expr kernel_builder::thread_of_all() const {
  return index_expr::variable("(blockIdx.x * blockDim.x + threadIdx.x)", made_.blocks * made_.threads);
}

index_expr kernel_builder::let(const std::string& type, const std::string& name, const index_expr& i) {
  return let(type, {{name, i}})[0];
}

std::vector<index_expr> kernel_builder::let(const std::string& type,
                                            std::vector<std::pair<std::string, index_expr>> names) {
  std::vector<index_expr> out;
  // One that is always 0 keeps its name, too.
  for (const auto& [name, i] : names)
    out.push_back(i.least() >= 0 && i.most() > 0 && i.most() < index_expr::unknown("").most()
                      ? index_expr::variable(name, i.most() + 1)
                      : index_expr::unknown(name));
  add({tile::let{type, std::move(names)}});
  return out;
}

block kernel_builder::inside(const std::function<void()>& body) {
  open_.emplace_back();
  body();
  block out = std::move(open_.back());
  open_.pop_back();
  return out;
}

void kernel_builder::load(buffer_id into, const index_expr& at, const access& from, int64_t width, int64_t step,
                          access_form form) {
  add({load_vector{into, at, from, width, step, form}});
}

void kernel_builder::store(const access& to, buffer_id from, int64_t width, int64_t step, access_form form,
                           caching cached) {
  add({store_vector{to, from, width, step, form, cached}});
}

void kernel_builder::loop(const std::string& variable, int64_t count, unrolling unroll,
                          const std::function<void(index_expr)>& body) {
  // A loop of one round has its variable, too.
  const index_expr i = count > 1 ? index_expr::variable(variable, count) : index_expr::unknown(variable);
  block made = inside([&] { body(i); });
  add({tile::loop{variable, count, unroll, std::move(made)}});
}

void kernel_builder::loop(tile::loop of, const std::function<void()>& body) {
  of.body = inside(body);
  add({std::move(of)});
}

void kernel_builder::guard(std::vector<condition> all, const std::function<void()>& body) {
  guard(std::move(all), {}, body);
}

void kernel_builder::guard(std::vector<condition> all, std::vector<std::string> tests,
                           const std::function<void()>& body, const std::function<void()>& otherwise) {
  if (all.empty() && tests.empty()) return body();
  block made = inside(body);
  block other = otherwise ? inside(otherwise) : block();
  add({tile::guard{std::move(all), std::move(tests), std::move(made), std::move(other)}});
}

void kernel_builder::scope(const std::function<void()>& body) {
  block made = inside(body);
  add({tile::scope{std::move(made)}});
}

void kernel_builder::branch(value when, const std::function<void()>& body, const std::function<void()>& otherwise) {
  block made = inside(body);
  block other = otherwise ? inside(otherwise) : block();
  add({tile::branch{std::move(when), std::move(made), std::move(other)}});
}

}  // namespace cudal1::tile
