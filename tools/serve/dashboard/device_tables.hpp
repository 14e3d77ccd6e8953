// Devices and machines as tables.
#pragma once

#include "tools/serve/dashboard/page_frame.hpp"

namespace cudal1::serve {

// Each device, and what it does now.
std::string device_part(const page_input& in);
// The machines of the cluster.
cli::data_table machine_table(const page_input& in);

}  // namespace cudal1::serve
