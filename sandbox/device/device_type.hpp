// The interface of one kind of device to the rest of the program: which devices of the kind this machine has, how they
// are configured, their compiler, and the session that runs variants on one. `cpu` and `cuda` register themselves
// (device_registration); find_device_type() finds a kind by a device's name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/device/session.hpp"

namespace cudal1 {

// A device that this machine has.
struct found_device {
  std::string name;                  // "cpu", "cuda:0"
  std::string architecture;          // for which programs are compiled: "cpu", "sm_90a"
  std::string model = {};            // reported by its driver; "" if it is known only to a session
  std::vector<int> near_cores = {};  // CPU cores close to it; empty if unknown
  int64_t memory_bytes = 0;          // its own memory; 0 if it has none
  std::string details = {};          // further text for `doctor`: "driver 580.65, PCI 00000000:19:00.0"
};

// Properties common to all devices of a kind.
struct device_traits {
  std::string kind;              // "cpu", "cuda": in lists of devices it denotes all of the kind
  bool numbered = false;         // its devices are KIND:0, KIND:1, ...; else there is one, KIND
  std::string noun;              // for one device, in messages: "cpu", "GPU"
  int preference = 0;            // by default, a machine uses all devices of the kind with the highest preference
  std::string target;            // the lowering target of its programs, by name
  std::string profile;           // of the task sizes for this kind
  std::string worker;            // the executable of its processes
  bool is_accelerator = false;   // has a device clock, published peak rates (floors) and graphs
  int compiled_ahead = 0;        // variants to compile in advance for each device, if there are enough compiler
                                 // workers: as many as are evaluated during one compilation
  std::string remark = {};       // for readers of its timings
  std::string visibility = {};   // the environment variable that hides some of its devices
  std::string when_absent = {};  // advice if the machine has none
  std::string when_broken = {};  // advice if they cannot be listed
  std::string replays = {};      // the kind whose stored verdicts it answers with; "" if it measures. Such a kind is
                                 // used only by name
};

// The CPU cores that a device needs for its timed calls.
struct core_request {
  std::string device;
  int64_t count = 1;           // cores reserved for it
  int64_t least = 1;           // enough if otherwise less than half of the cores would remain for the rest
  std::vector<int> near = {};  // preferred cores; empty if all are equal
  int64_t fixed_core = -1;     // use this core, unless -1
};

struct compiler_setup {
  std::string architecture;
  compiler_options options = {};
  std::string cache_folder = {};  // "": no cache
  std::string worker = {};        // path of cudal1-worker; "": in the folder of this program
  int processes = 1;              // concurrent compilations
  bool allow_weak_confinement = false;
};

// Stateless and thread-safe.
class device_type {
 public:
  virtual ~device_type() = default;
  virtual const device_traits& traits() const = 0;

  // The devices of this kind, in order; empty if the machine has none. Does not initialise devices.
  // errc::infrastructure, errc::unsupported.
  virtual expected<std::vector<found_device>> discover() const = 0;
  // Sets the defaults of this kind that differ from those of `configuration`.
  virtual void set_defaults(configuration&) const {}
  // Called after all layers of the configuration: keys specific to this kind override general ones.
  virtual void apply_own_settings(configuration&) const {}
  // The most memory that the tensors of one program can have there; a variant that needs more is not sent to it.
  virtual int64_t tensor_bytes(const found_device& device, const configuration& settings) const;
  virtual core_request cores_for(const found_device& device, const device_options& options) const = 0;
  virtual expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup& setup) const = 0;
  // Starts the zygote and the referee, and runs the self-test. errc::refused if a required confinement is not in force,
  // unless the options allow that.
  virtual expected<std::unique_ptr<device_session>> start_session(const session_options& options) const = 0;
};

// Registers a kind of device for the lifetime of this object: usually a global in the kind's source file.
class device_registration {
 public:
  explicit device_registration(std::unique_ptr<device_type> type);
  ~device_registration();
  device_registration(const device_registration&) = delete;
  device_registration& operator=(const device_registration&) = delete;

 private:
  const device_type* type_;
};

// All registered types, most preferred first.
std::vector<const device_type*> device_types();
// The type of a device or of a kind ("cuda:1", "cuda"); null if it is not registered.
const device_type* find_device_type(std::string_view device);
// Its traits; default traits if it is not registered.
const device_traits& traits_of(std::string_view device);
// The most preferred kind that this machine has.
const device_type& preferred_device_type();

// The defaults for a device or a kind; those of `configuration` if the kind is not registered.
configuration default_configuration(std::string_view device);

}  // namespace cudal1
