#include <cstdlib>

#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/cuda/gpus/near_cores.hpp"
#include "sandbox/cuda/gpus/nvml.hpp"
#include "sandbox/cuda/gpus/visible_devices.hpp"

namespace cudal1 {

namespace {

// Reads a text that NVML writes into a buffer.
template <class Call>
expected<std::string> text_of(const nvml& library, const std::string& what, Call call) {
  char text[256] = {};
  CUDAL1_CHECK(library.check(call(text, static_cast<unsigned>(sizeof text - 1)), what));
  return std::string(text);
}

expected<gpu_description> describe(const nvml& library, unsigned index) {
  const auto what = [&](const char* property) { return fmt::format("{} of GPU {}", property, index); };
  nvml_device device = nullptr;
  CUDAL1_CHECK(library.check(library.by_index(index, &device), fmt::format("a handle of GPU {}", index)));
  gpu_description g;
  g.index = static_cast<int>(index);
  CUDAL1_TRY(g.uuid,
             text_of(library, what("the uuid"), [&](char* t, unsigned n) { return library.uuid(device, t, n); }));
  CUDAL1_TRY(g.name,
             text_of(library, what("the name"), [&](char* t, unsigned n) { return library.name(device, t, n); }));
  nvml_pci_info pci = {};
  CUDAL1_CHECK(library.check(library.pci_info(device, &pci), what("the address")));
  pci.bus_id[sizeof pci.bus_id - 1] = '\0';
  g.pci_bus = pci.bus_id;
  nvml_memory memory = {};
  CUDAL1_CHECK(library.check(library.memory(device, &memory), what("the memory")));
  g.memory_bytes = static_cast<int64_t>(memory.total);
  CUDAL1_CHECK(library.check(library.compute_capability(device, &g.major, &g.minor), what("the compute capability")));
  g.near_cores = cores_near(g.pci_bus);
  return g;
}

}  // namespace

std::string gpu_description::architecture() const {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

expected<std::vector<gpu_description>> find_gpus() {
  CUDAL1_TRY(const auto library, nvml::open());
  std::vector<gpu_description> all;
  if (!library) return all;
  unsigned count = 0;
  CUDAL1_CHECK(library->check(library->count(&count), "the number of GPUs"));
  CUDAL1_TRY(const auto driver, text_of(*library, "its version", library->driver_version));
  for (unsigned i = 0; i < count; ++i) {
    CUDAL1_TRY(auto g, describe(*library, i));
    g.driver = driver;
    all.push_back(std::move(g));
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return all;
  return visible_gpus(std::move(all), visible);
}

}  // namespace cudal1
