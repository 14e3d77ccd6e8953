// Keeps the data folder of a coordinator under its quota, and prunes old records once a day.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "actors/coordinator/data_usage.hpp"
#include "actors/messages/interfaces.hpp"
#include "config/configuration.hpp"

namespace cudal1 {

struct housekeeper_setup {
  std::string data;
  operation_options options;
  store_actor records;
  std::shared_ptr<store> db;  // the same store, to compact it
  coordinator_actor node;
};

class housekeeper_state {
 public:
  static constexpr const char* name = "housekeeper";

  void begin(housekeeper_actor::pointer self, housekeeper_setup setup);
  void tick();

 private:
  using clock = std::chrono::steady_clock;

  void watch_space();
  // Frees what can be made again; compacts, unless that was tried lately.
  void make_room(message::disk_usage& now);
  void compact();
  void prune();
  void prune_step(const message::prune_store& step, prune_report so_far);

  housekeeper_actor::pointer self_ = nullptr;
  housekeeper_setup setup_;
  std::optional<data_usage> usage_;
  std::string problem_;
  std::optional<clock::time_point> compacted_, pruned_;
};

// To be spawned detached.
housekeeper_actor::behavior_type run_housekeeper(housekeeper_actor::stateful_pointer<housekeeper_state> self,
                                                 const housekeeper_setup& setup);

}  // namespace cudal1
