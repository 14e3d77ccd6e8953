// What follows a convolution and reduces its places, such as a global average pool or a norm's statistics, cut into
// kernels: the convolution's adds up what each of its warps has (partial results), a second one adds these up, and a
// third one makes the elements that depend on the sums.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

// A value of each element that the convolution's kernel reduces: the results of its body, one for each channel and part
// of the places, that have what each part is reduced to. Channels are neighbours in memory.
struct partial_reduction {
  int node = -1;
  reduction_kind how = reduction_kind::sum;
  int result = -1;
  // Where the sum of squared distances from the row's mean is needed, too: the result that has that sum around the
  // part's own mean.
  int squares = -1;
};

struct cut_convolution {
  kernel_body convolution;                  // elementwise
  std::vector<partial_reduction> partials;  // its results from `first_partial` on
  int first_partial = 0;
  int count = -1;  // the result that has how many elements a part has, the same for all channels; -1: not needed
  kernel_body totals;
  std::optional<kernel_body> rest;
};

// Whether the body reduces places of its convolution.
bool reduces_places(const kernel_body& body);
// errc::unsupported with the reason where it reduces something else, or what depends on another reduction: only sums of
// squared distances from a mean may.
expected<void> check_reduced_places(const kernel_body& body);
// Of a body that check_reduced_places accepts. `parts`: how many the convolution's kernel divides the places of a
// channel into; names of new values start with `prefix`.
cut_convolution cut_at_sums(const kernel_body& body, int64_t parts, const std::string& prefix);

}  // namespace cudal1
