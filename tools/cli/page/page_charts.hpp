// The charts of a page, at two widths: a page shows the one that fits, a file has the wide one.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/page/page_data.hpp"

namespace cudal1::cli {

struct page_chart {
  std::string name;     // of its file
  std::string caption;  // how to read it
  std::string wide, narrow;
};

// Nothing where there is nothing to show.
std::optional<page_chart> speedup_chart(const page_data& page);
std::optional<page_chart> fast_share_chart(const page_data& page);
std::optional<page_chart> progress_chart(const page_data& page);
std::optional<page_chart> roof_chart(const page_data& page);
std::optional<page_chart> technique_chart(const page_data& page);
std::optional<page_chart> failure_chart(const page_data& page);

// "PyTorch's eager mode": a base of against_names() in words.
std::string base_words(const std::string& base);

// The best so far of one task, by experiment. `id`: of its chart.
std::optional<page_chart> task_progress_chart(const std::vector<named_curve>& curves, const std::string& id);
// Of one task, at one width. `number`: of the task, for ids and names.
std::vector<page_chart> task_charts(const task_page& t, std::size_t number);

// As a <figure>.
std::string html_of(const page_chart& c);

}  // namespace cudal1::cli
