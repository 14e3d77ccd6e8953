// Records as the store's values: one line of JSON.
#pragma once

#include <string>
#include <string_view>

#include "config/base/describe.hpp"

namespace cudal1 {

// Bytes that are not UTF-8 (a compiler's log may hold any) become U+FFFD, since JSON has no place for them.
std::string to_utf8(std::string text);

template <class T>
std::string encode(const T& record) {
  return to_utf8(to_text(record));
}

}  // namespace cudal1
