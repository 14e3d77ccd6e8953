// Serialization of records and messages for CAF. Not used within one process: there messages are shared, not copied.
//
// Records (verdict, check_report, ...) are sent as JSON text, since CAF 0.17 does not support std::optional; unknown
// enum values are refused on arrival. Messages (namespace cudal1::message) are sent member by member. Tasks, programs
// and code are in a `shared_value`: a pointer within a process; between processes the canonical text, which is read and
// checked again.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <caf/all.hpp>

#include "actors/caf_layer.hpp"
#include "config/base/describe.hpp"
#include "sandbox/device/compiler.hpp"
#include "sandbox/program/check.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

namespace detail {
// Writes `text`, or reads it and passes it to `read`, which returns an expected<void>.
template <class Inspector, class Read>
typename Inspector::result_type inspect_text(Inspector& f, std::string text, Read read) {
  if constexpr (Inspector::reads_state) {
    return f(text);
  } else {
    return f(text, caf::meta::load_callback([&]() -> caf::error {
               auto done = read(text);
               return done ? caf::error{} : to_caf(std::move(done).error());
             }));
  }
}

// Every described member of `x`, then `rest`.
template <class Inspector, class T, class... Rest>
typename Inspector::result_type inspect_members(Inspector& f, T& x, Rest&&... rest) {
  using members = boost::describe::describe_members<T, boost::describe::mod_public>;
  return boost::mp11::tuple_apply([&](auto... d) { return f((x.*d.pointer)..., std::forward<Rest>(rest)...); },
                                  boost::mp11::mp_rename<members, std::tuple>{});
}
}  // namespace detail

template <class Inspector, described_struct T>
typename Inspector::result_type inspect(Inspector& f, T& x) {
  std::string text;
  if constexpr (Inspector::reads_state) text = to_text(x);
  return detail::inspect_text(f, std::move(text), [&](const std::string& got) -> expected<void> {
    CUDAL1_TRY(x, from_text<T>(got));
    return {};
  });
}

// ---- shared values ------------------------------------------------------------------------------------------------

inline std::string wire_text(const task& t) {
  return canonical_text(t);
}
inline expected<task> from_wire(const std::string& text, const task*) {
  return read_task(text, "cpu");  // a canonical text has one profile: the argument has no effect
}
inline std::string wire_text(const checked_program& p) {
  return print_program(p.text);
}
inline expected<checked_program> from_wire(const std::string& text, const checked_program*) {
  return check_program_text(text);
}

// Immutable and shared; never null once filled. `sent_as`: its wire_text, where it is known already: a program is sent
// to a compiler and to a device, and would be printed for each.
template <class T>
struct shared_value {
  std::shared_ptr<const T> value;
  std::shared_ptr<const std::string> sent_as;
  shared_value() = default;
  explicit shared_value(T v) : value(std::make_shared<const T>(std::move(v))) {}
  shared_value(T v, std::string text)
      : value(std::make_shared<const T>(std::move(v))), sent_as(std::make_shared<const std::string>(std::move(text))) {}
  const T& operator*() const { return *value; }
  const T* operator->() const { return value.get(); }
  explicit operator bool() const { return value != nullptr; }
};
using shared_task = shared_value<task>;
using shared_program = shared_value<checked_program>;
using shared_code = shared_value<compiled_code>;

template <class Inspector, class T>
typename Inspector::result_type inspect(Inspector& f, shared_value<T>& x) {
  std::string text;
  if constexpr (Inspector::reads_state) {
    if (x.value) text = x.sent_as ? *x.sent_as : wire_text(*x.value);
  }
  return detail::inspect_text(f, std::move(text), [&](const std::string& got) -> expected<void> {
    x = {};
    if (got.empty()) return {};
    CUDAL1_TRY(T read, from_wire(got, static_cast<const T*>(nullptr)));
    x = shared_value<T>(std::move(read));
    return {};
  });
}

// Code is bytes, not text: it is sent member by member.
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, shared_code& x) {
  bool filled = x.value != nullptr;
  compiled_code code;
  if constexpr (Inspector::reads_state) {
    if (filled) code = *x.value;
    return detail::inspect_members(f, code, filled);
  } else {
    return detail::inspect_members(f, code, filled, caf::meta::load_callback([&]() -> caf::error {
                                     x = filled ? shared_code(std::move(code)) : shared_code();
                                     return {};
                                   }));
  }
}

namespace message {

// Messages are described structs of this namespace.
template <class Inspector, described_struct T>
typename Inspector::result_type inspect(Inspector& f, T& x) {
  return detail::inspect_members(f, x);
}

}  // namespace message

}  // namespace cudal1
