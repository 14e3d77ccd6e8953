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

// What is known of a task, and of its best variant, without its name. `level`: of the headings in it.
std::string task_body(const task_page& t, std::size_t number, int level);
// How the variant of `t` is made, what runs, its gates, program and source; "" without one. The source is folded, or
// open.
enum class source_view { folded, open };
std::string variant_section(const task_page& t, std::size_t number, int level,
                            source_view source = source_view::folded);

// The section of one task; `number` counts from 1.
std::string task_section(const task_page& t, std::size_t number);

}  // namespace cudal1::cli
