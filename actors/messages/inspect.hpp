// Serialization of records and messages for CAF. Not used within one process: there messages are shared, not copied.
//
// Records (verdict, check_report, ...) are sent as JSON text, since CAF 0.17 does not support std::optional; unknown
// enum values are refused on arrival. Messages (namespace cudal1::message) are sent member by member. Tasks, programs
// and code are in a `shared_value`: a pointer within a process; between processes the canonical text, which is read and
// checked again.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <caf/all.hpp>

#include "actors/messages/caf_layer.hpp"
#include "actors/messages/shared_value.hpp"
#include "config/base/describe.hpp"
#include "sandbox/program/check.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

namespace detail {
// How a value is written for another process, and read: wire.hpp defines it, which only interfaces.cpp includes. CAF
// instantiates what it calls in every file that sends a message, and this is most of what a compiler would do there.
template <class T>
struct text_wire {  // as JSON text
  static caf::error save(caf::serializer& to, T& x);
  static caf::error load(caf::deserializer& from, T& x);
};
template <class T>
struct member_wire {  // member by member
  static caf::error save(caf::serializer& to, T& x);
  static caf::error load(caf::deserializer& from, T& x);
};

// CAF's third inspector, which makes text for its own log, finds nothing here and writes "<unprintable>".
template <class Inspector>
concept wire_inspector = std::is_same_v<Inspector, caf::serializer> || std::is_same_v<Inspector, caf::deserializer>;

template <class Wire, wire_inspector Inspector, class T>
caf::error transfer(Inspector& f, T& x) {
  if constexpr (Inspector::reads_state)
    return Wire::save(f, x);
  else
    return Wire::load(f, x);
}
}  // namespace detail

template <detail::wire_inspector Inspector, described_struct T>
caf::error inspect(Inspector& f, T& x) {
  return detail::transfer<detail::text_wire<T>>(f, x);
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

namespace detail {
// Code is bytes, not text: it is sent member by member.
struct code_wire {
  static caf::error save(caf::serializer& to, const shared_code& x);
  static caf::error load(caf::deserializer& from, shared_code& x);
};
}  // namespace detail

template <detail::wire_inspector Inspector, class T>
caf::error inspect(Inspector& f, shared_value<T>& x) {
  return detail::transfer<detail::text_wire<shared_value<T>>>(f, x);
}
template <detail::wire_inspector Inspector>
caf::error inspect(Inspector& f, shared_code& x) {
  return detail::transfer<detail::code_wire>(f, x);
}

namespace message {

// Messages are described structs of this namespace.
template <detail::wire_inspector Inspector, described_struct T>
caf::error inspect(Inspector& f, T& x) {
  return detail::transfer<detail::member_wire<T>>(f, x);
}

}  // namespace message

}  // namespace cudal1
