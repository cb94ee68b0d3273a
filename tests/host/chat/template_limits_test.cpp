// SPDX-License-Identifier: Apache-2.0
//
// Templates that would never end, or take all memory or the stack.
#include <string>

#include "tests/host/chat/rendered.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) {
    all += text;
  }
  return all;
}

std::string syntax_error(const std::string& source) {
  try {
    (void)ChatTemplate(source);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a template that executes too much is stopped", "[chat][.release]") {
  CHECK(render_error("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
                     "{% endfor %}") ==
        "[template.too_long] the chat template failed: line 1: the template executes more than 2 "
        "million statements");
  CHECK_THAT(render_error("{% set r = range(100000) %}{% for i in r %}{% for j in r %}{% endfor %}"
                          "{% endfor %}"),
             contains_text("[template.too_long]"));
  CHECK_THAT(render_error("{{ range(1000000000000) }}"),
             contains_text("range has more than 100000 elements"));
}

TEST_CASE("filters and operators that visit too much are stopped", "[chat]") {
  CHECK_THAT(render_error("{% set l = range(100000) | list %}{{ l | reject('in', l) | list }}"),
             contains_text("[template.too_long] the chat template failed: line 1: the filters and "
                           "operators of the template visit more than 100 million items"));
}

TEST_CASE("values of a template that take too much memory are an error", "[chat]") {
  CHECK_THAT(render_error("{% set ns = namespace(s='ab') %}{% for i in range(60) %}"
                          "{% set ns.s = ns.s + ns.s %}{% endfor %}"),
             contains_text("line 1: the values of the template need more than 1 GiB"));
  CHECK_THAT(render_error("{{ 'ab' * 1000000000000 }}"), contains_text("more than 1 GiB"));
  CHECK_THAT(render_error("{{ [1] * 9000000000000000000 }}"), contains_text("too long"));
  CHECK_THAT(render_error("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}"
                          "{% set ns.l = ns.l + ns.l %}{% endfor %}"),
             contains_text("a value has more than a million members"));
}

TEST_CASE("recursion of a template is bounded", "[chat]") {
  CHECK_THAT(render_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
             contains_text("statements or macros are nested more than 150 deep"));
  // Default values, and blocks that call, recurse without statements.
  CHECK_THAT(render_error("{% macro f(x=f()) %}{% endmacro %}{{ f() }}"),
             contains_text("statements or macros are nested more than 150 deep"));
  CHECK_THAT(render_error("{% macro g() %}{{ caller() }}{% endmacro %}{% macro f(x=g()) %}"
                          "{% call(y=f()) g() %}{% endcall %}{% endmacro %}{{ f() }}"),
             contains_text("[template.too_long]") || contains_text("[template.failed]"));
  const std::string sum = repeated("1 + ", 400);
  CHECK_THAT(render_error("{% macro f(x=0) %}{{ " + sum + repeated("(0 if ", 90) + "f() else 1" +
                          repeated(")", 90) + " }}{% endmacro %}{{ f() }}"),
             contains_text("[template."));
  CHECK_THAT(render_error("{% set ns = namespace() %}{% set ns.a = ns %}"),
             contains_text("a value contains itself"));
  CHECK_THAT(render_error("{% set ns = namespace(a=[]) %}{% for i in range(1000) %}"
                          "{% set ns.a = [ns.a] %}{% endfor %}"),
             contains_text("nested more than 64 deep"));
  CHECK_THAT(
      render_error("{{ x | tojson }}",
                   {{"x", nlohmann::ordered_json::parse(repeated("[", 100) + repeated("]", 100))}}),
      contains_text("the JSON is nested more than 64 deep"));
}

TEST_CASE("nesting of a template's source is bounded", "[chat]") {
  CHECK_THAT(syntax_error("{{ " + repeated("(", 1000) + "1" + repeated(")", 1000) + " }}"),
             contains_text("the tag is too long, or nested too deep"));
  CHECK_THAT(syntax_error("{{ " + repeated("not ", 5000) + "1 }}"),
             contains_text("the tag is too long, or nested too deep"));
  CHECK_THAT(syntax_error(repeated("{% if a %}", 1000) + repeated("{% endif %}", 1000)),
             contains_text("tags are nested more than 100 deep"));
  CHECK_THAT(syntax_error("{% if a %}" + repeated("{% elif b %}", 1000) + "{% endif %}"),
             contains_text("{% if %} has more than 100 branches"));
  CHECK_THAT(syntax_error(std::string(size_t{5} << 20, 'a')),
             contains_text("the template has more than 4 MiB"));
  // Long but flat expressions are fine.
  CHECK(rendered("{{ 1" + repeated(" + 1", 900) + " }}") == "901");
}

TEST_CASE("any start and any single change of a template ends in text or an error", "[chat]") {
  const std::string source =
      "{% macro f(a, b=1) %}{{ a[1:] ~ b }}{% endmacro %}{% for m in x if m %}{% if m is string %}"
      "{{ (m | upper)[0] + \"a\" }}{% elif not m %}{% set y = {'a': [1, 2.5]} %}{% else %}"
      "{{- f(m, b='c') -}}{% endif %}{% endfor %}{# c #}";
  const nlohmann::ordered_json x = {{"x", {"abc", 1, "", nlohmann::ordered_json::array({1, 2})}}};
  size_t num_rendered = 0;
  const auto attempt = [&](const std::string& changed) {
    const std::string error = render_error(changed, x);
    num_rendered += error == "no error" ? 1 : 0;
    if (error != "no error") {
      CHECK_THAT(error, contains_text("[template."));
    }
  };
  for (size_t n = 0; n <= source.size(); ++n) {
    attempt(source.substr(0, n));
  }
  for (size_t i = 0; i < source.size(); ++i) {
    for (const char c : std::string("{}%()[]'\"|-.,:#\\ \n=a1\0", 23)) {
      std::string changed = source;
      changed[i] = c;
      attempt(changed);
    }
  }
  CHECK(num_rendered > 0);
}

}  // namespace tenon
