// A search over several models: an experiment for each, since scores of two models are not comparable. One leads; the
// others name it in their records.
#pragma once

#include <string>
#include <vector>

#include "sandbox/device/session.hpp"
#include "store/store.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

// The experiments of the search that an experiment is of, the one that leads first; only itself if it is alone.
expected<std::vector<experiment_record>> experiments_of_search(store& s, const std::string& experiment);
// Such a search as a report lists it; empty for an experiment that is alone.
std::vector<search_member> members_of(const std::vector<experiment_record>& search);
// "cuda", and of a search over several models "cuda (NVIDIA H200)".
std::string device_of(const search_report& r);
// The commands that measure the best of each model again on a device of each other one, of those that work now.
std::vector<std::string> port_commands(const std::vector<experiment_record>& search,
                                       const std::vector<device_report>& devices);

}  // namespace cudal1::cli
