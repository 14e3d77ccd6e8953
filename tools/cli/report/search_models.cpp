#include "tools/cli/report/search_models.hpp"

#include <algorithm>

#include "sandbox/device/device_names.hpp"

namespace cudal1::cli {

expected<std::vector<experiment_record>> experiments_of_search(store& s, const std::string& experiment) {
  CUDAL1_TRY(const auto asked, s.get_experiment(experiment));
  const std::string lead = asked.lead.empty() ? asked.id : asked.lead;
  CUDAL1_TRY(const auto all, s.experiments());
  std::vector<experiment_record> search;
  for (const auto& e : all)
    if (e.id == lead || e.lead == lead) search.push_back(e);
  std::ranges::stable_partition(search, [](const auto& e) { return e.lead.empty(); });
  return search;
}

std::vector<search_member> members_of(const std::vector<experiment_record>& search) {
  std::vector<search_member> members;
  if (search.size() < 2) return members;
  for (const auto& e : search)
    members.push_back({e.id, e.model});
  return members;
}

std::string device_of(const search_report& r) {
  return r.search.empty() ? r.device : fmt::format("{} ({})", r.device, r.model);
}

std::vector<std::string> port_commands(const std::vector<experiment_record>& search,
                                       const std::vector<device_report>& devices) {
  std::vector<std::string> commands;
  for (const auto& from : search)
    for (const auto& to : search) {
      const auto found = std::ranges::find_if(devices, [&](const auto& d) {
        return to.model != from.model && d.where.model == to.model && names_device(to.device, d.where.device);
      });
      if (found != devices.end())
        commands.push_back(fmt::format("cudal1 port {} --device {}", from.id, found->where.device));
    }
  return commands;
}

}  // namespace cudal1::cli
