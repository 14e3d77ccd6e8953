#include "actors/interfaces.hpp"

#include <typeinfo>

#include <boost/core/demangle.hpp>

namespace cudal1 {

void register_messages(caf::actor_system_config& config) {
  boost::mp11::mp_for_each<boost::mp11::mp_transform<boost::mp11::mp_identity, message_types>>([&](auto type) {
    using message_type = typename decltype(type)::type;
    config.add_message_type<message_type>(boost::core::demangle(typeid(message_type).name()));
  });
}

}  // namespace cudal1
