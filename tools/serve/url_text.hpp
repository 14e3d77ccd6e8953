// Text in URLs and in the bodies of forms.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cudal1::serve {

std::vector<std::string_view> split(std::string_view text, char at);

// Without the query.
inline std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

// nullopt for a wrong escape, a zero byte, and what is not UTF-8.
std::optional<std::string> url_unescaped(std::string_view text, bool plus_is_space);
// All but letters, digits and "-._~" as %XX: for a part of a path, and for a value in a query.
std::string url_escaped(std::string_view text);

// The fields of application/x-www-form-urlencoded. nullopt for what url_unescaped() refuses, and a field given twice.
std::optional<std::map<std::string, std::string>> form_fields(std::string_view body);

}  // namespace cudal1::serve
