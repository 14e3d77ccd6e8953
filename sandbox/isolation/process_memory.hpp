// Figures of this process and this machine.
#pragma once

#include <cstdint>
#include <string>

namespace cudal1 {

int64_t private_memory_bytes();      // what RLIMIT_DATA counts of this process now
int64_t physical_memory_bytes();     // of the machine
int64_t last_level_cache_bytes();    // 32 MiB where the system does not say
std::string processor_model();       // "AMD EPYC 7xx3"
std::string processor_flags_hash();  // of the instruction sets that it has
std::string frequency_governor();    // "" where it is not to be read
std::string kernel_release();

}  // namespace cudal1
