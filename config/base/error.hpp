// Errors are values: one enum, one struct, one alias of `expected`. Exceptions stay inside a function.
#pragma once

#include <string>
#include <utility>

#include <boost/describe/enum.hpp>
#include <fmt/format.h>
#include <tl/expected.hpp>

namespace cudal1 {

// What went wrong, for code that must decide; the text is for people.
BOOST_DEFINE_ENUM_CLASS(errc,
                        invalid_argument,  // the caller's value is off: a flag, a configuration key, an id
                        parse_error,       // a text is not what its format asks for
                        invalid_program,   // a program breaks one of the format's rules
                        unsupported,       // legal, but not something that we can run
                        not_found,         // no such file, task, variant, experiment
                        already_exists,    // a unique thing is there already
                        compile_failed,    // the compiler refused the source (its log is in the text)
                        refused,           // the object code breaks a rule of the sandbox
                        variant_fault,     // the variant crashed, hung or touched what it must not
                        infrastructure,    // ours: a lost process, a full disk, a sick device; retried, never scored
                        timeout,           // an answer did not come in time
                        io_error,          // the system said no; errno is in the text
                        corrupt,           // stored bytes fail their check, or are of a newer schema
                        cancelled,         // somebody asked to stop
                        out_of_memory)     // of a device, a process or a limit: with less held the same may succeed

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

// The same error, said of something larger: `step 3: ` before the text.
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

// CUDAL1_CHECK(f());  returns f's error from this function; f returns expected<void> or its value is not wanted.
#define CUDAL1_CHECK(...)                                                                                          \
  do {                                                                                                             \
    if (auto check_ = (__VA_ARGS__); !check_) return ::tl::unexpected<::cudal1::error>(std::move(check_).error()); \
  } while (false)
