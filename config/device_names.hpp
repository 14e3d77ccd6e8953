// How people name devices: "cpu", "cuda:0", "cuda" (every GPU), and lists of them, as in "cuda:0,cuda:1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// The names of a list, in its order, each once, checked for form: "cpu", "cuda" and "cuda:N". errc::invalid_argument
// with the name that is none.
expected<std::vector<std::string>> read_device_list(std::string_view text);

// Whether a list means this device; `device` is one name, "cpu" or "cuda:N".
bool names_device(std::string_view list, std::string_view device);

// "cpu" or "cuda": of one name, or of a list whose devices are all of that kind. errc::invalid_argument.
expected<std::string> kind_of_devices(std::string_view list);

// The devices that `wanted` means where there are `gpus` GPUs: "auto" is every GPU, and cpu where there is none; "cuda"
// is every GPU. errc::invalid_argument for a GPU that is not there.
expected<std::vector<std::string>> choose_device_names(std::string_view wanted, int gpus);

// N of "cuda:N"; -1 of "cpu" and "cuda".
int index_of_gpu(std::string_view device);

}  // namespace cudal1
