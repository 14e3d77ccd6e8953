// Reads parts of blobs, for agents on other machines.
#pragma once

#include "actors/messages/interfaces.hpp"
#include "store/blobs.hpp"

namespace cudal1 {

struct blob_reader_state {
  static constexpr const char* name = "blob reader";
  blobs kept{""};

  expected<message::blob_part> read(const message::read_blob& m) const;
};

// To be spawned detached.
blob_reader_actor::behavior_type run_blob_reader(blob_reader_actor::stateful_pointer<blob_reader_state> self,
                                                 const blobs& kept);

}  // namespace cudal1
