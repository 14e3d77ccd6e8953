// A layer over CAF: typed interfaces, our errors as CAF's, requests with timeouts, and where exceptions are caught.
// Another CAF (1.x) needs another version of this file.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <boost/mp11.hpp>
#include <caf/all.hpp>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "config/base/error.hpp"

namespace cudal1 {

// Signatures of a typed interface: `answers<Request, Reply>`, or `takes<Message>` without a reply.
template <class Request, class Reply>
using answers = typename caf::replies_to<Request>::template with<Reply>;
template <class Message>
using takes = caf::reacts_to<Message>;

// All request and reply types of these interfaces, without duplicates.
namespace detail {
template <class Signature>
struct types_of_signature;
template <class... In, class... Out>
struct types_of_signature<caf::typed_mpi<caf::detail::type_list<In...>, caf::output_tuple<Out...>>> {
  using type = boost::mp11::mp_list<In..., Out...>;
};
template <class Signatures>
struct types_of_signatures;
template <class... Signatures>
struct types_of_signatures<caf::detail::type_list<Signatures...>> {
  using type = boost::mp11::mp_append<typename types_of_signature<Signatures>::type...>;
};
}  // namespace detail
template <class... Interfaces>
using message_types_of = boost::mp11::mp_unique<boost::mp11::mp_remove<
    boost::mp11::mp_append<typename detail::types_of_signatures<typename Interfaces::signatures>::type...>, void>>;

// ---- our errors as CAF's ------------------------------------------------------------------------------------------

inline caf::error to_caf(error e) {
  // CAF takes the code 0 for "no error".
  return {static_cast<uint8_t>(static_cast<int>(e.code) + 1), caf::atom("cudal1"), caf::make_message(e.message)};
}

// `e` may be empty: the exit reason of an actor that ended normally.
inline error from_caf(const caf::error& e) {
  if (!e) return {errc::infrastructure, "an actor ended normally"};
  if (e.category() == caf::atom("cudal1") && e.context().match_elements<std::string>())
    return {static_cast<errc>(e.code() - 1), e.context().get_as<std::string>(0)};
  if (e == caf::sec::request_timeout) return {errc::timeout, "an actor did not answer in time"};
  return {errc::infrastructure, "an actor answered " + caf::to_string(e)};
}

template <class T>
caf::result<T> to_result(expected<T> value) {
  if (value) return caf::result<T>(std::move(*value));
  return caf::result<T>(to_caf(std::move(value).error()));
}

// ---- exceptions ---------------------------------------------------------------------------------------------------

// Runs the body of a handler without a reply. Catches exceptions, since one that leaves a handler ends the actor.
template <class F>
void log_exceptions(const char* actor, F&& body) {
  try {
    std::forward<F>(body)();
  } catch (const std::exception& e) {
    spdlog::error("{}: a handler threw: {}", actor, e.what());
  }
}

// Runs the body of a handler that returns a value or an error: an exception becomes an error.
template <class F, class Result = std::invoke_result_t<F>>
Result exceptions_as_errors(const char* actor, F&& body) {
  try {
    return std::forward<F>(body)();
  } catch (const std::exception& e) {
    spdlog::error("{}: a handler threw: {}", actor, e.what());
    return fail(errc::infrastructure, "a handler of {} threw: {}", actor, e.what());
  }
}

// Runs the body of a handler that replies immediately, with its value or error.
template <class F, class T = typename std::invoke_result_t<F>::value_type>
caf::result<T> reply_or_error(const char* actor, F&& body) {
  return to_result<T>(exceptions_as_errors(actor, std::forward<F>(body)));
}

// ---- requests -----------------------------------------------------------------------------------------------------

using duration = std::chrono::milliseconds;

constexpr duration join_timeout{std::chrono::seconds(10)};   // for the coordinator's answer to a machine that joins
constexpr duration store_timeout{std::chrono::seconds(30)};  // for most answers of the store, which syncs

// Sends a request with a finite timeout. `then` gets the reply; `otherwise` gets the error: a timeout, an actor that
// has ended, or the error that it replied with.
template <class Reply, class Self, class Destination, class Message, class Then, class Else>
void ask(Self* self, const Destination& destination, duration timeout, Message message, Then then, Else otherwise) {
  self->request(destination, timeout, std::move(message))
      .then(
          [self, then = std::move(then)](Reply& reply) mutable { log_exceptions(self->name(), [&] { then(reply); }); },
          [self, otherwise = std::move(otherwise)](caf::error& e) mutable {
            log_exceptions(self->name(), [&] { otherwise(from_caf(e)); });
          });
}

// For a thread that is not an actor: blocks until the reply or the timeout.
template <class Reply, class Destination, class Message>
expected<Reply> ask_blocking(caf::scoped_actor& self, const Destination& destination, duration timeout,
                             Message message) {
  expected<Reply> result = fail(errc::timeout, "an actor did not answer in time");
  self->request(destination, timeout, std::move(message))
      .receive([&](Reply& reply) { result = std::move(reply); },
               [&](caf::error& e) { result = tl::unexpected<error>(from_caf(e)); });
  return result;
}

// Every actor calls this first: unexpected messages are logged and dropped (CAF would print their content), and an
// uncaught exception is logged with the name of the actor that it ends. The thread of a detached actor gets its name.
template <class Self>
void prepare(Self* self) {
  const char* who = self->name();
  if (self->getf(caf::abstract_actor::is_detached_flag)) ::pthread_setname_np(::pthread_self(), who);
  self->set_default_handler([who](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
    spdlog::warn("{}: dropped an unexpected message", who);
    return caf::make_error(caf::sec::unexpected_message);
  });
  self->set_exception_handler([who](std::exception_ptr&) -> caf::error {
    spdlog::critical("{}: ends because of an uncaught exception", who);
    return caf::sec::runtime_error;
  });
}

}  // namespace cudal1
