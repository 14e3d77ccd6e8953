#include "actors/messages/interfaces.hpp"

#include <typeindex>
#include <typeinfo>

#include <boost/core/demangle.hpp>
#include <boost/mp11.hpp>

#include "actors/messages/wire.hpp"

namespace cudal1 {

// Its members come before whether it is filled.
caf::error detail::code_wire::save(caf::serializer& to, const shared_code& x) {
  bool filled = x.value != nullptr;
  compiled_code code;
  if (filled) code = *x.value;
  if (auto failed = detail::transfer_members(to, code)) return failed;
  return to.apply(filled);
}
caf::error detail::code_wire::load(caf::deserializer& from, shared_code& x) {
  compiled_code code;
  bool filled = false;
  if (auto failed = detail::transfer_members(from, code)) return failed;
  if (auto failed = from.apply(filled)) return failed;
  x = filled ? shared_code(std::move(code)) : shared_code();
  return {};
}

// What config.add_message_type does, without vectors and streams of messages: none is sent.
void register_messages(caf::actor_system_config& config) {
  boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, message_types>>([&](auto type) {
    using message_type = typename decltype(type)::type;
    const std::type_index index = typeid(message_type);
    const auto name = boost::core::demangle(index.name());
    const auto make = [] { return caf::make_type_erased_value<message_type>(); };
    config.type_names_by_rtti.emplace(index, name);
    config.value_factories_by_name.emplace(name, make);
    config.value_factories_by_rtti.emplace(index, make);
  });
}

}  // namespace cudal1
