#include "tools/kernelbench/kept_files.hpp"

#include "tools/cli/store_change.hpp"

namespace cudal1::kernelbench {

judged_file as_judged_file(const submission_verdict& v, const std::string& source, const task& what,
                           const std::string& device, const std::string& model) {
  judged_file f;
  f.task = what.id;
  f.name = v.name;
  f.language = v.language;
  f.source = source;
  f.device = device;
  f.model = model;
  f.correct = v.correct;
  f.kind = v.kind;
  f.why = v.why;
  f.evidence = v.evidence;
  f.notes = v.notes;
  f.speedup = v.speedup;
  if (v.interval.size() == 2) f.speedup_interval = {v.interval[0], v.interval[1]};
  f.eager_us = v.eager_us;
  f.own_us = v.own_us;
  f.pairs = v.pairs;
  return with_id(std::move(f));
}

expected<void> keep_file(const cli::context& c, const judged_file& f, const task& what) {
  if (f.kind == "file") return {};
  client_request r;
  r.verb = client_verb::keep_judged_file;
  r.task = canonical_text(what);
  r.file = f;
  const auto store_it = [&](store& s) -> expected<void> {
    CUDAL1_CHECK(s.put_task(record_of(what)));
    return s.put_judged_file(f);
  };
  CUDAL1_CHECK(cli::change_store(c, r, std::chrono::minutes(2), store_it));
  return {};
}

}  // namespace cudal1::kernelbench
