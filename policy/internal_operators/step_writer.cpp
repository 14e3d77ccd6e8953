#include "policy/internal_operators/step_writer.hpp"

namespace cudal1 {

std::string step_writer::fresh(const std::string& name) {
  std::string out = graph_->fresh_name(name);
  for (int n = 2; !taken_.insert(out).second; ++n)
    out = graph_->fresh_name(name + "_" + std::to_string(n));
  return out;
}

void step_writer::add(const char* op, std::vector<std::pair<std::string, json>> args, const std::string& result,
                      const char* precision) {
  aten_step added;
  added.op = op;
  added.args = std::move(args);
  added.results = {result};
  added.precision = precision;
  into_->steps.emplace_back(std::move(added));
}

}  // namespace cudal1
