// How people name devices: "cpu", "cuda:0", "cuda" (all of that kind), and lists of them, as in "cuda:0,cuda:1". Which
// kinds there are is what device_type's registry knows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/device/device_type.hpp"

namespace cudal1 {

// Whether a name means a device of that kind, or all of them: "cuda:1", "cuda".
bool is_of_kind(std::string_view name, const device_traits& kind);

// N of "cuda:N"; -1 of a name without a number.
int index_of_device(std::string_view device);

// Those that may be named, as a sentence goes on with them: "cpu, cuda:0, cuda:1, ... and cuda, which is every GPU".
std::string known_device_names();

// The names of a list, in its order, each once, checked for form. errc::invalid_argument with the name that is none.
expected<std::vector<std::string>> read_device_list(std::string_view text);

// Whether a list means this device; `device` is one name, "cpu" or "cuda:N".
bool names_device(std::string_view list, std::string_view device);

// The kind ("cpu", "cuda") of one name, or of a list whose devices are all of that kind. errc::invalid_argument.
expected<std::string> kind_of_devices(std::string_view list);

// The devices that `wanted` means: "auto" is all of the most preferred kind that this machine has. Only kinds that
// `wanted` may mean are asked for theirs, so that a broken driver hinders nobody who uses another kind.
// errc::invalid_argument for a device that is not there; or the error of who was asked.
using discovery = std::function<expected<std::vector<found_device>>(const device_type&)>;
expected<std::vector<found_device>> choose_devices(std::string_view wanted, const discovery& discover);
expected<std::vector<found_device>> find_devices(std::string_view wanted);

// The order in which devices are shown and chosen: by the preference of their kind, then by number, then by name.
bool comes_before(const std::string& a, const std::string& b);

}  // namespace cudal1
