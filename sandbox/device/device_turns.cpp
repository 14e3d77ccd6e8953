#include "sandbox/device/device_turns.hpp"

#include <future>
#include <utility>

namespace cudal1 {

device_turns::turn::turn(turn&& other) noexcept
    : table_(std::exchange(other.table_, nullptr)), device_(std::move(other.device_)) {}

device_turns::turn& device_turns::turn::operator=(turn&& other) noexcept {
  if (this == &other) return *this;
  end();
  table_ = std::exchange(other.table_, nullptr);
  device_ = std::move(other.device_);
  return *this;
}

void device_turns::turn::end() {
  const auto of = std::exchange(table_, nullptr);
  if (!of) return;
  begin_turn next;
  {
    const std::lock_guard lock(of->mutex);
    const auto entry = of->taken.find(device_);
    if (entry->second.empty()) {
      of->taken.erase(entry);
      return;
    }
    next = std::move(entry->second.front());
    entry->second.pop_front();
  }
  next(turn(of, device_));
}

device_turns::device_turns() : table_(std::make_shared<table>()) {}

void device_turns::ask(const std::string& device, begin_turn begin) {
  {
    const std::lock_guard lock(table_->mutex);
    const auto [entry, is_free] = table_->taken.try_emplace(device);
    if (!is_free) {
      entry->second.push_back(std::move(begin));
      return;
    }
  }
  begin(turn(table_, device));
}

device_turns::turn device_turns::wait_for(const std::string& device) {
  const auto given = std::make_shared<std::promise<turn>>();
  auto turn_of_device = given->get_future();
  ask(device, [given](turn t) { given->set_value(std::move(t)); });
  return turn_of_device.get();
}

bool device_turns::is_awaited(const std::string& device) const {
  const std::lock_guard lock(table_->mutex);
  const auto entry = table_->taken.find(device);
  return entry != table_->taken.end() && !entry->second.empty();
}

}  // namespace cudal1
