// Which CPU cores are close to a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// Parses a list of cores as Linux writes it, "0-3,8,10-11"; stops at the first invalid entry.
std::vector<int> read_core_list(std::string_view text);
// The reverse; `cores` must be ascending.
std::string format_core_list(const std::vector<int>& cores);
// The cores near the device at a PCI address as NVML writes it ("00000000:19:00.0"); empty if unknown.
std::vector<int> cores_near(const std::string& pci_bus);

}  // namespace cudal1
