#include "config/base/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <boost/json/basic_parser_impl.hpp>

namespace cudal1 {

namespace {

// Builds the document from the push parser's events.
struct builder {
  static constexpr std::size_t max_object_size = 1u << 24;
  static constexpr std::size_t max_array_size = 1u << 24;
  static constexpr std::size_t max_key_size = 1u << 24;
  static constexpr std::size_t max_string_size = 1u << 30;
  using code = boost::json::error_code;

  struct level {
    json value;
    std::string key;
  };
  std::vector<level> open;
  json root;
  std::string text, number, problem;

  bool refuse(std::string why, code& ec) {
    problem = std::move(why);
    ec = make_error_code(boost::json::error::syntax);
    return false;
  }
  bool put(json v) {
    if (open.empty()) {
      root = std::move(v);
    } else if (open.back().value.is_array()) {
      open.back().value.as_array().push_back(std::move(v));
    } else {
      open.back().value.as_object().emplace_back(std::move(open.back().key), std::move(v));
    }
    return true;
  }
  bool close() {
    json v = std::move(open.back().value);
    open.pop_back();
    return put(std::move(v));
  }

  bool on_document_begin(code&) { return true; }
  bool on_document_end(code&) { return true; }
  bool on_object_begin(code&) { return open.push_back({json(json::object{}), {}}), true; }
  bool on_object_end(std::size_t, code& ec) {
    const auto& members = open.back().value.as_object();
    if (members.size() > 1) {
      std::vector<std::string_view> keys;
      keys.reserve(members.size());
      for (const auto& m : members)
        keys.push_back(m.first);
      std::sort(keys.begin(), keys.end());
      if (auto twin = std::adjacent_find(keys.begin(), keys.end()); twin != keys.end())
        return refuse("the key \"" + std::string(*twin) + "\" appears twice in one object", ec);
    }
    return close();
  }
  bool on_array_begin(code&) { return open.push_back({json(json::array{}), {}}), true; }
  bool on_array_end(std::size_t, code&) { return close(); }
  bool on_key_part(boost::json::string_view s, std::size_t, code&) { return text.append(s.data(), s.size()), true; }
  bool on_key(boost::json::string_view s, std::size_t, code&) {
    text.append(s.data(), s.size());
    open.back().key = std::move(text);
    text.clear();
    return true;
  }
  bool on_string_part(boost::json::string_view s, std::size_t, code&) { return text.append(s.data(), s.size()), true; }
  bool on_string(boost::json::string_view s, std::size_t, code&) {
    text.append(s.data(), s.size());
    json v(std::move(text));
    text.clear();
    return put(std::move(v));
  }
  bool on_number_part(boost::json::string_view s, code&) { return number.append(s.data(), s.size()), true; }
  bool on_number(boost::json::string_view s, code& ec) {
    number.append(s.data(), s.size());
    const char* first = number.data();
    const char* last = first + number.size();
    const bool integral = number.find_first_of(".eE") == std::string::npos;
    json v;
    if (integral) {
      int64_t i = 0;
      if (auto [p, e] = std::from_chars(first, last, i); e != std::errc{} || p != last)
        return refuse("the integer " + number + " does not fit 64 bits", ec);
      v = json(i);
    } else {
      double d = 0;
      auto [p, e] = std::from_chars(first, last, d);
      if (p != last || (e != std::errc{} && e != std::errc::result_out_of_range) || !std::isfinite(d))
        return refuse("the number " + number + " is not a finite double", ec);
      if (e == std::errc::result_out_of_range)  // too small or too large; from_chars leaves d unchanged
        return refuse("the number " + number + " is outside a double's range", ec);
      v = json(d);
    }
    number.clear();
    return put(std::move(v));
  }
  bool on_int64(int64_t, boost::json::string_view s, code& ec) { return on_number(s, ec); }
  bool on_uint64(uint64_t, boost::json::string_view s, code& ec) { return on_number(s, ec); }
  bool on_double(double, boost::json::string_view s, code& ec) { return on_number(s, ec); }
  bool on_bool(bool b, code&) { return put(json(b)); }
  bool on_null(code&) { return put(json()); }
  bool on_comment_part(boost::json::string_view, code&) { return true; }
  bool on_comment(boost::json::string_view, code&) { return true; }
};

// Whether a character of a string is written as itself.
constexpr std::array<bool, 256> written_as_is = [] {
  std::array<bool, 256> as_is{};
  for (std::size_t c = 0x20; c < as_is.size(); ++c)
    as_is[c] = c != '"' && c != '\\' && c != 0x7f;
  return as_is;
}();

void append_escaped(std::string& out, char c) {
  static constexpr char hex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default:
      const auto u = static_cast<unsigned char>(c);
      out += "\\u00";
      out += hex[u >> 4];
      out += hex[u & 15];
  }
}

bool is_scalar(const json& v) {
  return !v.is_array() && !v.is_object();
}

void write(std::string& out, const json& v, int indent, int depth) {
  const auto newline = [&](int d) {
    if (indent > 0) out.append(1, '\n').append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(d), ' ');
  };
  if (v.is_null()) {
    out += "null";
  } else if (v.is_bool()) {
    out += v.as_bool() ? "true" : "false";
  } else if (v.is_int()) {
    out += std::to_string(v.as_int());
  } else if (v.is_double()) {
    json::append_double(out, v.as_double());
  } else if (v.is_string()) {
    json::append_string(out, v.as_string());
  } else if (v.is_array()) {
    const auto& items = v.as_array();
    const bool flat = std::all_of(items.begin(), items.end(), is_scalar);
    out += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += indent > 0 && flat ? ", " : ",";
      if (!flat) newline(depth + 1);
      write(out, items[i], indent, depth + 1);
    }
    if (!flat && !items.empty()) newline(depth);
    out += ']';
  } else {
    const auto& members = v.as_object();
    out += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out += ',';
      newline(depth + 1);
      json::append_string(out, members[i].first);
      out += indent > 0 ? ": " : ":";
      write(out, members[i].second, indent, depth + 1);
    }
    if (!members.empty()) newline(depth);
    out += '}';
  }
}

}  // namespace

void json::append_string(std::string& out, std::string_view s) {
  out += '"';
  for (std::size_t from = 0; from < s.size();) {
    std::size_t to = from;
    while (to < s.size() && written_as_is[static_cast<unsigned char>(s[to])])
      ++to;
    out.append(s, from, to - from);
    if (to < s.size()) append_escaped(out, s[to++]);
    from = to;
  }
  out += '"';
}

void json::append_double(std::string& out, double d) {
  if (std::isnan(d)) return append_string(out, "nan");
  if (std::isinf(d)) return append_string(out, d > 0 ? "inf" : "-inf");
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d).ptr;
  const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

const json* json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& m : as_object())
    if (m.first == key) return &m.second;
  return nullptr;
}

json* json::find(std::string_view key) {
  return const_cast<json*>(std::as_const(*this).find(key));
}

json& json::set(std::string key, json v) {
  if (is_null()) value_ = object{};
  if (auto* there = find(key)) {
    *there = std::move(v);
  } else {
    as_object().emplace_back(std::move(key), std::move(v));
  }
  return *this;
}

json& json::push_back(json v) {
  if (is_null()) value_ = array{};
  as_array().push_back(std::move(v));
  return *this;
}

json::json(const json& other) = default;
json::json(json&& other) noexcept = default;
json& json::operator=(const json& other) = default;
json& json::operator=(json&& other) noexcept = default;
json::~json() = default;

const char* json::kind_name() const {
  static constexpr const char* names[] = {"null",     "a boolean", "an integer", "a number",
                                          "a string", "an array",  "an object"};
  return names[value_.index()];
}

expected<json> json::parse(std::string_view text, int max_depth) {
  boost::json::parse_options options;
  options.max_depth = static_cast<std::size_t>(max_depth);
  boost::json::basic_parser<builder> parser(options);
  boost::json::error_code ec;
  const auto used = parser.write_some(false, text.data(), text.size(), ec);
  std::string problem = parser.handler().problem;
  if (!ec && text.substr(used).find_first_not_of(" \t\r\n") != std::string_view::npos)
    problem = "there is text after the end of the document";
  if (ec || !problem.empty()) {
    const auto before = text.substr(0, used);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto start = before.rfind('\n');
    const auto column = 1 + (start == std::string_view::npos ? used : used - start - 1);
    return fail(errc::parse_error, "JSON, line {} column {}: {}", line, column,
                problem.empty() ? ec.message() : problem);
  }
  return std::move(parser.handler().root);
}

std::string json::text(int indent) const {
  std::string out;
  write(out, *this, indent, 0);
  return out;
}

}  // namespace cudal1
