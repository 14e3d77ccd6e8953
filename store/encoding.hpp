// Records as the store's values: one line of JSON.
#pragma once

#include <string>

#include "config/base/describe.hpp"
#include "config/base/utf8.hpp"

namespace cudal1 {

// Bytes that are not UTF-8 (a compiler's log may have any) become U+FFFD, since JSON cannot represent them.
template <class T>
std::string encode(const T& record) {
  return replace_invalid_utf8(to_text(record));
}

}  // namespace cudal1
