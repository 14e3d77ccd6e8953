#include "store/replay/replay_compiler.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace cudal1 {
namespace {

class replay_compiler final : public kernel_compiler {
 public:
  explicit replay_compiler(std::shared_ptr<replay_source> source) : source_(std::move(source)) {}

  expected<compiled_code> compile(const checked_program& p, double seconds) override {
    compiled_code code;
    if (!(source_->options().latency > 0)) return code;
    const auto stored = source_->draw("", p.id);
    if (!stored && stored.error().code != errc::not_found) return tl::unexpected<error>(stored.error());
    if (!stored || !stored->stage_ms.contains("compile")) return code;
    code.compile_ms = std::min(stored->stage_ms.at("compile"), 1e3 * seconds);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(code.compile_ms));
    return code;
  }

  std::string describe() const override { return "none: replayed from " + source_->describe(); }

 private:
  std::shared_ptr<replay_source> source_;
};

}  // namespace

std::shared_ptr<kernel_compiler> make_replay_compiler(std::shared_ptr<replay_source> source) {
  return std::make_shared<replay_compiler>(std::move(source));
}

}  // namespace cudal1
