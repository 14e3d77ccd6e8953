// The pages of the dashboard. Each is made from a snapshot and the store, and has no state of its own.
#pragma once

#include "tools/cli/page/page_data.hpp"
#include "tools/serve/dashboard/page_frame.hpp"

namespace cudal1::serve {

// errc::not_found for what a path names and is not there; errors of the store.
expected<page_parts> overview_page(const page_input& in);
expected<page_parts> experiments_page(const page_input& in);
expected<page_parts> experiment_page(const page_input& in);
expected<page_parts> tasks_page(const page_input& in);
expected<page_parts> one_task_page(const page_input& in);
expected<page_parts> variants_page(const page_input& in);
expected<page_parts> one_variant_page(const page_input& in);
expected<page_parts> devices_page(const page_input& in);
expected<page_parts> queue_page(const page_input& in);
expected<page_parts> log_page(const page_input& in);
expected<page_parts> start_page(const page_input& in);

// `next`: the path to go on with. `problem`: why the last try failed; "".
page_parts login_page(const std::string& next, const std::string& problem);
page_parts problem_page(const api_problem& p);

// ---- what several of them have

// How far a running experiment is, with its time left, and what it is doing.
std::string progress_of(const page_input& in, const cli::top_experiment& e);
// Experiments as a table, in this order.
cli::data_table experiment_table(const page_input& in, const std::vector<const experiment_record*>& all,
                                 const std::string& caption);
// The tasks of the rows, with links.
cli::data_table linked_task_table(const page_input& in, const cli::page_data& page);
// The report's charts and tables of speedups, the best so far and failures. `experiment`: "" for all. Its curves are
// there once the index of variants is complete.
expected<cli::page_data> charts_data(const page_input& in, const std::string& experiment);
// The line that says how far the index is; "" once it is complete.
std::string index_note(const page_input& in);
// Failures by class: their chart, and the newest of each.
std::string failures_of(const page_input& in, const cli::page_data& page);
// Events as a table, the newest first; their texts are cut to so many characters.
cli::data_table event_table(const page_input& in, std::size_t most, const std::string& experiment = "",
                            std::size_t most_characters = 400);

}  // namespace cudal1::serve
