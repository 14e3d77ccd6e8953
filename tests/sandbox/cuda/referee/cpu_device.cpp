#include "tests/sandbox/cuda/referee/cpu_device.hpp"

#include <stdexcept>

#include <ATen/Parallel.h>

#include "sandbox/cuda/referee/comparison_kernels.hpp"
#include "sandbox/isolation/shared_memory.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

class cpu_device final : public referee_device {
 public:
  explicit cpu_device(int64_t room) : room_(room) {
    at::set_num_threads(1);  // runners are forked off this process
  }

  at::Device where() const override { return at::kCPU; }

  expected<void> launch(const std::string& kernel, unsigned blocks, void** arguments) override {
    static kernels compiled{std::string(referee_kernel_text())};
    CUDAL1_TRY(const auto* const found, compiled.library().find(kernel));
    compiled.library().launch({found, {blocks, 1, 1}, {referee_kernel_threads, 1, 1}}, arguments, 1);
    return {};
  }

  expected<void> synchronise() override { return {}; }
  expected<device_room> room() override { return device_room{int64_t{1} << 30, int64_t{1} << 30}; }
  void give_back() override {}

  expected<device_memory> make_memory(int64_t bytes, memory_access access) override {
    if (bytes > room_ - *taken_) return fail(errc::out_of_memory, "the CPU has no room for {} bytes more", bytes);
    device_memory made;
    made.bytes = bytes;
    CUDAL1_TRY(made.file, make_shared_memory("cudal1-device", bytes));
    CUDAL1_TRY(auto mapped, map_shared(made.file.get(), bytes, access));
    made.data = mapped.data();
    *taken_ += bytes;
    made.mapped = std::shared_ptr<mapping>(new mapping(std::move(mapped)), [taken = taken_, bytes](mapping* m) {
      *taken -= bytes;
      delete m;
    });
    return made;
  }

 private:
  int64_t room_;
  std::shared_ptr<int64_t> taken_ = std::make_shared<int64_t>(0);
};

}  // namespace

std::unique_ptr<referee_device> make_cpu_device(int64_t room) {
  return std::make_unique<cpu_device>(room);
}

task add_relu_task(int64_t n, const std::string& more) {
  const std::string shape = "\"dtype\":\"float32\",\"shape\":[" + std::to_string(n) + "]";
  auto t = read_task(
      "{\"format\":1,\"name\":\"add_relu\",\"summary\":\"\",\"family\":\"test\",\"inputs\":[{\"name\":"
      "\"x\"," +
          shape + more + "}],\"weights\":[{\"name\":\"w\"," + shape +
          "}],\"steps\":[{\"aten\":\"aten::add.Tensor\",\"args\":{\"self\":\"x\",\"other\":\"w\"},"
          "\"out\":[\"s\"]},{\"aten\":\"aten::relu\",\"args\":{\"self\":\"s\"},\"out\":[\"y\"]}],"
          "\"outputs\":[\"y\"]}",
      "cuda");
  if (!t) throw std::runtime_error(t.error().message);
  return std::move(*t);
}

}  // namespace cudal1::test
