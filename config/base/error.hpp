// Errors as values. Exceptions do not leave the function that they occur in.
#pragma once

#include <string>
#include <utility>

#include <boost/describe/enum.hpp>
#include <fmt/format.h>
#include <tl/expected.hpp>

namespace cudal1 {

// What went wrong, for code that handles errors; the message is for people.
BOOST_DEFINE_ENUM_CLASS(errc,
                        invalid_argument,  // a bad value from the caller: a flag, a configuration key, an id
                        parse_error,       // a text does not follow its format
                        invalid_program,   // a program breaks one of the format's rules
                        unsupported,       // legal, but cannot be run here
                        not_found,         // no such file, task, variant, experiment
                        already_exists,    // something that must be unique exists already
                        compile_failed,    // the compiler refused the source (its log is in the message)
                        refused,           // the object code breaks a rule of the sandbox
                        variant_fault,     // the variant crashed, hung or touched what it must not
                        infrastructure,    // a lost process, a full disk, a failing device: retried, never scored
                        timeout,           // a reply did not come in time
                        io_error,          // a system call failed; errno is in the message
                        corrupt,           // stored data fail their check, or have a newer schema
                        cancelled,         // stopped on request
                        out_of_memory,     // of a device, a process or a limit: may succeed with less memory in use
                        out_of_budget)     // a limit of tokens or money is reached: more succeeds only if it is raised

struct error {
  errc code = errc::infrastructure;
  std::string message;  // what, where, and what to do about it
};

template <class T>
using expected = tl::expected<T, error>;

template <class... Args>
[[nodiscard]] tl::unexpected<error> fail(errc code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<error>(error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The same error with its context in front of the message: `step 3: `.
[[nodiscard]] inline tl::unexpected<error> fail_in(const std::string& where, error e) {
  e.message = where + ": " + e.message;
  return tl::unexpected<error>(std::move(e));
}

}  // namespace cudal1

#define CUDAL1_CONCAT_(a, b) a##b
#define CUDAL1_CONCAT(a, b) CUDAL1_CONCAT_(a, b)

// CUDAL1_TRY(auto x, f());  binds the value, or returns f's error from this function.
#define CUDAL1_TRY(declaration, ...) CUDAL1_TRY_(CUDAL1_CONCAT(try_, __LINE__), declaration, __VA_ARGS__)
#define CUDAL1_TRY_(name, declaration, ...)                                     \
  auto name = (__VA_ARGS__);                                                    \
  if (!name) return ::tl::unexpected<::cudal1::error>(std::move(name).error()); \
  declaration = std::move(*name)

// CUDAL1_CHECK(f());  returns f's error from this function; f returns expected<void>, or its value is ignored.
#define CUDAL1_CHECK(...)                                                                                          \
  do {                                                                                                             \
    if (auto check_ = (__VA_ARGS__); !check_) return ::tl::unexpected<::cudal1::error>(std::move(check_).error()); \
  } while (false)
