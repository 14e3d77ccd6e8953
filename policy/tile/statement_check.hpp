// What no kernel may do: access a buffer beyond its extents, use a variable that nothing has defined or an array that
// nothing has written, or let a thread access shared memory that another one may have written, or read, without a
// barrier between them.
#pragma once

#include "config/base/error.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1::tile {

// errc::invalid_program with the statement that breaks a rule. Ranges of variables follow from their definitions, and
// from guards on them; a kernel that is refused may still be right where these do not show it. What is not looked for:
// elements of an array that has other ones written, two threads that write to one place, what C does where a negative
// index is made of unsigned variables, and what is in raw lines and in the dialect's functions. These have barriers of
// their own behind what they do to shared memory. Of asynchronous copies it knows that a wait and a barrier are behind
// the first ones before anything is read, and a barrier behind reads before the next ones, but not which stage is
// which; ranges that an emitter states (assume, variables of C expressions) are taken as they are.
expected<void> check(const kernel& k);

}  // namespace cudal1::tile
