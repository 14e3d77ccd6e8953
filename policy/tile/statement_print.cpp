#include "policy/tile/statement_print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "policy/tile/c_text.hpp"

namespace cudal1::tile {

namespace {

constexpr const char* k_parts = "xyzw";
constexpr const char* k_dynamic = "dynamic_memory";

// The vector type of up to 16 bytes, and how many elements it has.
struct vector_type {
  std::string name;
  int64_t elements;
};

vector_type vector_of(dtype type, int64_t width) {
  const int64_t elements = std::min<int64_t>({width, 4, 16 / size_of(type)});
  const std::string base = type == dtype::bool_   ? "uchar"
                           : type == dtype::uint8 ? "uchar"
                           : type == dtype::int8  ? "char"
                           : type == dtype::int16 ? "short"
                           : type == dtype::int32 ? "int"
                           : type == dtype::int64 ? "longlong"
                                                  : c_type(type);
  return {base + std::to_string(elements), elements};
}

// Half types are moved in words of two.
std::string words_type(int64_t words) {
  return words == 1 ? "unsigned" : "uint" + std::to_string(words);
}

class printer {
 public:
  printer(const kernel& k, int depth) : kernel_(&k), depth_(depth) {}

  void add(const block& statements) {
    for (const auto& s : statements)
      std::visit([&](const auto& each) { add(each); }, s.is);
  }
  std::string text() && { return std::move(text_); }

  // In parentheses where it is a choice or a sum.
  std::string operand(const value& v) const {
    if (v.index()) return v.index()->operand();
    return v.from() && (v.from()->within || v.from()->masked) ? "(" + text(v) + ")" : text(v);
  }
  std::string text(const value& v) const {
    if (v.from()) return element(*v.from());
    if (v.index()) return v.index()->text();
    const std::string& c = v.c();
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = c.find('$'); at != std::string::npos; at = c.find('$', from)) {
      out.append(c, from, at - from);
      out += operand(v.operands()[static_cast<std::size_t>(c[at + 1] - '0')]);
      from = at + 2;
    }
    return out.append(c, from);
  }

 private:
  const buffer& at(buffer_id id) const { return kernel_->buffers[id]; }

  void line(std::string_view text) {
    text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    text_ += text;
    text_ += '\n';
  }
  void inside(const std::string& head, const block& body) {
    line(head.empty() ? "{" : head + " {");
    ++depth_;
    add(body);
    --depth_;
    line("}");
  }

  // From the pointer of a tensor, `further` elements on.
  std::string offset(const access& a, int64_t further = 0) const {
    if (!a.row) return (a.at[0] + further).text();
    const std::string row = fmt::format("(min(max((long long){}, 0ll), {}ll) * {} + {})", text(*a.row->row),
                                        a.row->count - 1, a.row->stride, a.at[0].text());
    return further == 0 ? row : fmt::format("{} + {}", row, further);
  }
  std::string place(const access& a) const {
    std::string out = at(a.of).name;
    if (a.words) return fmt::format("*({}*)({} + {})", a.words->type, out, offset(a));
    if (a.row) return out + "[" + offset(a) + "]";
    for (const auto& i : a.at)
      out += "[" + i.text() + "]";
    return out;
  }
  static std::string inside_text(const bounds& b) {
    return fmt::format("(unsigned)({}) < {}u", b.place.text(), b.count);
  }
  std::string element(const access& a) const {
    if (a.words) return fmt::format("*(const {}*)({} + {})", a.words->type, at(a.of).name, offset(a));
    const std::string is = at(a.of).where == space::global ? loaded(at(a.of).type, place(a)) : place(a);
    if (a.masked) return fmt::format("{} ? {} : 0", a.masked->test, is);
    return a.within ? fmt::format("{} ? {} : 0", inside_text(*a.within), is) : is;
  }
  static std::string text(const std::vector<condition>& all, const std::vector<std::string>& tests = {}) {
    std::vector<std::string> words;
    for (const auto& c : all)
      words.push_back(print(c));
    words.insert(words.end(), tests.begin(), tests.end());
    return fmt::format("{}", fmt::join(words, " && "));
  }

  static std::string remark(const std::string& of) { return of.empty() ? "" : "  // " + of; }

  void add(const declare& d) {
    const buffer& b = at(d.of);
    if (b.dynamic_at) {
      if (!has_dynamic_) line(fmt::format("extern __shared__ __align__(16) unsigned char {}[];", k_dynamic));
      has_dynamic_ = true;
      const std::string type = c_type(computed_in(b.type));
      return line(fmt::format("{0}* const {1} = ({0}*)({2} + {3});", type, b.name, k_dynamic, *b.dynamic_at));
    }
    if (b.launched)
      return line(fmt::format("extern __shared__ {}{} {}[];",
                              *b.launched > 0 ? fmt::format("__align__({}) ", *b.launched) : "", memory_type(b.type),
                              b.name));
    std::string text = b.where == space::registers ? "" : b.aligned ? "__shared__ __align__(16) " : "__shared__ ";
    text += (b.spelled.empty() ? c_type(computed_in(b.type)) : b.spelled) + " " + b.name;
    for (const int64_t extent : b.shape)
      text += fmt::format("[{}]", extent);
    if (d.values) text += fmt::format(fmt::runtime(b.shape.empty() ? " = {}" : " = {{{}}}"), *d.values);
    line(text + ";" + remark(d.remark));
  }
  void add(const let& l) {
    std::string text;
    for (const auto& [name, i] : l.names)
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, i.text());
    line(fmt::format("{}{} {};{}", l.changes ? "" : "const ", l.type, text, remark(l.remark)));
  }
  void add(const divide& d) { line(fmt::format("{} /= {};", d.name, d.by)); }
  void add(const assume&) {}
  void add(const define& d) {
    line(fmt::format("{}{} {} = {};{}", d.changes ? "" : "const ", d.spelled.empty() ? c_type(d.is.type()) : d.spelled,
                     d.name, text(d.is), remark(d.remark)));
  }
  void add(const assign& a) { line(fmt::format("{} = {};", a.name, text(a.is))); }
  void add(const store& s) {
    const buffer& b = at(s.to.of);
    std::string only = text(s.only);
    if (s.to.within) only += (only.empty() ? "" : " && ") + inside_text(*s.to.within);
    line(fmt::format("{}{} = {};", only.empty() ? "" : "if (" + only + ") ", place(s.to),
                     b.where == space::global && !s.to.words ? stored(b.type, text(s.is)) : text(s.is)));
  }
  void add(const point& p) {
    const buffer& b = at(p.of);
    const std::string type = memory_type(b.type);
    line(fmt::format("{}{}* {}{} = {}{}{};{}", b.writes ? "" : "const ", type,
                     p.is == pointer_is::constant ? "const " : "", b.name,
                     b.type == at(*b.into).type ? "" : fmt::format("({}*)", type), at(*b.into).name,
                     b.offset.is(0) ? "" : " + " + b.offset.text(), remark(p.remark)));
  }
  void add(const test& t) { line(fmt::format("const bool {} = {};", t.name, t.all.empty() ? "true" : text(t.all))); }
  void add(const combine& c) { line(accumulate(c.how, c.element ? element(*c.element) : c.name, text(c.is))); }
  void add(const reduce_lanes& r) {
    if (r.lanes < 2) return;
    line("#pragma unroll");
    line(fmt::format("for (int d = {}; d > 0; d /= 2) {{", r.lanes / 2));
    line(fmt::format("  const {} other = __shfl_xor_sync(0xffffffffu, {}, d);", c_type(r.type), r.name));
    line("  " + accumulate(r.how, r.name, "other"));
    line("}");
  }
  void add(const raw& r) { line(r.line); }

  void add(const load_vector& v) {
    const buffer &from = at(v.from.of), &into = at(v.into);
    const auto element_of = [&](int64_t l) { return fmt::format("{}[{}]", into.name, (v.at + l).text()); };
    if (v.form == access_form::scalar) {
      for (int64_t l = 0; l < v.width; ++l)
        line(fmt::format("{} = {};", element_of(l),
                         loaded(from.type, fmt::format("{}[{}]", from.name, offset(v.from, l * v.step)))));
      return;
    }
    if (is_half(from.type)) {
      const std::string name = into.name + "_bits", words = words_type(v.width / 2);
      line(fmt::format("const {0} {1} = *(const {0}*)({2} + {3});", words, name, from.name, offset(v.from)));
      for (int64_t l = 0; l < v.width; ++l) {
        const std::string word = v.width == 2 ? name : fmt::format("{}.{}", name, k_parts[l / 2]);
        line(fmt::format(
            "{} = {};", element_of(l),
            loaded(from.type, fmt::format("(unsigned short){}", l % 2 == 0 ? word : "(" + word + " >> 16)"))));
      }
      return;
    }
    const vector_type vector = vector_of(from.type, v.width);
    for (int64_t first = 0; first < v.width; first += vector.elements) {
      const std::string name = fmt::format("{}_{}", into.name, first);
      line(fmt::format("const {0} {1} = *(const {0}*)({2} + {3});", vector.name, name, from.name,
                       offset(v.from, first)));
      for (int64_t l = 0; l < vector.elements; ++l)
        line(fmt::format("{} = {}.{}{};", element_of(first + l), name, k_parts[l],
                         from.type == dtype::bool_ ? " != 0" : ""));
    }
  }

  void add(const store_vector& v) {
    const buffer &to = at(v.to.of), &from = at(v.from);
    const auto element_of = [&](int64_t l) { return fmt::format("{}[{}]", from.name, l); };
    if (v.form == access_form::scalar) {
      for (int64_t l = 0; l < v.width; ++l)
        line(fmt::format("{}[{}] = {};", to.name, offset(v.to, l * v.step), stored(to.type, element_of(l))));
      return;
    }
    if (is_half(to.type)) {
      const char* const pair = to.type == dtype::float16 ? "half_pair_of_floats" : "bfloat16_pair_of_floats";
      const std::string words = words_type(v.width / 2);
      std::string parts;
      for (int64_t l = 0; l < v.width; l += 2)
        parts += fmt::format("{}{}({}, {})", l > 0 ? ", " : "", pair, element_of(l), element_of(l + 1));
      write_vector(words, v, offset(v.to), v.width == 2 ? parts : fmt::format("make_{}({})", words, parts));
      return;
    }
    const vector_type vector = vector_of(to.type, v.width);
    for (int64_t first = 0; first < v.width; first += vector.elements) {
      std::string parts;
      for (int64_t l = 0; l < vector.elements; ++l)
        parts += fmt::format("{}{}", l > 0 ? ", " : "", element_of(first + l));
      write_vector(vector.name, v, offset(v.to, first), fmt::format("make_{}({})", vector.name, parts));
    }
  }
  void write_vector(const std::string& type, const store_vector& v, const std::string& offset,
                    const std::string& value) {
    const std::string place = fmt::format("({}*)({} + {})", type, at(v.to.of).name, offset);
    line(v.cached == caching::streaming ? fmt::format("__stcs({}, {});", place, value)
                                        : fmt::format("*{} = {};", place, value));
  }

  void add(const loop& l) {
    if (l.unroll != unrolling::none)
      line(l.unroll == unrolling::whole ? "#pragma unroll" : fmt::format("#pragma unroll {}", l.unrolled_steps));
    const std::string next = l.step == 1 ? "++" + l.variable : fmt::format("{} += {}", l.variable, l.step);
    const std::string left =
        l.whole_steps ? fmt::format("{} + {} <= ", l.variable, l.step) : fmt::format("{} < ", l.variable);
    inside(fmt::format("for (int {} = {}; {}; {})", l.variable, l.first.text(),
                       l.asks.empty() ? left + l.count.text() : l.asks, next),
           l.body);
  }
  // Where nothing is done if it is true, the opposite is asked.
  void add(const guard& g) {
    const std::string all = text(g.all, g.tests);
    if (!g.body.empty()) inside(fmt::format("if ({})", all), g.body);
    if (g.otherwise.empty()) return;
    const bool is_one = g.all.empty() && g.tests.size() == 1;
    inside(!g.body.empty() ? "else"
           : is_one        ? fmt::format("if (!{})", all)
                           : fmt::format("if (!({}))", all),
           g.otherwise);
  }
  void add(const scope& s) { inside("", s.body); }
  void add(const branch& b) {
    inside(fmt::format("if ({})", text(b.when)), b.body);
    if (!b.otherwise.empty()) inside("else", b.otherwise);
  }
  void add(const leave& l) { line(fmt::format("if ({}) return;", print(l.when))); }
  void add(const barrier& b) {
    constexpr const char* k_calls[] = {"__syncthreads();", "__syncwarp();", "cluster_sync();"};
    line(k_calls[static_cast<int>(b.of)]);
  }
  void add(const copy& c) {
    line(fmt::format("copy_async<{}>(&{}, {} + {}, {});", c.width * size_of(at(c.to.of).type), place(c.to),
                     at(c.from.of).name, offset(c.from), c.real));
  }
  void add(const commit_copies&) { line("copy_async_commit();"); }
  void add(const wait_for_copies& w) { line(fmt::format("copy_async_wait<{}>();", w.but)); }
  void add(const call& c) { line(text(c.what) + ";"); }

  bool has_dynamic_ = false;
  const kernel* kernel_;
  int depth_;
  std::string text_;
};

}  // namespace

std::string print(const condition& c) {
  constexpr const char* signs[] = {"<", "<=", ">=", "=="};
  if (c.is == condition::how::within) return fmt::format("(unsigned){} < {}u", c.left.operand(), c.right);
  return fmt::format("{} {} {}", c.left.text(), signs[static_cast<int>(c.is)], c.right);
}

std::string print(const kernel& k, int depth) {
  printer p(k, depth);
  p.add(k.body);
  return std::move(p).text();
}

}  // namespace cudal1::tile
