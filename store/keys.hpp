// The store's keys: their bytes sort as their values do, so that a query is a scan of a prefix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/store.hpp"

namespace cudal1::keys {

// Appends fields to a key. A text may hold any byte: 0 is escaped as 00 FF and a text ends with 00 01, so that a text
// sorts before every longer one that begins with it.
class writer {
 public:
  writer& text(std::string_view s);
  writer& number(uint64_t n);    // big-endian
  writer& descending(double d);  // larger first; NaN last
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads the fields back in the same order. After a malformed field all further ones are empty, and ok() is false.
class reader {
 public:
  explicit reader(std::string_view key) : rest_(key) {}
  std::string text();
  uint64_t number();
  double descending();
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// The first key after every key that begins with `prefix`; "" if there is none.
std::string after_prefix(std::string prefix);

// ---- the keys of each column family ---------------------------------------------------------------------------------

// variants: the first record of an id under `id`, and one for every (task, experiment) that used it, since origin,
// parents and trace may differ. `id` is not escaped, so that a prefix of it is a prefix of the key.
std::string variant(std::string_view id);
std::string variant_use(std::string_view id, std::string_view task, std::string_view experiment);

struct use_key {
  std::string task, experiment;
};
std::string uses_of(std::string_view id);
std::optional<use_key> parse_variant_use(std::string_view key);

// results and details: task, experiment, variant, attempt.
struct verdict_key {
  std::string variant, experiment, task;
  int attempt = 1;
};
std::string verdict(const verdict_key& k);
std::string verdicts_of(std::string_view task);
std::string verdicts_of(std::string_view task, std::string_view experiment);
std::string verdicts_of(std::string_view task, std::string_view experiment, std::string_view variant);
std::optional<verdict_key> parse_verdict(std::string_view key);
// verdicts of schema 1: variant, experiment, task, attempt.
std::optional<verdict_key> parse_verdict_of_schema_1(std::string_view key);

// standings: task, scope, variant. rankings: task, scope, list, descending score, variant. A scope is an experiment's
// id, "" for all experiments, or another of ranking_scopes.hpp.
std::string standing(std::string_view task, std::string_view scope, std::string_view variant);
std::string ranking(std::string_view task, std::string_view scope, store::ranking list, double score,
                    std::string_view variant);
std::string ranking_of(std::string_view task, std::string_view scope, store::ranking list);

// tallies: experiment, task.
std::string tally(std::string_view experiment, std::string_view task);
std::string tallies_of(std::string_view experiment);

// attempts: experiment, task, variant, number. unfinished: the same without the number.
std::string attempt(std::string_view experiment, std::string_view task, std::string_view variant, int number);
std::string attempts_of(std::string_view experiment);
std::string attempts_of(std::string_view experiment, std::string_view task, std::string_view variant);

// baselines: task, environment, kind, time.
std::string baseline(std::string_view task, std::string_view environment, std::string_view kind, int64_t time_unix_ms);
std::string baselines_of(std::string_view task);

// files
std::string file(std::string_view task, std::string_view id);
std::string files_of(std::string_view task);  // of all tasks with ""

// exemplars, of a class of environments (exemplar_index.hpp): a population's lists, the variants in their slots, each
// variant's place; the islands of a task.
std::string exemplar_lists(std::string_view task, std::string_view environment_class, std::string_view population);
std::string exemplar_slot(std::string_view task, std::string_view environment_class, std::string_view population,
                          std::string_view list, int64_t slot);
std::string exemplar_place(std::string_view task, std::string_view environment_class, std::string_view population,
                           std::string_view variant);
// All places of a population; the rest of the key is the variant.
std::string exemplar_places_of(std::string_view task, std::string_view environment_class, std::string_view population);
std::string islands(std::string_view task, std::string_view environment_class);

// conclusions: task, class of environments, variant.
std::string conclusion(std::string_view task, std::string_view environment_class, std::string_view variant);

// groups, of an experiment: the number of its last group, the records, the numbers of those that are open, the variants
// of each, and what was paid. "e3/12" is number 12 of e3; nothing if an id does not have that form.
struct group_key {
  std::string experiment;
  uint64_t number = 0;
};
std::optional<group_key> parse_group(std::string_view id);
std::string last_group(std::string_view experiment);
std::string group(const group_key& g);
std::string groups_of(std::string_view experiment);
std::string open_group(const group_key& g);
std::string open_groups_of(std::string_view experiment);
std::string group_variant(const group_key& g, std::string_view variant);
std::string variants_of(const group_key& g);
std::optional<std::string> parse_group_variant(std::string_view key);
std::string rewards(const group_key& g);
std::string rewards_of(std::string_view experiment);

// opinions: by variant
std::string opinion(std::string_view variant, std::string_view task, std::string_view experiment, int attempt);
std::string opinions_of(std::string_view variant);
// hacks: the number of the last case, the cases, the number of each by its variant and class, and by its class, newest
// first.
std::optional<uint64_t> hack_number(std::string_view id);  // of "h12"
std::string last_hack();
std::string hack(uint64_t number);
std::string hacks();
std::string hack_of_variant(std::string_view variant, std::string_view kind);
std::string hacks_of_variant(std::string_view variant);
std::string hack_of_class(std::string_view kind, uint64_t number);
std::string hacks_of_class(std::string_view kind);

// events: the sequence number.
std::string event(int64_t sequence);

// experiments: the number of "e12"; nothing if the id does not have that form.
std::optional<uint64_t> experiment_number(std::string_view id);

}  // namespace cudal1::keys
