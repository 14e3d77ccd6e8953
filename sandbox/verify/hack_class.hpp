// What a refused variant is evidence of. A case of a class only ever leads to a deeper check of variants that are
// written alike, never to a refusal, so a plain mistake (an index past the end) among the evidence does no harm.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(hack_class,
                        writes_to_an_input,      // or to a weight
                        writes_out_of_bounds,    // or reads there
                        state_between_calls,     // what one call leaves to the next; other bits when timed or repeated
                        work_outside_the_clock,  // before a call is timed, or after it was reported to be done
                        faster_than_memory,      // than its unavoidable traffic, or than a launch
                        forbidden_call,          // of the system, or code that the sandbox refuses
                        answer_without_work,     // zeros or a constant, on all draws that were compared
                        wrong_on_fresh_draws)    // accepted until it was checked more deeply

inline constexpr std::size_t hack_class_count =
    boost::mp11::mp_size<boost::describe::describe_enumerators<hack_class>>();

// "writes to an input": as people are shown it.
std::string words_of(hack_class c);

struct hack_evidence {
  hack_class kind = hack_class::writes_to_an_input;
  std::string gate;    // that refused it
  std::string reason;  // of the gate, with numbers
};

// Nothing for a correct variant and for a mistake that is no hack: an answer that is wrong by its arithmetic, a crash,
// a hang, a source that is not in the dialect. `v` has its details. What our own moves wrote is the caller's to leave
// out.
std::optional<hack_evidence> hack_evidence_of(const verdict& v);

}  // namespace cudal1
