#include "policy/tile/statement_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace cudal1::tile {

namespace {

constexpr int64_t k_sector = 32;       // bytes
constexpr int64_t k_instruction = 16;  // bytes that a lane accesses at once, at most
constexpr std::size_t k_lanes = 32;
constexpr double k_division = 10;   // instructions of a division by a constant
constexpr double k_barrier = 60;    // cycles that a warp waits for the others
constexpr double k_registers = 16;  // besides those for what is read, roughly

using of_lanes = std::array<int64_t, k_lanes>;

class counter {
 public:
  explicit counter(const kernel& k) : kernel_(&k) {
    active_.fill(true);
    for (std::size_t i = 0; i < k_lanes; ++i) {
      variables_["threadIdx.x"][i] = static_cast<int64_t>(i);
      active_[i] = static_cast<int64_t>(i) < k.threads;
    }
    out_.registers = k_registers;
  }

  kernel_work run() {
    add(kernel_->body);
    end_phase(0);
    return std::move(out_);
  }

 private:
  const buffer& at(buffer_id id) const { return kernel_->buffers[id]; }

  int64_t value_of(const index_expr& i, std::size_t lane) const {
    return i.value_in([&](const std::string& name) -> int64_t {
      const auto known = variables_.find(name);
      return known == variables_.end() ? 0 : known->second[lane];
    });
  }

  void add(const block& statements) {
    for (const auto& s : statements)
      std::visit([&](const auto& each) { add(each); }, s.is);
  }

  // `count` accesses of each lane, of `bytes` each, with a stride of `step` bytes.
  double sectors(const access& a, int64_t count, int64_t step, int64_t bytes) const {
    double sum = 0;
    if (a.row) {  // chosen by data: each lane has its own
      const auto lanes = static_cast<double>(std::ranges::count(active_, true));
      return lanes * static_cast<double>(count);
    }
    for (int64_t piece = 0; piece < count; ++piece) {
      std::vector<int64_t> addresses;
      for (std::size_t lane = 0; lane < k_lanes; ++lane)
        if (active_[lane])
          addresses.push_back((at(a.of).first + value_of(at(a.of).offset, lane) + value_of(a.at.back(), lane)) *
                                  size_of(at(a.of).type) +
                              piece * step);
      sum += sectors_at(addresses, bytes);
    }
    return sum;
  }

  struct pieces {
    int64_t count = 1, step = 0, bytes = 0;
  };
  template <class Vector>
  pieces pieces_of(const Vector& v, dtype type) const {
    const int64_t size = size_of(type);
    if (v.form == access_form::scalar) return {v.width, v.step * size, size};
    const int64_t bytes = std::min(v.width * size, k_instruction);
    return {v.width * size / bytes, bytes, bytes};
  }

  static bool is_fixed(const access& a) {
    bool varies = a.row.has_value();
    for (const auto& i : a.at)
      i.each_variable([&](const std::string&, std::optional<index_range>) { varies = true; });
    return !varies;
  }

  void count_read(const access& a, const pieces& p) {
    if (a.row) add(*a.row->row);
    const auto where = at(a.of).where;
    if (where == space::registers || (where == space::global && is_fixed(a))) return;
    now_.operations += weight_ * static_cast<double>(p.count);
    if (where != space::global) return;
    now_.reads += weight_ * static_cast<double>(p.count);
    now_.read_sectors += weight_ * sectors(a, p.count, p.step, p.bytes);
  }
  void count_write(const access& a, const pieces& p) {
    const auto where = at(a.of).where;
    if (where == space::registers) return;
    now_.operations += weight_ * static_cast<double>(p.count);
    if (where == space::global) now_.written_sectors += weight_ * sectors(a, p.count, p.step, p.bytes);
  }

  void add(const value& v) {
    for (const auto& each : v.operands())
      add(each);
    now_.operations += weight_ * v.instructions();
    if (v.from()) count_read(*v.from(), {1, 0, size_of(at(v.from()->of).type)});
  }

  void add(const declare&) {}
  void add(const point&) {}
  void add(const test&) {}
  void add(const divide&) {}
  void add(const assume&) {}
  void add(const leave&) {}
  void add(const commit_copies&) {}
  void add(const wait_for_copies&) {}
  void add(const copy& c) {
    const int64_t bytes = c.width * size_of(at(c.from.of).type);
    count_read(c.from, {1, 0, bytes});
  }
  void add(const raw&) {}
  void add(const scope& s) { add(s.body); }
  void add(const combine& c) {
    add(c.is);
    now_.operations += weight_;
  }
  void add(const reduce_lanes& r) { now_.operations += 2 * weight_ * std::log2(static_cast<double>(r.lanes)); }
  void add(const let& l) {
    for (const auto& [name, i] : l.names) {
      if (i.divides()) now_.operations += weight_ * k_division;
      of_lanes values{};
      for (std::size_t lane = 0; lane < k_lanes; ++lane)
        values[lane] = value_of(i, lane);
      variables_[name] = values;
    }
  }
  void add(const define& d) { add(d.is); }
  void add(const assign& a) { add(a.is); }
  void add(const store& s) {
    add(s.is);
    count_write(s.to, {1, 0, size_of(at(s.to.of).type)});
  }
  void add(const load_vector& v) {
    const pieces p = pieces_of(v, at(v.from.of).type);
    count_read(v.from, p);
    if (at(v.from.of).where == space::global) out_.registers += weight_ * static_cast<double>(v.width);
  }
  void add(const store_vector& v) { count_write(v.to, pieces_of(v, at(v.to.of).type)); }

  void add(const loop& l) {
    of_lanes first{};
    for (std::size_t lane = 0; lane < k_lanes; ++lane)
      first[lane] = value_of(l.first, lane);
    variables_[l.variable] = first;
    const int64_t length = value_of(l.count, 0) - first[0];
    const int64_t whole_rounds = (l.whole_steps ? length : length + l.step - 1) / l.step;
    const auto rounds = static_cast<double>(whole_rounds);
    const double before = weight_;
    if (in_rounds_ || l.unroll == unrolling::whole || !reads_memory(l.body)) {
      weight_ *= rounds;
      add(l.body);
    } else {
      end_phase(0);
      in_rounds_ = true;
      now_.rounds = weight_ * rounds;
      weight_ = 1;
      add(l.body);
      in_rounds_ = false;
      end_phase(0);
    }
    weight_ = before;
  }
  void add(const guard& g) {
    const auto is_of_one_block = [](const condition& c) {
      return c.is == condition::how::equal && c.left.text() == "blockIdx.x";
    };
    if (std::ranges::any_of(g.all, is_of_one_block)) return;
    const auto before = active_;
    for (const auto& c : g.all)
      for (std::size_t lane = 0; lane < k_lanes; ++lane)
        active_[lane] = active_[lane] && is_true(c, lane);
    add(g.body);
    active_ = before;
    if (g.body.empty()) add(g.otherwise);  // else what is seldom done
  }
  bool is_true(const condition& c, std::size_t lane) const {
    const int64_t left = value_of(c.left, lane);
    switch (c.is) {
      case condition::how::below:
        return left < c.right;
      case condition::how::at_most:
        return left <= c.right;
      case condition::how::least:
        return left >= c.right;
      case condition::how::within:
        return left >= 0 && left < c.right;
      case condition::how::equal:
        break;
    }
    return left == c.right;
  }
  void add(const branch& b) {
    add(b.when);
    add(b.body);
    if (b.body.empty()) add(b.otherwise);
  }
  void add(const barrier& b) {
    if (b.of == barrier::among::warp) return;
    if (in_rounds_)
      now_.serial_cycles += weight_ * k_barrier;
    else
      end_phase(k_barrier);
  }
  void add(const call& c) { add(c.what); }

  bool reads_memory(const value& v) const {
    return (v.from() && at(v.from()->of).where == space::global) ||
           std::ranges::any_of(v.operands(), [&](const value& each) { return reads_memory(each); });
  }
  bool reads_memory(const block& statements) const {
    return std::ranges::any_of(statements, [&](const statement& s) {
      if (const auto* v = std::get_if<load_vector>(&s.is)) return at(v->from.of).where == space::global;
      if (const auto* d = std::get_if<define>(&s.is)) return reads_memory(d->is);
      if (const auto* d = std::get_if<store>(&s.is)) return reads_memory(d->is);
      if (const auto* a = std::get_if<assign>(&s.is)) return reads_memory(a->is);
      if (const auto* c = std::get_if<combine>(&s.is)) return reads_memory(c->is);
      if (const auto* c = std::get_if<call>(&s.is)) return reads_memory(c->what);
      if (const auto* l = std::get_if<loop>(&s.is)) return reads_memory(l->body);
      if (const auto* g = std::get_if<guard>(&s.is)) return reads_memory(g->body) || reads_memory(g->otherwise);
      if (const auto* b = std::get_if<branch>(&s.is)) return reads_memory(b->body);
      if (const auto* b = std::get_if<scope>(&s.is)) return reads_memory(b->body);
      return false;
    });
  }

  void end_phase(double cycles) {
    now_.end_cycles = cycles;
    if (now_.operations > 0 || now_.reads > 0 || cycles > 0) out_.loops.push_back(now_);
    now_ = {};
  }

  const kernel* kernel_;
  std::map<std::string, of_lanes> variables_;
  std::array<bool, k_lanes> active_{};
  double weight_ = 1;
  bool in_rounds_ = false;  // of a loop that is counted as such
  loop_work now_;
  kernel_work out_;
};

}  // namespace

double sectors_at(std::span<const int64_t> addresses, int64_t bytes) {
  std::vector<int64_t> touched;
  for (const int64_t from : addresses)
    for (int64_t s = from / k_sector; s <= (from + bytes - 1) / k_sector; ++s)
      touched.push_back(s);
  std::sort(touched.begin(), touched.end());
  return static_cast<double>(std::unique(touched.begin(), touched.end()) - touched.begin());
}

kernel_work work_of(const kernel& k) {
  return counter(k).run();
}

}  // namespace cudal1::tile
