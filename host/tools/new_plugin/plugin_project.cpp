// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/plugin_project.hpp"

#include "host/terminal/shell_text.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/tools/new_plugin/plugin_name.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

constexpr char kTemplateName[] = "my_plugin";
constexpr char kTools[] = "CMake 3.25 or newer and a compiler";
constexpr char kRustTools[] = "CMake 3.25 or newer, a C compiler and rustc 1.63 or newer";

// Pairs of a text and its replacement. No text is the start of another.
using Replacements = std::vector<std::pair<std::string, std::string>>;

// Replaces all texts in one pass: a replacement is not searched again.
std::string replaced(std::string_view text, const Replacements& replacements) {
  std::string result;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(
        replacements, [text](const auto& pair) { return text.starts_with(pair.first); });
    const bool is_found = found != replacements.end();
    result += is_found ? std::string_view(found->second) : text.substr(0, 1);
    text.remove_prefix(is_found ? found->first.size() : 1);
  }
  return result;
}

Replacements name_forms(const std::string& name) {
  return {{kTemplateName, name},
          {class_name(kTemplateName), class_name(name)},
          {macro_name(kTemplateName), macro_name(name)}};
}

// The code without comments, which may have words that a name has too.
std::string without_comments(std::string_view code) {
  std::string result;
  while (!code.empty()) {
    std::size_t skipped = 0;
    if (code.starts_with("//")) {
      skipped = std::min(code.find('\n'), code.size());
    } else if (code.starts_with("/*")) {
      const std::size_t end = code.find("*/");
      skipped = end == std::string_view::npos ? code.size() : end + 2;
    }
    result += skipped != 0 ? std::string_view(" ") : code.substr(0, 1);
    code.remove_prefix(std::max<std::size_t>(skipped, 1));
  }
  return result;
}

// Rejects a name if the template uses one of its forms for something else.
void check_clashes(const TemplateText& text, const std::string& name) {
  if (name == kTemplateName) {
    return;
  }
  if (std::ranges::find(text.link, name) != text.link.end()) {
    fail_usage(formatted(
        "--new-plugin: \"{}\" is a library that the plugin links; use another name", name));
  }
  const std::string type = class_name(name);
  const std::string macro = macro_name(name);
  for (const TemplateFile& file : text.files) {
    if (std::ranges::find(text.sources, file.path) == text.sources.end()) {
      continue;
    }
    const std::string code = without_comments(file.text);
    for (const std::string& form : {type, macro}) {
      if (has_identifier(code, form)) {
        fail_usage(
            formatted("--new-plugin: the code of \"{}\" would define {}, which the template "
                      "uses for something else; use another name",
                      name,
                      form));
      }
    }
  }
}

bool has_source(const TemplateText& text, std::string_view extension) {
  return std::ranges::any_of(
      text.sources, [extension](const std::string& path) { return path.ends_with(extension); });
}

// Further arguments of tenon_add_plugin(), each on its own line.
std::string more_arguments(const TemplateText& text) {
  std::string arguments;
  for (const std::string& flag : text.flags) {
    arguments += "\n  " + flag;
  }
  for (const auto& [keyword, values] :
       {std::pair("REQUIRES", &text.required_services), std::pair("LINK", &text.link)}) {
    arguments += values->empty() ? "" : formatted("\n  {} {}", keyword, joined(*values, " "));
  }
  return arguments;
}

std::string file_rows(const std::vector<TemplateFile>& files) {
  std::vector<std::string> rows;
  for (const TemplateFile& file : files) {
    if (file.path != "README.md") {
      rows.push_back(formatted("| `{}` | {} |", file.path, file.content));
    }
  }
  return joined(rows, "\n");
}

std::string shell_line(const std::vector<std::string>& words) {
  return shell_text(words);
}

}  // namespace

PluginProject make_project(const std::string& kind,
                           const TemplateText& text,
                           const PluginIdentity& plugin,
                           const TenonPaths& paths) {
  check_clashes(text, plugin.name);
  const bool is_rust = has_source(text, ".rs");
  const Replacements names = name_forms(plugin.name);
  PluginProject project{
      .files = text.files,
      .commands = {shell_line({"cmake", "-B", "build", "-DCMAKE_PREFIX_PATH=" + paths.prefix}),
                   shell_line({"cmake", "--build", "build"}),
                   shell_line({"ctest", "--test-dir", "build", "--output-on-failure"}),
                   shell_line({paths.program,
                               "--recipe",
                               "recipe.json",
                               "--plugin-dir",
                               "build/plugins",
                               "--plugin-dir",
                               paths.plugins})}};
  for (TemplateFile& file : project.files) {
    file.path = replaced(file.path, names);
  }
  std::ranges::sort(project.files, {}, &TemplateFile::path);
  Replacements all = names;
  all.insert(all.end(),
             {{"@ID@", plugin.id},
              {"@KIND@", kind},
              {"@LANE@", text.lane},
              {"@SUMMARY@", text.summary},
              {"@LANGUAGES@", has_source(text, ".cpp") ? "C CXX" : "C"},
              {"@TOOLS@", is_rust ? kRustTools : kTools},
              {"@SOURCES@", replaced(joined(text.sources, " "), names)},
              {"@ARGUMENTS@", more_arguments(text)},
              {"@FILES@", file_rows(project.files)},
              {"@COMMANDS@", joined(project.commands, "\n")},
              {"@DESCRIBE@",
               shell_line({paths.program,
                           "--describe",
                           kind + ":" + plugin.name,
                           "--plugin-dir",
                           "build/plugins"})}});
  for (TemplateFile& file : project.files) {
    file.text = replaced(file.text, all);
  }
  return project;
}

}  // namespace tenon
