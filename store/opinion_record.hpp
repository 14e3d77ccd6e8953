// A language model's opinion of a suspicious variant: evidence for people.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

#include "store/group_record.hpp"

namespace cudal1 {

BOOST_DEFINE_ENUM_CLASS(opinion_rating, honest, doubtful, cheating, unclear)

struct opinion_record {
  std::string variant, task, experiment;  // ids
  int attempt = 1;                        // whose verdict was suspicious
  std::string suspicion;
  std::string model;  // that was asked
  opinion_rating rating = opinion_rating::unclear;
  std::string reasons;
  answer_cost cost;
  int64_t time_unix_ms = 0;
};
BOOST_DESCRIBE_STRUCT(opinion_record, (),
                      (variant, task, experiment, attempt, suspicion, model, rating, reasons, cost, time_unix_ms))

}  // namespace cudal1
