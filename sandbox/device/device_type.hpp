// One kind of device, as everything outside of its own folder knows it: which devices of the kind this machine has, how
// they are configured, what compiles for them, and the session that runs variants on one. `cpu` and `cuda` register
// themselves (device_registration); who needs one finds it by a device's name.
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
  std::string architecture;          // that programs are compiled for: "cpu", "sm_90a"
  std::string model = {};            // as its driver names it; "" where only a session tells
  std::vector<int> near_cores = {};  // CPU cores close to it; empty where the system does not say
  int64_t memory_bytes = 0;          // its own; 0 where it has none
  std::string details = {};          // what else `doctor` says of it: "driver 580.65, PCI 00000000:19:00.0"
};

// What is the same for all devices of a kind.
struct device_traits {
  std::string kind;              // "cpu", "cuda": in lists of devices it means all of the kind
  bool numbered = false;         // its devices are KIND:0, KIND:1, ...; else there is one, KIND
  std::string noun;              // one of them in messages: "cpu", "GPU"
  int preference = 0;            // unless told otherwise, a machine uses all devices of the kind that has most
  std::string target;            // the lowering target of its programs, by name
  std::string profile;           // which of a task's sizes are meant for it
  std::string worker;            // the program that its processes are
  bool is_accelerator = false;   // beside the host: a clock of its own, published peak rates (floors), graphs
  int compiled_ahead = 0;        // variants to have ready for each device, as far as the compilers' workers go: as many
                                 // as are evaluated while one is compiled
  std::string remark = {};       // what a reader of its timings should know
  std::string visibility = {};   // the environment variable that hides some of its devices
  std::string when_absent = {};  // advice where the machine has none
  std::string when_broken = {};  // advice where they cannot be listed
};

// The CPU cores that a device wants for what is timed.
struct core_request {
  std::string device;
  int64_t count = 1;           // of its own
  int64_t least = 1;           // what it is content with where the rest would have less than half otherwise
  std::vector<int> near = {};  // taken first; empty where all are the same
  int64_t fixed_core = -1;     // this one, where it is not -1
};

struct compiler_setup {
  std::string architecture;
  compiler_options options = {};
  std::string cache_folder = {};  // "" keeps no cache
  std::string worker = {};        // path of cudal1-worker; "" finds it beside this program
  int processes = 1;              // compilations at a time
  bool allow_weak_confinement = false;
};

// Stateless and thread-safe.
class device_type {
 public:
  virtual ~device_type() = default;
  virtual const device_traits& traits() const = 0;

  // In their order; empty where the machine has none. Touches no device. errc::infrastructure, errc::unsupported.
  virtual expected<std::vector<found_device>> discover() const = 0;
  // Where this kind wants other defaults than those of `configuration`.
  virtual void set_defaults(configuration&) const {}
  // After all layers of the configuration: keys of this kind's own take the place of general ones.
  virtual void apply_own_settings(configuration&) const {}
  virtual core_request cores_for(const found_device& device, const device_options& options) const = 0;
  virtual expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup& setup) const = 0;
  // Starts the zygote and the referee, and runs the self-test. errc::refused where a required confinement is not in
  // force and the options do not insist.
  virtual expected<std::unique_ptr<device_session>> start_session(const session_options& options) const = 0;
};

// Makes a kind of device known for as long as this object lives: as a global of the kind's own file, before main().
class device_registration {
 public:
  explicit device_registration(std::unique_ptr<device_type> type);
  ~device_registration();
  device_registration(const device_registration&) = delete;
  device_registration& operator=(const device_registration&) = delete;

 private:
  const device_type* type_;
};

// All that are registered, the most preferred first.
std::vector<const device_type*> device_types();
// That of a device or of a kind ("cuda:1", "cuda"); null where none is registered.
const device_type* find_device_type(std::string_view device);
// Its traits; those of a device without a name, target and specifications where none is registered.
const device_traits& traits_of(std::string_view device);
// The most preferred kind of which this machine has a device.
const device_type& preferred_device_type();

// The defaults for a device or a kind; those of `configuration` where none of that kind is registered.
configuration default_configuration(std::string_view device);

}  // namespace cudal1
