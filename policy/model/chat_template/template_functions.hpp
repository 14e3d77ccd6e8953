// The filters, tests, methods and functions of chat templates.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/base/error.hpp"
#include "policy/model/chat_template/template_value.hpp"

namespace cudal1 {

// Arguments by position and by name.
struct template_arguments {
  template_value::list by_position;
  template_value::mapping by_name;

  // Undefined where it is not given.
  template_value get(std::size_t position, std::string_view name) const;
};

// Each: errc::unsupported for names that are not known, errc::invalid_argument for values that do not fit.
expected<template_value> apply_filter(const std::string& name, const template_value& of,
                                      const template_arguments& arguments);
expected<bool> apply_test(const std::string& name, const template_value& of, std::span<const template_value> arguments);
expected<template_value> call_method(const std::string& name, const template_value& of,
                                     const template_arguments& arguments);
expected<template_value> call_function(const std::string& name, const template_arguments& arguments);
bool is_template_function(std::string_view name);

// and, or and not are the renderer's.
expected<template_value> apply_operator(const std::string& sign, const template_value& left,
                                        const template_value& right);
// Negative places count from the end; undefined where there is none.
expected<template_value> item_of(const template_value& of, const template_value& index);
expected<template_value> slice_of(const template_value& of, const template_value& from, const template_value& to,
                                  const template_value& step);

}  // namespace cudal1
