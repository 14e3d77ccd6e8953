// Memory of this process, and properties of this machine.
#pragma once

#include <cstdint>
#include <string>

namespace cudal1 {

int64_t private_memory_bytes();      // of this process now, as RLIMIT_DATA counts it
int64_t physical_memory_bytes();     // of the machine
int64_t last_level_cache_bytes();    // 32 MiB if the system does not report it
std::string processor_model();       // "AMD EPYC 7xx3"
std::string processor_flags_hash();  // of its instruction-set flags
std::string frequency_governor();    // "" if it cannot be read
std::string kernel_release();

}  // namespace cudal1
