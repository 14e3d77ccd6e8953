// Requests of a client that holds a device, or for which the node holds it: PyTorch is measured there, or a task is
// compared with its model.
#include <utility>

#include "actors/clients/client_connection.hpp"
#include "store/compared_tasks.hpp"

namespace cudal1 {

namespace {

using namespace std::chrono_literals;

constexpr auto result_interval = 100ms;
// For a comparison: of a device that another client holds.
constexpr std::chrono::milliseconds held_limit = 10min, held_interval = 250ms;

}  // namespace

bool client_connection::hold(const client_request& r) {
  if (hold_ != 0) return refuse({errc::already_exists, "this client holds a device already"});
  auto held = ask_node<device_hold>(message::hold_device{r.device});
  if (!held) return refuse(held.error());
  hold_ = held->number;
  auto a = last_answer();
  a.hold = std::move(*held);
  return send(a);
}

bool client_connection::measure_baseline(const client_request& r) {
  if (!r.wanted) return refuse({errc::invalid_argument, "measure_baseline needs a request"});
  if (r.wanted->compares) return refuse({errc::invalid_argument, "`compare` compares a task with its model"});
  auto begun = ask_node<message::done>(message::begin_baseline{hold_, r.task, *r.wanted});
  if (!begun) return refuse(begun.error());
  auto times = await_baseline();
  if (!times) return times.error().code != errc::cancelled && refuse(times.error());
  auto a = last_answer();
  a.times = std::move(*times);
  return send(a);
}

expected<baseline_times> client_connection::await_baseline() {
  for (;;) {
    CUDAL1_TRY(auto now, ask_node<message::baseline_answer>(message::baseline_query{hold_}));
    if (now.ended) return std::move(now.times);
    CUDAL1_CHECK(rest(result_interval));
  }
}

expected<void> client_connection::rest(std::chrono::milliseconds time) {
  switch (wait(time)) {
    case wake::time:
      return {};
    case wake::stop:
      refuse({errc::infrastructure, "the node is ending; run the same command again"});
      return fail(errc::cancelled, "the node is ending");
    case wake::line:
      refuse({errc::invalid_argument, "while PyTorch is measured, no other request is allowed"});
      return fail(errc::cancelled, "it broke the protocol");
    case wake::gone:
      break;
  }
  return fail(errc::cancelled, "the client is gone");
}

// Another client may have had the task compared, and may search it there, while this one waited for the device.
expected<bool> client_connection::hold_for_comparison(const task& t, const std::string& device) {
  const auto end = std::chrono::steady_clock::now() + held_limit;
  for (;;) {
    auto held = ask_node<device_hold>(message::hold_device{device, true});
    if (held) hold_ = held->number;
    CUDAL1_TRY(const bool known, was_compared(*server_.setup_.db, t));
    if (held || known) return !known;
    if (held.error().code == errc::cancelled) return fail(errc::infrastructure, "{}", held.error().message);
    if (held.error().code != errc::already_exists || std::chrono::steady_clock::now() > end)
      return tl::unexpected<error>(std::move(held).error());
    CUDAL1_CHECK(rest(held_interval));
  }
}

expected<std::optional<task_comparison>> client_connection::compare_on_device(const client_request& r) {
  CUDAL1_TRY(const task t, read_task(r.task, ""));  // all its sizes are numbers
  CUDAL1_TRY(const bool held, hold_for_comparison(t, r.device));
  if (!held) return std::optional<task_comparison>();
  baseline_request wanted;
  wanted.compares = true;
  wanted.of_remote_client = remote_.has_value();
  CUDAL1_CHECK(ask_node<message::done>(message::begin_baseline{hold_, r.task, wanted}));
  CUDAL1_TRY(auto times, await_baseline());
  if (!times.comparison)
    return fail(errc::unsupported, "the cudal1-node that has {} is an older one, which compares nothing", r.device);
  return std::move(times.comparison);
}

bool client_connection::compare(const client_request& r) {
  if (hold_ != 0) return refuse({errc::already_exists, "this client holds a device already"});
  auto found = compare_on_device(r);
  if (!found && found.error().code == errc::cancelled) return false;
  if (hold_ != 0)
    if (auto released = ask_node<message::done>(message::release_device{std::exchange(hold_, 0)}); !released)
      return refuse(released.error());
  if (!found) return refuse(found.error());
  auto a = last_answer();
  a.comparison = std::move(*found);
  return send(a);
}

bool client_connection::keep_baseline(const client_request& r) {
  if (!r.baseline) return refuse({errc::invalid_argument, "keep_baseline needs a baseline"});
  return finished(ask_node<message::done>(message::keep_baseline{hold_, r.task, *r.baseline}, 2min));
}

}  // namespace cudal1
