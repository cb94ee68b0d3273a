// SPDX-License-Identifier: Apache-2.0
//
// Templates of nlohmann_json that most tests use, compiled once, in json_templates.cpp: they took a
// fifth of the time of a test's source. Part of the precompiled headers of tests. Without these,
// each source compiles what it uses.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

// clang-format off
#define TENON_JSON_TEMPLATES(DECLARE)                                                              \
  DECLARE template class nlohmann::basic_json<>;                                                   \
  DECLARE template class nlohmann::detail::serializer<nlohmann::json>;                             \
  TENON_JSON_READERS(DECLARE, std::string::const_iterator)                                         \
  TENON_JSON_READERS(DECLARE, const char*)
#define TENON_JSON_READERS(DECLARE, ...)                                                           \
  DECLARE template class nlohmann::detail::lexer<                                                  \
      nlohmann::json, nlohmann::detail::iterator_input_adapter<__VA_ARGS__>>;                      \
  DECLARE template class nlohmann::detail::parser<                                                 \
      nlohmann::json, nlohmann::detail::iterator_input_adapter<__VA_ARGS__>>;
// clang-format on

TENON_JSON_TEMPLATES(extern)
