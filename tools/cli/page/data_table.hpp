// A table of a report: cells for people and for programs.
#pragma once

#include <string>
#include <vector>

namespace cudal1::cli {

struct data_cell {
  std::string text;
  std::string raw = {};   // for programs: a number with all its digits; "" where it is the text
  std::string link = {};  // id of what it leads to in the page, or a path that begins with "/"; "" for none
};

enum class sorting { none, ascending, descending };

struct data_column {
  std::string title;
  bool is_number = false;         // right-aligned
  bool is_long = false;           // its texts are broken into lines; others are not
  std::string link = {};          // what its title leads to, as in data_cell: the table sorted by it
  sorting order = sorting::none;  // of the rows, by it
};

struct data_table {
  std::string id;  // letters, digits and hyphens: an HTML id and the name of a file
  std::string caption;
  std::vector<data_column> columns;
  std::vector<std::vector<data_cell>> rows;  // each as long as `columns`; the first cell names its row

  bool empty() const { return rows.empty(); }
};

// Without the columns in which no row has more than "-".
data_table without_empty_columns(data_table t);

// A <table> with its caption and headings, in a container that scrolls where the table is wider than the page.
std::string html_of(const data_table& t);
// Comma-separated values with a heading (RFC 4180, plain newlines).
std::string csv_of(const data_table& t);

// All digits of a number.
std::string exact(double value);

}  // namespace cudal1::cli
