#include "store/keys.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace cudal1::keys {

namespace {

constexpr char zero = '\0', escaped_zero = '\xff', end_of_text = '\x01';

// Order-preserving bits of a double: negative ones reversed, positive ones above them.
uint64_t ordered(double d) {
  const auto bits = std::bit_cast<uint64_t>(d);
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

double from_ordered(uint64_t bits) {
  return std::bit_cast<double>(bits >> 63 ? bits & ~(uint64_t{1} << 63) : ~bits);
}

}  // namespace

writer& writer::text(std::string_view s) {
  for (const char c : s) {
    out_ += c;
    if (c == zero) out_ += escaped_zero;
  }
  out_ += zero;
  out_ += end_of_text;
  return *this;
}

writer& writer::number(uint64_t n) {
  for (int shift = 56; shift >= 0; shift -= 8)
    out_ += static_cast<char>(n >> shift & 0xff);
  return *this;
}

writer& writer::descending(double d) {
  return number(std::isnan(d) ? ~uint64_t{0} : ~ordered(d));
}

std::string reader::text() {
  std::string out;
  for (std::size_t i = 0; ok_ && i + 1 < rest_.size(); ++i) {
    if (rest_[i] != zero) {
      out += rest_[i];
    } else if (rest_[i + 1] == end_of_text) {
      rest_.remove_prefix(i + 2);
      return out;
    } else if (rest_[++i] == escaped_zero) {
      out += zero;
    } else {
      break;
    }
  }
  ok_ = false;
  return {};
}

uint64_t reader::number() {
  if (!ok_ || rest_.size() < 8) {
    ok_ = false;
    return 0;
  }
  uint64_t n = 0;
  for (std::size_t i = 0; i < 8; ++i)
    n = n << 8 | static_cast<unsigned char>(rest_[i]);
  rest_.remove_prefix(8);
  return n;
}

double reader::descending() {
  const uint64_t bits = number();
  return bits == ~uint64_t{0} ? std::numeric_limits<double>::quiet_NaN() : from_ordered(~bits);
}

std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff')
    prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

std::string variant(std::string_view id) {
  return std::string(id);
}

std::string variant_use(std::string_view id, std::string_view task, std::string_view experiment) {
  return std::string(id) + zero + writer().text(task).text(experiment).take();
}

std::string uses_of(std::string_view id) {
  return std::string(id) + zero;
}

std::optional<use_key> parse_variant_use(std::string_view key) {
  const auto end_of_id = key.find(zero);
  if (end_of_id == std::string_view::npos) return std::nullopt;
  reader r(key.substr(end_of_id + 1));
  use_key k;
  k.task = r.text();
  k.experiment = r.text();
  if (!r.ok() || !r.at_end()) return std::nullopt;
  return k;
}

std::string verdict(const verdict_key& k) {
  return writer().text(k.task).text(k.experiment).text(k.variant).number(static_cast<uint64_t>(k.attempt)).take();
}

std::string verdicts_of(std::string_view task) {
  return writer().text(task).take();
}

std::string verdicts_of(std::string_view task, std::string_view experiment) {
  return writer().text(task).text(experiment).take();
}

std::string verdicts_of(std::string_view task, std::string_view experiment, std::string_view variant) {
  return writer().text(task).text(experiment).text(variant).take();
}

namespace {

std::optional<verdict_key> read_verdict_key(std::string_view key, std::array<std::string verdict_key::*, 3> order) {
  reader r(key);
  verdict_key k;
  for (const auto member : order)
    k.*member = r.text();
  k.attempt = static_cast<int>(r.number());
  if (!r.ok() || !r.at_end()) return std::nullopt;
  return k;
}

}  // namespace

std::optional<verdict_key> parse_verdict(std::string_view key) {
  return read_verdict_key(key, {&verdict_key::task, &verdict_key::experiment, &verdict_key::variant});
}

std::optional<verdict_key> parse_verdict_of_schema_1(std::string_view key) {
  return read_verdict_key(key, {&verdict_key::variant, &verdict_key::experiment, &verdict_key::task});
}

std::string standing(std::string_view task, std::string_view scope, std::string_view variant) {
  return writer().text(task).text(scope).text(variant).take();
}

std::string ranking(std::string_view task, std::string_view scope, store::ranking list, double score,
                    std::string_view variant) {
  return ranking_of(task, scope, list) + writer().descending(score).text(variant).take();
}

std::string ranking_of(std::string_view task, std::string_view scope, store::ranking list) {
  const char* name = list == store::ranking::all         ? "all"
                     : list == store::ranking::confirmed ? "confirmed"
                                                         : "near eager";
  return writer().text(task).text(scope).text(name).take();
}

std::string tally(std::string_view experiment, std::string_view task) {
  return writer().text(experiment).text(task).take();
}

std::string tallies_of(std::string_view experiment) {
  return experiment.empty() ? "" : writer().text(experiment).take();
}

std::string attempt(std::string_view experiment, std::string_view task, std::string_view variant, int number) {
  return writer().text(experiment).text(task).text(variant).number(static_cast<uint64_t>(number)).take();
}

std::string attempts_of(std::string_view experiment) {
  return writer().text(experiment).take();
}

std::string attempts_of(std::string_view experiment, std::string_view task, std::string_view variant) {
  return writer().text(experiment).text(task).text(variant).take();
}

std::string baseline(std::string_view task, std::string_view environment, std::string_view kind, int64_t time_unix_ms) {
  return writer().text(task).text(environment).text(kind).number(static_cast<uint64_t>(time_unix_ms)).take();
}

std::string baselines_of(std::string_view task) {
  return writer().text(task).take();
}

std::string file(std::string_view task, std::string_view id) {
  return files_of(task) + writer().text(id).take();
}

std::string files_of(std::string_view task) {
  return task.empty() ? "" : writer().text(task).take();
}

std::string exemplar_lists(std::string_view task, std::string_view environment_class, std::string_view population) {
  return writer().text(task).text(environment_class).text("lists").text(population).take();
}

std::string exemplar_slot(std::string_view task, std::string_view environment_class, std::string_view population,
                          std::string_view list, int64_t slot) {
  return writer()
      .text(task)
      .text(environment_class)
      .text("slots")
      .text(population)
      .text(list)
      .number(static_cast<uint64_t>(slot))
      .take();
}

std::string exemplar_place(std::string_view task, std::string_view environment_class, std::string_view population,
                           std::string_view variant) {
  return exemplar_places_of(task, environment_class, population) + writer().text(variant).take();
}

std::string exemplar_places_of(std::string_view task, std::string_view environment_class, std::string_view population) {
  return writer().text(task).text(environment_class).text("places").text(population).take();
}

std::string islands(std::string_view task, std::string_view environment_class) {
  return writer().text(task).text(environment_class).text("islands").take();
}

std::string conclusion(std::string_view task, std::string_view environment_class, std::string_view variant) {
  return writer().text(task).text(environment_class).text(variant).take();
}

namespace {

// "12": without a sign or leading zeros, above 0.
std::optional<uint64_t> whole_number(std::string_view digits) {
  uint64_t n = 0;
  if (digits.empty() || digits.front() == '0') return std::nullopt;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (problem != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return n;
}

}  // namespace

std::optional<group_key> parse_group(std::string_view id) {
  const auto slash = id.find('/');
  if (slash == std::string_view::npos || !experiment_number(id.substr(0, slash))) return std::nullopt;
  const auto number = whole_number(id.substr(slash + 1));
  if (!number) return std::nullopt;
  return group_key{std::string(id.substr(0, slash)), *number};
}

std::string last_group(std::string_view experiment) {
  return writer().text(experiment).text("last").take();
}

std::string group(const group_key& g) {
  return groups_of(g.experiment) + writer().number(g.number).take();
}

std::string groups_of(std::string_view experiment) {
  return writer().text(experiment).text("records").take();
}

std::string open_group(const group_key& g) {
  return open_groups_of(g.experiment) + writer().number(g.number).take();
}

std::string open_groups_of(std::string_view experiment) {
  return writer().text(experiment).text("open").take();
}

std::string group_variant(const group_key& g, std::string_view variant) {
  return variants_of(g) + writer().text(variant).take();
}

std::string variants_of(const group_key& g) {
  return writer().text(g.experiment).text("variants").number(g.number).take();
}

std::optional<std::string> parse_group_variant(std::string_view key) {
  reader r(key);
  r.text();
  r.text();
  r.number();
  std::string variant = r.text();
  if (!r.ok() || !r.at_end()) return std::nullopt;
  return variant;
}

std::string rewards(const group_key& g) {
  return rewards_of(g.experiment) + writer().number(g.number).take();
}

std::string rewards_of(std::string_view experiment) {
  return writer().text(experiment).text("rewards").take();
}

std::string opinion(std::string_view variant, std::string_view task, std::string_view experiment, int attempt) {
  return opinions_of(variant) + writer().text(task).text(experiment).number(static_cast<uint64_t>(attempt)).take();
}

std::string opinions_of(std::string_view variant) {
  return writer().text(variant).take();
}

std::optional<uint64_t> hack_number(std::string_view id) {
  return id.empty() || id.front() != 'h' ? std::nullopt : whole_number(id.substr(1));
}

std::string last_hack() {
  return writer().text("last").take();
}

std::string hack(uint64_t number) {
  return hacks() + writer().number(number).take();
}

std::string hacks() {
  return writer().text("records").take();
}

std::string hack_of_variant(std::string_view variant, std::string_view kind) {
  return hacks_of_variant(variant) + writer().text(kind).take();
}

std::string hacks_of_variant(std::string_view variant) {
  return writer().text("variants").text(variant).take();
}

std::string hack_of_class(std::string_view kind, uint64_t number) {
  return hacks_of_class(kind) + writer().number(~number).take();
}

std::string hacks_of_class(std::string_view kind) {
  return writer().text("classes").text(kind).take();
}

std::string event(int64_t sequence) {
  return writer().number(static_cast<uint64_t>(sequence)).take();
}

std::optional<uint64_t> experiment_number(std::string_view id) {
  return id.empty() || id.front() != 'e' ? std::nullopt : whole_number(id.substr(1));
}

}  // namespace cudal1::keys
