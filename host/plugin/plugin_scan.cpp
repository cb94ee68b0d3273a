// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/plugin_scan.hpp"

#include <tenon/abi.h>

#include "host/io/content_hash.hpp"
#include "host/log/log.hpp"
#include "host/plugin/kinds.hpp"
#include "host/plugin/service_ids.hpp"
#include "host/text/formatted.hpp"
#include "host/trust/elf/elf_symbols.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Parses "version=2.11.0;git=abc" into keys and values.
std::map<std::string, std::string> split_fingerprint(const std::string& fingerprint) {
  std::map<std::string, std::string> values;
  std::size_t at = 0;
  while (at < fingerprint.size()) {
    const std::size_t end = std::min(fingerprint.find(';', at), fingerprint.size());
    const std::string part = fingerprint.substr(at, end - at);
    const std::size_t equals = std::min(part.find('='), part.size());
    values[part.substr(0, equals)] = equals < part.size() ? part.substr(equals + 1) : "";
    at = end + 1;
  }
  return values;
}

// Lists the keys that differ: "version 2.10.0, here 2.11.0; cuda 12.8, here 13.0".
std::string fingerprint_difference(const std::string& theirs, const std::string& ours) {
  const auto their_values = split_fingerprint(theirs);
  const auto our_values = split_fingerprint(ours);
  std::set<std::string> keys;
  for (const auto& values : {their_values, our_values}) {
    for (const auto& [key, value] : values) {
      keys.insert(key);
    }
  }
  const auto value_of = [](const auto& values, const std::string& key) {
    const auto found = values.find(key);
    return found != values.end() ? found->second : std::string("not given");
  };
  std::string text;
  for (const std::string& key : keys) {
    const std::string a = value_of(their_values, key);
    const std::string b = value_of(our_values, key);
    if (a != b) {
      text += (text.empty() ? "" : "; ") + key + " " + a + ", here " + b;
    }
  }
  return text.empty() ? theirs + ", here " + ours : text;
}

std::string known_kinds() {
  std::string text;
  for (const KindEntry& entry : all_kinds()) {
    text += (text.empty() ? "" : ", ") + std::string(entry.kind);
  }
  return text;
}

// Returns why this host cannot use a plugin with this manifest and these exported symbols, or null.
std::optional<Error> judge(const PluginInfo& plugin, const std::string& torch_fingerprint) {
  const Manifest& manifest = plugin.manifest;
  if (!manifest.abi.intersects(kHostAbi)) {
    return Error("plugin.abi_mismatch",
                 plugin.describe() + " requires ABI " + manifest.abi.text(" to ") + ", host has " +
                     kHostAbi.text(" to ") + "; rebuild it with SDK " TENON_ABI_STRING);
  }
  if (!manifest.unknown_key.empty()) {
    return Error("plugin.abi_mismatch",
                 plugin.describe() + ": its manifest has the key \"" + manifest.unknown_key +
                     "\", which this host does not know; use a newer host");
  }
  if (manifest.lane != "stable" && manifest.lane != "torch") {
    return Error("plugin.bad_manifest",
                 plugin.describe() + " has the lane \"" + manifest.lane +
                     "\" in its manifest, expected \"stable\" or \"torch\"; rebuild it with "
                     "SDK " TENON_ABI_STRING);
  }
  if (manifest.lane == "torch" && manifest.torch != torch_fingerprint) {
    return Error("plugin.torch_mismatch",
                 plugin.describe() + " was built with another libtorch (" +
                     fingerprint_difference(manifest.torch, torch_fingerprint) +
                     "); rebuild it with this host's libtorch");
  }
  for (const ComponentName& component : manifest.components) {
    if (find_kind(component.kind) == nullptr) {
      return Error("plugin.bad_manifest",
                   plugin.describe() + " lists the component \"" + component.kind + ":" +
                       component.type + "\" in its manifest; kinds are " + known_kinds());
    }
  }
  for (const std::string& service : manifest.services) {
    if (!has_service(service)) {
      return Error("plugin.missing_interface",
                   plugin.describe() + " requires the service " + service +
                       ", which this host does not have; use a newer host");
    }
  }
  if (const std::optional<std::string> symbol = find_unique_symbol(plugin.file)) {
    return Error("plugin.shared_symbol",
                 plugin.describe() + " exports the symbol " + *symbol +
                     ", which every plugin of the process would share; link it with the SDK's "
                     "version script (tenon_plugin.map), or compile it with -fno-gnu-unique");
  }
  return std::nullopt;
}

// Converts all readings except kNotElf and kNoManifest, which the two callers treat differently.
PluginInfo to_info(const std::string& file,
                   const std::optional<FileStamp>& stamp,
                   ManifestFile reading,
                   const std::string& torch_fingerprint) {
  PluginInfo plugin{.file = file,
                    .manifest = std::move(reading.manifest),
                    .refusal = std::nullopt,
                    .details = {},
                    .same_as = {},
                    .stamp = stamp};
  switch (reading.reading) {
    case ManifestReading::kOk:
      plugin.refusal = judge(plugin, torch_fingerprint);
      break;
    case ManifestReading::kForeign:
      plugin.refusal = Error("plugin.load_failed",
                             plugin.describe() + " cannot be loaded: " + reading.problem +
                                 "; build it for this machine");
      plugin.is_named_once = true;
      break;
    case ManifestReading::kUnreadable:
      plugin.refusal =
          Error("plugin.load_failed",
                file + " cannot be read: " + reading.problem + "; make it readable, or remove it");
      break;
    default:
      plugin.refusal = Error("plugin.bad_manifest",
                             plugin.describe() + " has an invalid manifest: " + reading.problem +
                                 "; rebuild it, or copy it again");
      plugin.is_named_once = true;
  }
  return plugin;
}

// Returns the *.so files of a folder, sorted by name.
std::vector<std::string> list_folder(const PluginFolder& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  fs::directory_iterator entry(folder.path, problem);
  while (!problem && entry != fs::directory_iterator()) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;  // reading the file later reports the error
    // Linkers and copy tools use temporary files whose names start with a dot.
    if (name.front() != '.' && name.ends_with(".so") && !entry->is_directory(ignored)) {
      names.push_back(name);
    }
    entry.increment(problem);
  }
  if (problem) {
    std::error_code ignored;
    const bool is_there = fs::exists(folder.path, ignored);
    throw Error("plugin.dir_unreadable",
                "the plugin folder " + folder.path + " (from " + folder.origin +
                    ") cannot be read: " + problem.message() +
                    (is_there ? "; pass a readable folder with plugins"
                              : "; build the plugins, or pass the folder that has them"));
  }
  std::ranges::sort(names);
  return names;
}

// Refuses a plugin that the guard refuses.
void guard_plugin(FolderGuard& guard, PluginInfo& plugin) {
  guard.look_at(plugin.file);
  if (plugin.refusal) {
    return;
  }
  FolderGuard::Finding finding = guard.check(plugin.file, plugin.describe());
  plugin.refusal = std::move(finding.refusal);
  plugin.hash = std::move(finding.hash);
  plugin.signer = std::move(finding.signer);
}

bool have_same_content(const std::string& a, const std::string& b) {
  const std::optional<std::string> hash = content_hash(a);
  return hash && hash == content_hash(b);
}

void refuse_duplicates(std::vector<PluginInfo>& plugins) {
  std::map<std::string, std::vector<PluginInfo*>> by_id;
  for (PluginInfo& plugin : plugins) {
    if (plugin.is_usable()) {
      by_id[plugin.manifest.id].push_back(&plugin);
    }
  }
  for (auto& [id, files] : by_id) {
    for (std::size_t i = 1; i < files.size(); ++i) {
      for (std::size_t j = 0; j < i && files[i]->same_as.empty(); ++j) {
        if (files[j]->same_as.empty() && have_same_content(files[i]->file, files[j]->file)) {
          files[i]->same_as = files[j]->file;
          log_debug(files[i]->file + " is a copy of " + files[j]->file + ", which is used");
        }
      }
    }
    std::erase_if(files, [](const PluginInfo* plugin) { return !plugin->is_usable(); });
    if (files.size() < 2) {
      continue;
    }
    std::string list;
    for (std::size_t i = 0; i < files.size(); ++i) {
      list += (i == 0                  ? ""
               : i + 1 == files.size() ? " and "
                                       : ", ") +
              files[i]->file + " (" + files[i]->manifest.version + ")";
    }
    for (PluginInfo* const plugin : files) {
      plugin->refusal = Error("plugin.duplicate_id",
                              list + " have the same id " + id + " but differ; keep one of them");
    }
  }
}

}  // namespace

std::vector<PluginFolder> split_plugin_path(std::string_view list, std::string_view origin) {
  std::vector<PluginFolder> folders;
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(':'));
    list.remove_prefix(std::min(part.size() + 1, list.size()));
    if (!part.empty()) {
      folders.push_back({std::string(part), std::string(origin)});
    }
  }
  return folders;
}

std::string host_torch_fingerprint() {
  return kTorchFingerprint;
}

PluginInfo inspect_plugin(const std::string& file, const std::string& torch_fingerprint) {
  const std::optional<FileStamp> stamp = file_stamp(file);
  ManifestFile reading = read_manifest(file);
  if (reading.reading != ManifestReading::kNotElf &&
      reading.reading != ManifestReading::kNoManifest) {
    return to_info(file, stamp, std::move(reading), torch_fingerprint);
  }
  PluginInfo plugin{
      .file = file, .manifest = {}, .refusal = std::nullopt, .details = {}, .same_as = {}};
  plugin.refusal = Error(
      "plugin.no_manifest",
      file + " is not a plugin: " + reading.problem +
          (reading.reading == ManifestReading::kNoManifest ? "; build it with tenon_add_plugin()"
                                                           : ""));
  return plugin;
}

std::vector<PluginInfo> scan_plugins(std::span<const PluginFolder> folders,
                                     const ScanRules& rules,
                                     ScanRemarks* remarks) {
  std::vector<PluginInfo> plugins;
  ScanRemarks ignored_remarks;
  ScanRemarks& found = remarks != nullptr ? *remarks : ignored_remarks;
  std::set<std::string> seen;
  for (const PluginFolder& folder : folders) {
    const std::vector<std::string> names = list_folder(folder);
    std::error_code ignored;  // the folder has just been read
    if (!seen.insert(fs::canonical(folder.path, ignored).string()).second) {
      log_debug("the plugin folder " + folder.path + " is given twice");
      continue;
    }
    FolderGuard guard(folder.path, rules.writable, rules.trust ? &*rules.trust : nullptr);
    for (const std::string& name : names) {
      const std::string file = (fs::path(folder.path) / name).lexically_normal().string();
      const std::optional<FileStamp> stamp = file_stamp(file);
      ManifestFile reading = read_manifest(file);
      if (reading.reading == ManifestReading::kNotElf ||
          reading.reading == ManifestReading::kNoManifest) {
        std::string text = file + " is not a plugin: " + reading.problem;
        log_debug(text);
        if (!reading.is_native_library) {  // others may belong to a plugin, and lie beside it
          found.notices.push_back({file, text + "; remove it, or build it again", stamp});
        }
        found.not_plugins.push_back(std::move(text));
        continue;
      }
      PluginInfo& plugin =
          plugins.emplace_back(to_info(file, stamp, std::move(reading), rules.torch_fingerprint));
      if (plugin.is_named_once) {
        found.not_plugins.push_back(plugin.refusal->what());
      }
      guard_plugin(guard, plugin);
    }
    guard.add_notice(found.notices);
  }
  refuse_duplicates(plugins);
  return plugins;
}

}  // namespace tenon
