#include "sandbox/verify/compared_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

// Score; call times of the reference and of the variant; their device times.
using row = std::array<double, 5>;

measured_score of(const row& r) {
  return {r[0], {r[0] * 0.97, r[0] * 1.03}, r[1], r[2], r[3], r[4]};
}

std::vector<measured_score> of(const std::vector<row>& rows) {
  std::vector<measured_score> all;
  for (const auto& r : rows)
    all.push_back(of(r));
  return all;
}

// Three programs for one task of KernelBench, each a CUDA graph of one kernel, measured 14 times in turns on an H100
// whose host was also used by others.
const std::vector<row> rows_of_first = {
    {3.935, 68.49, 17.92, 39.22, 9.66}, {3.871, 68.25, 17.52, 39.26, 9.71}, {3.880, 75.94, 18.80, 39.54, 9.76},
    {4.138, 87.00, 19.84, 39.47, 9.66}, {3.968, 72.34, 18.26, 39.23, 9.84}, {4.085, 83.00, 19.92, 39.54, 9.78},
    {3.497, 60.47, 17.56, 39.25, 9.84}, {4.090, 76.16, 17.94, 39.38, 9.78}, {3.774, 66.06, 17.43, 39.49, 9.92},
    {3.823, 71.40, 18.42, 39.09, 9.86}, {3.507, 57.93, 17.07, 39.52, 9.76}, {3.945, 71.09, 17.74, 39.34, 9.74},
    {3.838, 74.69, 18.80, 39.10, 9.90}, {3.506, 61.26, 17.74, 39.20, 9.82},
};
const std::vector<row> rows_of_slower_on_device = {
    {3.631, 70.02, 19.44, 39.39, 10.83}, {3.370, 59.06, 18.03, 39.28, 10.94}, {3.312, 58.57, 18.42, 39.33, 10.88},
    {3.711, 69.55, 18.49, 39.34, 10.83}, {3.651, 73.80, 19.59, 39.46, 10.93}, {3.741, 76.16, 20.19, 38.90, 10.99},
    {3.328, 58.25, 17.55, 39.42, 10.91}, {3.748, 71.32, 19.04, 39.39, 10.91}, {3.935, 81.88, 20.20, 39.60, 10.91},
    {3.413, 63.08, 18.59, 39.47, 10.85}, {3.643, 70.37, 18.63, 39.23, 10.88}, {3.581, 64.97, 18.28, 39.41, 10.77},
    {4.106, 93.17, 21.77, 39.22, 10.85}, {3.385, 60.56, 17.86, 39.36, 10.93},
};
const std::vector<row> rows_of_faster_on_device = {
    {3.603, 64.36, 17.02, 38.98, 8.43},  {4.329, 83.42, 19.11, 38.98, 8.37}, {3.711, 63.58, 17.12, 39.25, 8.50},
    {3.810, 68.19, 17.55, 39.23, 8.43},  {3.916, 70.57, 17.68, 39.26, 8.51}, {3.601, 57.67, 16.71, 39.44, 8.48},
    {3.724, 65.75, 17.79, 38.98, 8.40},  {3.898, 69.71, 18.45, 39.17, 8.45}, {4.259, 79.57, 18.76, 39.33, 8.48},
    {4.316, 80.67, 18.88, 39.10, 8.51},  {3.705, 66.23, 17.72, 39.46, 8.45}, {3.552, 57.92, 16.63, 39.30, 8.48},
    {4.967, 102.31, 19.77, 38.96, 8.46}, {3.544, 60.31, 17.10, 39.42, 8.53},
};
const auto first = of(rows_of_first), slower_on_device = of(rows_of_slower_on_device),
           faster_on_device = of(rows_of_faster_on_device);

double deviation(const std::vector<double>& scores) {
  double sum = 0, squares = 0;
  for (const double s : scores) {
    sum += std::log(s);
    squares += std::log(s) * std::log(s);
  }
  const auto n = static_cast<double>(scores.size());
  return std::sqrt(squares / n - sum / n * (sum / n));
}

TEST(ComparedScores, OneProgramHasOneScoreAtOnePace) {
  for (const auto* program : {&first, &slower_on_device, &faster_on_device}) {
    std::vector<double> measured, at_one_pace;
    for (const auto& m : *program) {
      measured.push_back(m.score);
      at_one_pace.push_back(score_at_pace_of(m, first[10]));
    }
    EXPECT_GT(deviation(measured), 0.05);
    EXPECT_LT(deviation(at_one_pace), 0.03);
  }
}

// How often a measurement of `a` is above one of `b`.
template <class F>
double share(const std::vector<measured_score>& a, const std::vector<measured_score>& b, F&& above) {
  int count = 0;
  for (const auto& x : a)
    for (const auto& y : b)
      count += above(x, y);
  return count / static_cast<double>(a.size() * b.size());
}

TEST(ComparedScores, WhatIsFasterIsFoundMoreOften) {
  const auto by_score = [](const auto& a, const auto& b) { return a.score > b.score; };
  EXPECT_LT(share(faster_on_device, slower_on_device, by_score), 0.75);
  EXPECT_GT(share(faster_on_device, slower_on_device, is_faster), 0.95);
  EXPECT_LT(share(faster_on_device, first, by_score), 0.5);
  EXPECT_GT(share(faster_on_device, first, is_faster), 0.65);
  EXPECT_GT(share(first, slower_on_device, is_faster), 0.8);
}

TEST(ComparedScores, WithoutDeviceTimesOrAtTheSamePaceAScoreStays) {
  const measured_score with_times = of(row{3.5, 58, 17, 39, 10});
  measured_score without;
  without.score = 2;
  EXPECT_EQ(score_at_pace_of(without, with_times), 2);
  EXPECT_EQ(score_at_pace_of(with_times, without), 3.5);
  EXPECT_NEAR(score_at_pace_of(with_times, with_times), 3.5, 1e-12);
  EXPECT_EQ(score_at_pace_of(of(row{3.5, 39, 17, 40, 10}), with_times), 3.5) << "a call shorter than its device time";
  measured_score by_device = of(row{4, 90, 20, 40, 10});
  by_device.scored_by = score_clock::device;
  EXPECT_EQ(score_at_pace_of(by_device, with_times), 4) << "the host has no part in it";
  EXPECT_TRUE(is_faster(with_times, without));
  EXPECT_FALSE(is_faster(with_times, with_times));
}

// A program of many calls follows the host as the reference does.
TEST(ComparedScores, AProgramOfManyCallsFollowsTheHost) {
  const measured_score at_fast = of(row{1.2, 60, 50, 40, 34}), at_slow = of(row{1.18, 80, 68, 40, 34});
  EXPECT_NEAR(score_at_pace_of(at_fast, at_slow), 1.2 * (80. / 60) * 50 / (34 + 16 * std::pow(2, 0.8)), 1e-9);
  EXPECT_NEAR(score_at_pace_of(of(row{1.2, 60, 62, 40, 34}), at_slow), 1.2 * (80. / 60) * 62 / (34 + 28 * 2), 1e-9);
}

TEST(ComparedScores, TheMiddlePaceIsThatOfMeasurementsWithTimes) {
  measured_score without;
  without.score = 9;
  EXPECT_EQ(scores_at_one_pace(std::vector{without}), std::vector{9.});
  const std::vector all = {without, of(row{1, 90, 20, 40, 10}), of(row{1, 60, 20, 40, 10}), of(row{1, 70, 20, 40, 10})};
  const auto scores = scores_at_one_pace(all);
  EXPECT_EQ(scores[0], 9);
  EXPECT_EQ(scores[1], score_at_pace_of(all[1], all[3]));
  EXPECT_NEAR(scores[3], 1, 1e-12);
  EXPECT_LT(scores[1], 1);
  EXPECT_GT(scores[2], 1);
}

}  // namespace
}  // namespace cudal1
