// SPDX-License-Identifier: Apache-2.0
//
// A new plugin project: a template under the name of the plugin.
// Threads: any.
#pragma once

#include "host/tools/new_plugin/plugin_templates.hpp"

#include <string>
#include <vector>

namespace tenon {

struct PluginIdentity {
  std::string name;  // of the component, the target and the files: "focal_loss"
  std::string id;    // of the plugin: "com.example.focal_loss"

  bool operator==(const PluginIdentity&) const = default;
};

// The Tenon that builds and runs the project.
struct TenonPaths {
  std::string program;
  std::string prefix;   // of the SDK, for CMAKE_PREFIX_PATH
  std::string plugins;  // the first-party plugins
};

struct PluginProject {
  std::vector<TemplateFile> files;    // sorted by path
  std::vector<std::string> commands;  // build, test and train, in the folder of the project
};

// Makes the files of a project. In texts and paths, replaces my_plugin, MyPlugin and MY_PLUGIN by
// the name in the same form. In texts, also replaces:
//
//   @ID@ @KIND@ @LANE@ @SUMMARY@   as in the arguments
//   @LANGUAGES@                    the languages of the sources, for project() of CMake
//   @TOOLS@                        what a build needs
//   @SOURCES@                      the paths of the sources
//   @ARGUMENTS@                    further arguments of tenon_add_plugin()
//   @FILES@                        rows of a Markdown table of all files except README.md
//   @COMMANDS@                     the commands, one a line
//   @DESCRIBE@                     the command that prints the options of the component
//
// Errors   usage.bad_option if the name is also that of something else in the template
PluginProject make_project(const std::string& kind,
                           const TemplateText& text,
                           const PluginIdentity& plugin,
                           const TenonPaths& paths);

}  // namespace tenon
