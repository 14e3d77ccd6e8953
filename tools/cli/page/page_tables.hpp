// The tables of a page.
#pragma once

#include <vector>

#include "tools/cli/page/data_table.hpp"
#include "tools/cli/page/page_data.hpp"

namespace cudal1::cli {

// The paper's table: a row for each base over all tasks and for each level; and the same by family.
data_table level_table(const page_data& page);
data_table family_table(const page_data& page);
data_table fast_table(const page_data& page);
data_table task_table(const page_data& page);
data_table technique_table(const page_data& page);
data_table failure_table(const page_data& page);
data_table hack_table(const page_data& page);
data_table model_table(const page_data& page);
data_table stage_table(const page_data& page);
data_table environment_table(const page_data& page);
// By KernelBench's own evaluator; empty where the page has no results of it.
data_table evaluator_group_table(const page_data& page);
data_table evaluator_table(const page_data& page);

// Of one task; `number` is for ids.
data_table lineage_table(const task_page& t, std::size_t number);
data_table gate_table(const task_page& t, std::size_t number);
// What a call of the best variant runs, step by step, with the resources of kernels.
data_table step_table(const task_page& t, std::size_t number);
// What Nsight Compute read of its kernels; empty where the page has nothing of it.
data_table counter_table(const task_page& t, std::size_t number);

// Those of the page that are not empty, for files.
std::vector<data_table> tables_of(const page_data& page);

}  // namespace cudal1::cli
