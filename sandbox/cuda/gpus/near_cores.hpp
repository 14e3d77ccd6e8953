// Which CPU cores are close to a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cudal1 {

// The cores of a list as Linux writes them, "0-3,8,10-11"; what cannot be read ends it.
std::vector<int> read_core_list(std::string_view text);
// And the other way round; `cores` ascending.
std::string format_core_list(const std::vector<int>& cores);
// Of the device at a PCI address as NVML writes it ("00000000:19:00.0"); empty where the system does not say.
std::vector<int> cores_near(const std::string& pci_bus);

}  // namespace cudal1
