// A report as one HTML page that needs nothing else: no script, no network, no font of its own.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/page/page_charts.hpp"
#include "tools/cli/page/page_data.hpp"

namespace cudal1::cli {

std::string html_page(const page_data& page);

// The result in one sentence, for people who read no further.
std::string headline(const page_data& page);

// All charts of the page, those of tasks too.
std::vector<page_chart> charts_of(const page_data& page);

// The section of one task; `number` counts from 1.
std::string task_section(const task_page& t, std::size_t number);

}  // namespace cudal1::cli
