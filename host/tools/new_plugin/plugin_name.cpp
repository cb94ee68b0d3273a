// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_name.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

// Of C11 to C23 and C++11 to C++23, in lower case.
// Source   ISO/IEC 9899:2024, section 6.4.1; ISO/IEC 14882:2024, sections lex.key and lex.digraph
constexpr auto kKeywords = std::to_array<std::string_view>({
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "typeof_unqual",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
});

// Targets that CMake defines or reserves.
// Source   cmake-policies(7), CMP0037, and the targets of the Makefile and Ninja generators
constexpr auto kTargets = std::to_array<std::string_view>({"all",
                                                           "clean",
                                                           "codegen",
                                                           "default_target",
                                                           "depend",
                                                           "edit_cache",
                                                           "help",
                                                           "install",
                                                           "list_install_components",
                                                           "package",
                                                           "package_source",
                                                           "preinstall",
                                                           "rebuild_cache",
                                                           "test"});

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

char upper(char c) {
  return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c;
}

bool continues_identifier(char c) {
  return is_lower(c) || is_digit(c) || c == '_' || (c >= 'A' && c <= 'Z');
}

bool is_type(std::string_view name) {
  return !name.empty() && is_lower(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

}  // namespace

std::string plugin_name_problem(std::string_view name) {
  if (!is_type(name)) {
    return formatted(
        "\"{}\" is no component type (expected lower-case letters, digits and _, a letter first); "
        "use a name such as my_plugin",
        name);
  }
  if (std::ranges::find(kKeywords, name) != kKeywords.end()) {
    return formatted("\"{}\" is a keyword of C or C++; use another name", name);
  }
  if (std::ranges::find(kTargets, name) != kTargets.end()) {
    return formatted("\"{}\" is a target that CMake reserves; use another name", name);
  }
  return "";
}

bool is_plugin_id(std::string_view id) {
  const auto is_allowed = [](char c) {
    return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
  };
  return std::ranges::all_of(id, is_allowed) && id.find('.') != std::string_view::npos &&
         id.find("..") == std::string_view::npos && id.front() != '.' && id.back() != '.';
}

std::string class_name(std::string_view name) {
  std::string result;
  bool starts_word = true;
  for (const char c : name) {
    if (c != '_') {
      result += starts_word ? upper(c) : c;
    }
    starts_word = c == '_';
  }
  return result;
}

std::string macro_name(std::string_view name) {
  std::string result(name);
  std::ranges::transform(result, result.begin(), upper);
  return result;
}

bool has_identifier(std::string_view code, std::string_view name) {
  for (std::size_t at = code.find(name); at != std::string_view::npos;
       at = code.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !continues_identifier(code[at - 1])) &&
        (end == code.size() || !continues_identifier(code[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace tenon
