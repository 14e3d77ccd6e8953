// Metrics as Prometheus reads them.
#include "actors/clients/metrics_text.hpp"

#include <regex>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::HasSubstr;

message::node_metrics example() {
  message::node_metrics m;
  m.devices = {{"cuda:0", "A \"model\"\\with\na name", true, true, false}, {"cuda:1", "B", false, false, true}};
  m.machines = {{"", "present", false}, {"gpu7", "away", true}};
  m.waiting = 3;
  m.leased = 1;
  m.experiments = 2;
  m.store.verdicts = {{"correct", 12}, {"wrong_answer", 1}};
  m.store.stage_ms = {{"check", 1500}, {"time", 2500}};
  m.store.ended = {{"on_device", 1}, {"withdrawn", 4}};
  m.store.changes = 40;
  m.store.batches = 10;
  m.store.write_ms = 25;
  m.store.writable = false;
  m.store.disk = {300, 500, 200, "the quota is reached"};
  m.devices.push_back({"cuda:2", "B", false, false, false, true});
  return m;
}

TEST(metrics_text, has_every_number_with_its_labels_in_seconds) {
  const std::string text = metrics_text(example(), {1e6, 2.5, 7});
  for (const char* line : {"cudal1_verdicts_total{outcome=\"correct\"} 12\n",
                           "cudal1_verdicts_total{outcome=\"wrong_answer\"} 1\n",
                           "cudal1_stage_seconds_total{stage=\"check\"} 1.5\n",
                           "cudal1_stage_seconds_total{stage=\"time\"} 2.5\n",
                           "cudal1_attempts_without_verdict_total{how=\"withdrawn\"} 4\n",
                           "cudal1_store_changes_total 40\n",
                           "cudal1_store_batches_total 10\n",
                           "cudal1_store_write_seconds_total 0.025\n",
                           "cudal1_store_writable 0\n",
                           "cudal1_experiments_running 2\n",
                           "cudal1_evaluations_waiting 3\n",
                           "cudal1_leases 1\n",
                           "cudal1_device_ready{device=\"cuda:0\",model=\"A \\\"model\\\"\\\\with\\na name\"} 1\n",
                           "cudal1_device_measuring{device=\"cuda:1\",model=\"B\"} 0\n",
                           "cudal1_device_held{device=\"cuda:1\",model=\"B\"} 1\n",
                           "cudal1_device_reserved{device=\"cuda:1\",model=\"B\"} 0\n",
                           "cudal1_device_reserved{device=\"cuda:2\",model=\"B\"} 1\n",
                           "cudal1_data_folder_bytes 300\n",
                           "cudal1_data_folder_quota_bytes 200\n",
                           "cudal1_data_folder_has_room 0\n",
                           "cudal1_disk_free_bytes 500\n",
                           "cudal1_machine_present{machine=\"\"} 1\n",
                           "cudal1_machine_present{machine=\"gpu7\"} 0\n",
                           "cudal1_machine_draining{machine=\"gpu7\"} 1\n",
                           "cudal1_resident_bytes 1000000\n",
                           "cudal1_cpu_seconds_total 2.5\n",
                           "cudal1_threads 7\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(metrics_text, every_line_is_of_the_format_and_every_metric_has_help_and_type) {
  std::istringstream lines(metrics_text(example(), metrics_of_this_process()));
  const std::regex help(R"(# HELP (cudal1_[a-z_]+) .+)"), type(R"(# TYPE (cudal1_[a-z_]+) (counter|gauge))");
  const std::regex sample(R"((cudal1_[a-z_]+)(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? [-+.e0-9]+)");
  std::string line, helped, typed;
  std::smatch found;
  int samples = 0;
  while (std::getline(lines, line)) {
    if (std::regex_match(line, found, help)) {
      helped = found[1];
    } else if (std::regex_match(line, found, type)) {
      typed = found[1];
      EXPECT_EQ(typed, helped);
      EXPECT_EQ(typed.ends_with("_total"), found[2] == "counter") << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
      EXPECT_EQ(found[1], typed);
      ++samples;
    }
  }
  EXPECT_EQ(samples, 36);
}

TEST(metrics_text, those_of_this_process_are_read) {
  const auto m = metrics_of_this_process();
  EXPECT_GT(m.resident_bytes, 1e6);
  EXPECT_GE(m.threads, 1);
}

}  // namespace
}  // namespace cudal1
