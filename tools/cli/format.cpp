#include "tools/cli/format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <span>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/graph/schedule.hpp"

namespace cudal1::cli {

namespace {

// Limits of a schedule in one line of a table: a network's schedule has a move for each of its kernels.
constexpr std::size_t k_most_moves = 12, k_moves_of_many = 10;

// Decimals that leave three significant digits after rounding (9.996 is 10.0, not 10.00).
int decimals_of(double value) {
  if (value == 0 || !std::isfinite(value)) return 2;
  const auto rounded = std::strtod(fmt::format("{:.2e}", std::abs(value)).c_str(), nullptr);
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(rounded))), 0, 9);
}

struct unit {
  double size;
  std::string_view name;
};

// The largest unit in which the value is, after rounding, at least 1.
template <std::size_t N>
std::string in_units(double value, const unit (&units)[N]) {
  const unit* chosen = &units[0];
  for (const unit& u : units)
    if (std::strtod(fmt::format("{:.2e}", value / u.size).c_str(), nullptr) >= 1) chosen = &u;
  return format_number(value / chosen->size) + " " + std::string(chosen->name);
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Length in bytes of the escape sequence that starts at `at`; 0 if none does.
std::size_t escape_length(std::string_view text, std::size_t at) {
  if (text[at] != '\033' || at + 1 >= text.size() || text[at + 1] != '[') return 0;
  std::size_t end = at + 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~'))
    ++end;
  return end - at + (end < text.size() ? 1 : 0);
}

}  // namespace

std::string format_number(double value) {
  return fmt::format("{:.{}f}", value, decimals_of(value));
}

std::string format_time(double microseconds) {
  if (!(microseconds > 0)) return "-";
  static constexpr unit units[] = {{1, "µs"}, {1e3, "ms"}, {1e6, "s"}};
  return in_units(microseconds, units);
}

std::string format_speedup(double score) {
  return format_number(score) + "x";
}

std::string format_speedup(double score, const interval& range) {
  // All three with the decimals of the score, which makes them easy to compare.
  const int decimals = decimals_of(score);
  return fmt::format("{:.{}f}x [{:.{}f}, {:.{}f}]", score, decimals, range.low, decimals, range.high, decimals);
}

std::string format_clock(double seconds) {
  const auto total = static_cast<int64_t>(std::max(0.0, seconds));
  const int64_t h = total / 3600, m = total / 60 % 60, s = total % 60;
  return h > 0 ? fmt::format("{}:{:02}:{:02}", h, m, s) : fmt::format("{}:{:02}", m, s);
}

std::string format_bytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  static constexpr unit units[] = {
      {1024.0, "KiB"}, {1048576.0, "MiB"}, {1073741824.0, "GiB"}, {1099511627776.0, "TiB"}};
  return in_units(bytes, units);
}

std::string format_date(int64_t unix_ms) {
  if (unix_ms <= 0) return "-";
  const std::time_t seconds = unix_ms / 1000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

std::string format_count(int64_t n, std::string_view singular) {
  return fmt::format("{} {}{}", n, singular, n == 1 ? "" : "s");
}

std::string short_id(std::string_view id) {
  return std::string(id.substr(0, 12));
}

std::string format_failures(const std::map<std::string, int64_t>& outcomes) {
  std::vector<std::pair<std::string, int64_t>> failures;
  for (const auto& [name, count] : outcomes)
    if (name != enum_name(outcome::correct) && count > 0) failures.emplace_back(name, count);
  std::stable_sort(failures.begin(), failures.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : failures)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

std::string short_schedule(const std::string& schedule) {
  const auto parsed = parse_schedule(schedule);
  if (!parsed) return schedule;
  std::string text;
  const bool all = parsed->moves.size() <= k_most_moves;
  for (const move& m : std::span(parsed->moves).first(all ? parsed->moves.size() : k_moves_of_many)) {
    std::vector<std::string> values;
    values.reserve(m.parameters.size());
    for (const auto& parameter : m.parameters)
      values.push_back(parameter.second);
    if (!text.empty()) text += ' ';
    text += m.name;
    if (!values.empty()) text += fmt::format("({})", fmt::join(values, ","));
  }
  if (!all) text += fmt::format(" ... and {} more", parsed->moves.size() - k_moves_of_many);
  return text;
}

expected<double> parse_duration(std::string_view text) {
  const auto refuse = [&] {
    return fail(errc::invalid_argument, "\"{}\" is not a duration; write it as in 90s, 4m, 1h30m or 250ms", text);
  };
  static constexpr std::pair<std::string_view, double> units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  double total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, problem] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (problem != std::errc{} || !std::isfinite(number) || number < 0) return refuse();
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty() && total == 0) {  // a bare number: seconds
      total = number;
      break;
    }
    const auto* u = std::find_if(std::begin(units), std::end(units), [&](const auto& unit_of) {
      return rest.substr(0, rest.find_first_of("0123456789.")) == unit_of.first;
    });
    if (u == std::end(units)) return refuse();
    total += number * u->second;
    rest.remove_prefix(u->first.size());
  }
  if (!(total > 0)) return refuse();
  return total;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (const auto skip = escape_length(text, i)) {
      i += skip;
      continue;
    }
    if (!is_continuation(text[i])) ++width;
    ++i;
  }
  return width;
}

std::string fit(std::string text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return text;
  std::string cut;
  std::size_t columns = 0;
  bool escaped = false;
  for (std::size_t i = 0; i < text.size();) {
    if (const auto skip = escape_length(text, i)) {
      cut.append(text, i, skip);
      escaped = true;
      i += skip;
      continue;
    }
    if (!is_continuation(text[i]) && ++columns >= width) break;
    cut += text[i++];
  }
  cut += "…";
  if (escaped) cut += "\033[0m";
  return cut;
}

std::string pad(std::string text, std::size_t width, alignment side) {
  const auto have = display_width(text);
  if (have >= width) return text;
  return side == alignment::right ? std::string(width - have, ' ') + text : text + std::string(width - have, ' ');
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out = margin;
  std::size_t column = indent;
  for (const auto& line : split_lines(text)) {
    std::string_view rest = line;
    if (column > indent) {
      out += '\n' + margin;
      column = indent;
    }
    while (!rest.empty()) {
      const auto start = rest.find_first_not_of(' ');
      if (start == std::string_view::npos) break;
      rest.remove_prefix(start);
      const auto word = rest.substr(0, rest.find(' '));
      const auto columns = display_width(word);
      if (width > 0 && column > indent && column + 1 + columns > width) {
        out += '\n' + margin;
        column = indent;
      } else if (column > indent) {
        out += ' ';
        ++column;
      }
      out += word;
      column += columns;
      rest.remove_prefix(word.size());
    }
  }
  return out;
}

namespace {

// Where the last column of a line begins, if that leaves half of the width for it.
std::size_t last_column(std::string_view line, std::size_t width) {
  const auto first = std::min(line.find_first_not_of(' '), line.size());
  std::size_t column = first;
  for (auto gap = line.find("  ", first); gap != std::string_view::npos; gap = line.find("  ", column)) {
    column = line.find_first_not_of(' ', gap);
    if (column == std::string_view::npos) return first;
  }
  return display_width(line.substr(0, column)) * 2 <= width ? column : first;
}

}  // namespace

std::string rewrap(std::string_view text, std::size_t width) {
  std::string out;
  for (const auto& line : split_lines(text)) {
    if (width == 0 || display_width(line) <= width) {
      out += line + "\n";
      continue;
    }
    const auto column = last_column(line, width);
    const auto indent = display_width(std::string_view(line).substr(0, column));
    out += line.substr(0, column) + wrap(std::string_view(line).substr(column), width, indent).substr(indent) + "\n";
  }
  return out;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace cudal1::cli
