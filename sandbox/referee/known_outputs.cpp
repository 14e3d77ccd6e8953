#include "sandbox/referee/known_outputs.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace cudal1 {
namespace {

constexpr std::size_t variants_remembered = 16;

// A timed output whose bits differ from the checked one passes if its error is at most this multiple of the checked
// one's, or negligible for the type.
constexpr double error_factor = 4;
double negligible_error(dtype type) {
  switch (type) {
    case dtype::float64:
      return 1e-13;
    case dtype::float32:
      return 1e-6;
    case dtype::float16:
      return 2e-3;
    case dtype::bfloat16:
      return 1e-2;
    default:
      return 0;
  }
}

}  // namespace

const known_output* known_outputs::find(const std::string& variant, uint64_t seed) const {
  const auto of_variant = known_.find(variant);
  if (of_variant == known_.end()) return nullptr;
  const auto found = of_variant->second.find(seed);
  return found == of_variant->second.end() ? nullptr : &found->second;
}

void known_outputs::remember(const std::string& variant, uint64_t seed, known_output output) {
  if (!known_.contains(variant)) {
    order_.push_back(variant);
    if (order_.size() > variants_remembered) {
      known_.erase(order_.front());
      order_.erase(order_.begin());
    }
  }
  known_[variant][seed] = std::move(output);
}

std::string timed_difference(const output_check& timed, double checked_error, dtype type) {
  if (!timed.type_problem.empty()) return timed.type_problem;
  if (timed.mask_mismatches > 0)
    return fmt::format("{} elements are finite where the expected output is not, or the reverse",
                       timed.mask_mismatches);
  const double allowed =
      std::max({error_factor * checked_error, error_factor * timed.reference_error, negligible_error(type)});
  if (timed.error > allowed)
    return fmt::format("its error is {:.3g}, and was {:.3g} when checked; element {} is {:g} and should be {:g}",
                       timed.error, checked_error, timed.worst_index, timed.worst_value, timed.worst_expected);
  return "";
}

std::string timed_inconsistency(const std::vector<output_check>& timed, const known_output& known, timed_bits bits,
                                const std::vector<tensor_type>& types) {
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const double checked_error = i < known.errors.size() ? known.errors[i] : 0;
    if (const auto text = timed_difference(timed[i], checked_error, types.at(i).type); !text.empty())
      return fmt::format("a timed output \"{}\"{}: {}", timed[i].name,
                         bits == timed_bits::same ? "" : " has different bits than when it was checked", text);
  }
  return "";
}

}  // namespace cudal1
