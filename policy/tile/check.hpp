// What no kernel may do: access a buffer beyond its extents, use a value or an element before it was written, or let a
// thread access shared memory that another one has written, or reads, without a barrier between them.
#pragma once

#include "config/base/error.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1::tile {

// errc::invalid_program with the statement that breaks a rule. Ranges of variables follow from their definitions, and
// from guards on them; a kernel that is refused may still be right where these do not show it. What a `call` does to
// buffers other than the ones that it names is not looked at.
expected<void> check(const kernel& k);

}  // namespace cudal1::tile
