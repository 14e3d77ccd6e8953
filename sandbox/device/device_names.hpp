// Names of devices: "cpu", "cuda:0", "cuda" (all of that kind), and lists of them, as in "cuda:0,cuda:1". The kinds are
// those in device_type's registry. A device of another machine of a cluster has that machine's name before it:
// "b/cuda:0", and "b/cuda" is all that b has.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "config/base/machine_name.hpp"
#include "sandbox/device/device_type.hpp"

namespace cudal1 {

// Whether a name denotes a device of that kind, or all of them: "cuda:1", "cuda".
bool is_of_kind(std::string_view name, const device_traits& kind);

// N of "cuda:N"; -1 for a name without a number.
int index_of_device(std::string_view device);

// "b" of "b/cuda:0", and "" of "cuda:0"; "cuda:0" of both.
std::string machine_of(std::string_view device);
std::string name_on_machine(std::string_view device);
// The reverse; `machine` may be "".
std::string device_on(std::string_view machine, std::string_view name);

// All legal names, as part of a sentence: "cpu, cuda:0, cuda:1, ... and cuda, which is every GPU".
std::string known_device_names();

// The names of a list, in its order, without duplicates, checked for form. errc::invalid_argument with the invalid
// name.
expected<std::vector<std::string>> read_device_list(std::string_view text);

// Whether a list includes this device; `device` is one name, "cpu" or "cuda:N". A kind without a machine, as in "cuda",
// includes those of all machines.
bool names_device(std::string_view list, std::string_view device);

// The kind ("cpu", "cuda") of one name, or of a list whose devices are all of that kind. errc::invalid_argument.
expected<std::string> kind_of_devices(std::string_view list);

// The devices that `wanted` denotes: "auto" is all of the most preferred kind that this machine has. Only the kinds in
// `wanted` are discovered, so that a broken driver does not affect users of another kind. errc::invalid_argument for a
// device that this machine does not have; or the error of the discovery.
using discovery = std::function<expected<std::vector<found_device>>(const device_type&)>;
expected<std::vector<found_device>> choose_devices(std::string_view wanted, const discovery& discover);
expected<std::vector<found_device>> find_devices(std::string_view wanted);

// The order in which devices are listed and chosen: by the preference of their kind, then by number, then by name.
bool comes_before(const std::string& a, const std::string& b);

}  // namespace cudal1
