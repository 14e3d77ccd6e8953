// Defines what inspect.hpp declares, for interfaces.cpp alone. [[gnu::used]] keeps each function there for the other
// files, whether it was inlined or not.
#pragma once

#include <string>
#include <utility>

#include <boost/describe.hpp>
#include <boost/mp11.hpp>

#include "actors/messages/inspect.hpp"
#include "config/base/describe.hpp"

namespace cudal1::detail {

// One member, unless one before it failed. A function of its own for each type of member, not for each member.
template <class Inspector, class Member>
[[gnu::noinline]] void transfer_member(Inspector& f, Member& member, caf::error& failed) {
  if (!failed) failed = f.apply(member);
}

template <class Inspector, class T>
caf::error transfer_members(Inspector& f, T& x) {
  caf::error failed;
  boost::mp11::mp_for_each<boost::describe::describe_members<T, boost::describe::mod_public>>(
      [&](auto d) { transfer_member(f, x.*d.pointer, failed); });
  return failed;
}

template <class T>
struct text_of {
  static std::string write(const T& x) { return to_text(x); }
  static expected<T> read(const std::string& text) { return from_text<T>(text); }
};
template <class T>
struct text_of<shared_value<T>> {
  static std::string write(const shared_value<T>& x) {
    if (!x.value) return {};
    return x.sent_as ? *x.sent_as : wire_text(*x.value);
  }
  static expected<shared_value<T>> read(const std::string& text) {
    if (text.empty()) return shared_value<T>();
    CUDAL1_TRY(T value, from_wire(text, static_cast<const T*>(nullptr)));
    return shared_value<T>(std::move(value));
  }
};

template <class T>
[[gnu::used]] caf::error text_wire<T>::save(caf::serializer& to, T& x) {
  std::string text = text_of<T>::write(x);
  return to.apply(text);
}
template <class T>
[[gnu::used]] caf::error text_wire<T>::load(caf::deserializer& from, T& x) {
  std::string text;
  if (auto failed = from.apply(text)) return failed;
  auto value = text_of<T>::read(text);
  if (!value) return to_caf(std::move(value).error());
  x = std::move(*value);
  return {};
}

template <class T>
[[gnu::used]] caf::error member_wire<T>::save(caf::serializer& to, T& x) {
  return transfer_members(to, x);
}
template <class T>
[[gnu::used]] caf::error member_wire<T>::load(caf::deserializer& from, T& x) {
  return transfer_members(from, x);
}

}  // namespace cudal1::detail
