// SPDX-License-Identifier: Apache-2.0
//
// --new-plugin: writes a project that builds, tests and trains a new plugin.
#include "host/cli/all_actions.hpp"
#include "host/cli/plugin_folders.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/shell_text.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/new_plugin/new_folder.hpp"
#include "host/tools/new_plugin/plugin_name.hpp"
#include "host/tools/new_plugin/plugin_project.hpp"
#include "host/tools/new_plugin/plugin_templates.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::array kNewPluginOptions = {
    Option{"lang",
           "LANGUAGE",
           "c, c++ (without libtorch), torch (C++ with libtorch) or rust; default:\n"
           "torch if the kind has it, otherwise c++, otherwise c"},
    Option{"dir", "DIR", "folder of the project, new or empty; default: NAME"},
    Option{"id", "ID", "id of the plugin; default: com.example.NAME"}};

void read_new_plugin(const GivenOptions& given, CommandLine& line) {
  const std::vector<std::string> values = given.values_of("new-plugin");
  NewPluginRequest& request = line.new_plugin;
  request.kind = values.front();
  request.name = values.back();
  request.language = given.value_of("lang");
  request.folder = given.has("dir") ? given.value_of("dir") : request.name;
  request.id = given.has("id") ? given.value_of("id") : "com.example." + request.name;
  const std::string problem = plugin_name_problem(request.name);
  if (!problem.empty()) {
    fail_usage("--new-plugin: " + problem);
  }
  if (!is_plugin_id(request.id)) {
    fail_value("id", request.id, "a reverse domain name in lower case, such as com.example.focal");
  }
}

// The installation or build tree that this program is part of.
TenonPaths own_paths(const fs::path& program, const fs::path& templates) {
  const std::vector<PluginFolder> plugins = choose_plugin_folders({}, "", program);
  const fs::path prefix = templates.parent_path().parent_path().parent_path();  // share/tenon/...
  return {.program = program.string(),
          .prefix = prefix.string(),
          .plugins = fs::absolute(plugins.front().path).lexically_normal().string()};
}

// A recipe could not tell two components of one kind and type apart.
void check_unused(const NewPluginRequest& request, const TenonPaths& paths) {
  const std::vector<PluginFolder> folders = {{paths.plugins, "the default"}};
  for (const PluginInfo& plugin : scan_plugins(folders)) {
    if (plugin.offers({request.kind, request.name})) {
      fail_usage(formatted("--new-plugin: {} comes with the {} \"{}\" already; use another name",
                           plugin.describe(),
                           request.kind,
                           request.name));
    }
    if (plugin.manifest.id == request.id) {
      fail_usage(formatted("--id: {} has the id already; use another id", plugin.describe()));
    }
  }
}

std::string report(const NewPluginRequest& request,
                   const PluginTemplate& variant,
                   const PluginProject& project) {
  std::string text = formatted(
      "new {} {} ({}), plugin {}:\n", request.kind, request.name, variant.language, request.id);
  std::size_t width = 0;
  const fs::path folder(request.folder);
  for (const TemplateFile& file : project.files) {
    width = std::max(width, (folder / file.path).string().size());
  }
  for (const TemplateFile& file : project.files) {
    std::string path = (folder / file.path).string();
    path.resize(width, ' ');
    text += "  " + path + "  " + file.content + "\n";
  }
  const std::vector<std::string> change_folder = {"cd", request.folder};
  text += "\nbuild it, test it and train with it:\n  " + shell_text(change_folder) + "\n";
  for (const std::string& command : project.commands) {
    text += "  " + command + "\n";
  }
  return text;
}

ExitCode run_new_plugin(const CommandLine& line, const Invocation& /*invocation*/) {
  const NewPluginRequest& request = line.new_plugin;
  const fs::path program = own_program();
  const fs::path templates = templates_folder(program);
  const std::vector<PluginTemplate> all = list_templates(templates);
  const PluginTemplate& variant = choose_template(all, request.kind, request.language);
  const TenonPaths paths = own_paths(program, templates);
  check_unused(request, paths);
  const PluginProject project = make_project(
      variant.kind, read_template(variant), {.name = request.name, .id = request.id}, paths);
  std::vector<std::pair<std::string, std::string>> files;
  for (const TemplateFile& file : project.files) {
    files.emplace_back(file.path, file.text);
  }
  write_new_folder(request.folder, files);
  print_output(report(request, variant, project));
  return ExitCode::kDone;
}

}  // namespace

const Action kNewPluginAction = {
    .verb = "new-plugin",
    .option = {"new-plugin",
               "KIND NAME",
               "write a project that builds, tests and trains a new plugin, from a\n"
               "template of the SDK, as in --new-plugin loss focal"},
    .options = kNewPluginOptions,
    .read = read_new_plugin,
    .run = run_new_plugin};

}  // namespace tenon
