// Formats numbers and names for people. Every number that the command line prints is formatted here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/evaluation_records.hpp"

namespace cudal1::cli {

// Three significant digits: "0.512", "1.83", "24.3", "183", "1234".
std::string format_number(double value);
// "812 µs", "1.83 ms", "2.10 s"; "-" for 0, no time.
std::string format_time(double microseconds);
// "1.83x", and "1.83x [1.80, 1.86]".
std::string format_speedup(double score);
std::string format_speedup(double score, const interval& range);
// "0:42", "4:00", "1:02:03".
std::string format_clock(double seconds);
// "512 B", "1.50 KiB", "12.0 GiB".
std::string format_bytes(double bytes);
// Local time, "2026-11-20 23:05:02"; "-" for 0.
std::string format_date(int64_t unix_ms);
// "1 evaluation", "3 evaluations".
std::string format_count(int64_t n, std::string_view singular);
// The first 12 digits.
std::string short_id(std::string_view id);
// "wrong_answer 3, hang 1", most frequent first; "" for none. `correct` is left out.
std::string format_failures(const std::map<std::string, int64_t>& outcomes);
// A schedule without parameter names: `fuse(2..5) block(0,256)`. Of more than twelve moves, the first ten and the
// number of the others. Text that is not a schedule is returned unchanged.
std::string short_schedule(const std::string& schedule);

// Reads "4m", "90s", "1h30m", "250ms" or "90" (seconds), in seconds; must be above 0. The error names the valid forms.
expected<double> parse_duration(std::string_view text);

// Columns on a terminal: code points, without escape sequences. Does not support wide characters.
std::size_t display_width(std::string_view text);
// Cut to `width` columns, with an ellipsis at the end if it was longer. 0: no limit.
std::string fit(std::string text, std::size_t width);
// Padded with spaces to `width` columns.
enum class alignment { left, right };
std::string pad(std::string text, std::size_t width, alignment side = alignment::left);
// Wrapped at spaces into lines of at most `width` columns (longer words stay whole), indented by `indent` spaces.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent = 0);
// Each line wrapped by itself; what continues a line is indented as its last column is: the text behind two or more
// spaces, or else its first word. A width of 0: unchanged.
std::string rewrap(std::string_view text, std::size_t width);
std::vector<std::string> split_lines(std::string_view text);

}  // namespace cudal1::cli
