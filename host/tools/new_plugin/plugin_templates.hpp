// SPDX-License-Identifier: Apache-2.0
//
// The templates of --new-plugin, as the SDK installs them: a folder KIND-LANGUAGE for each variant,
// and the folder `project` with the files that all variants share.
// Threads: any.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

// A variant: a kind in a language.
struct PluginTemplate {
  std::string kind;
  std::string language;  // as --lang takes it: "c", "c++", "torch", "rust"
  std::filesystem::path folder;
};

struct TemplateFile {
  std::string path;  // relative to the project
  std::string text;
  std::string content;  // what the file has, in a few words
};

// A variant with its files and those that all variants share.
struct TemplateText {
  std::string summary;             // what the component is: "a loss in plain C"
  std::string lane;                // "stable" or "torch"
  std::vector<std::string> flags;  // of tenon_add_plugin(), such as STABLE_TORCH
  std::vector<std::string> link;   // libraries of the plugin
  std::vector<std::string> required_services;
  std::vector<std::string> sources = {};  // paths of the files to compile
  std::vector<TemplateFile> files = {};   // sorted by path
};

// Returns the folder of the templates, from the path of the program: that of the build tree, or
// that of the installation.
//
// Errors   usage.no_templates
std::filesystem::path templates_folder(const std::filesystem::path& program);

// Returns all variants, sorted by kind and language.
//
// Errors   usage.no_templates
std::vector<PluginTemplate> list_templates(const std::filesystem::path& folder);

// Returns the variant of a kind in a language. Without a language ("") it is torch if the kind has
// it, otherwise c++, otherwise c, otherwise rust.
//
// Errors   usage.bad_option, with the kinds or the languages that exist
const PluginTemplate& choose_template(const std::vector<PluginTemplate>& templates,
                                      const std::string& kind,
                                      const std::string& language);

// Reads a variant and the shared files of its folder.
//
// Errors   usage.no_templates
TemplateText read_template(const PluginTemplate& variant);

}  // namespace tenon
