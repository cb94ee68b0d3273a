// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/plugin_loader.hpp"

#include "host/log/log.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/plugin/process_settings.hpp"
#include "host/plugin/registration.hpp"
#include "host/plugin/watchdog.hpp"
#include "host/trust/trust.hpp"

#include <boost/dll/shared_library.hpp>

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <link.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace tenon {
namespace {

struct Entry {
  std::string path;  // canonical
  boost::dll::shared_library file;
  LoadedPlugin plugin;
  std::optional<Error> failure;           // set if loading failed
  std::optional<PluginFile> opened = {};  // as long as `file`
};

// Never destroyed or cleared. Plugins hold pointers into their LoadedPlugin. dlclose is unsafe: it
// does nothing if a library uses thread_local or unique symbols, and otherwise leaves deleters and
// handlers that point into unmapped code.
std::vector<std::unique_ptr<Entry>>& all_loaded() {
  static auto* const entries = new std::vector<std::unique_ptr<Entry>>;
  return *entries;
}

// Returns the fix for an error message of the dynamic linker.
std::string fix_for(const std::string& problem) {
  if (problem.find("undefined symbol") != std::string::npos) {
    return "link it with the library that has the symbol (-Wl,-z,defs finds this while building)";
  }
  if (problem.find("static TLS") != std::string::npos) {
    return "build it and its libraries without -ftls-model=initial-exec";
  }
  if (problem.find("cannot open shared object file") != std::string::npos) {
    return "install the library it needs, or add its folder to LD_LIBRARY_PATH";
  }
  if (problem.find("failed to map segment") != std::string::npos) {
    return problem.find("not permitted") != std::string::npos
               ? "move it to a file system that is not mounted noexec"
               : "raise ulimit -v, or free memory on the machine";
  }
  return "build it again";
}

void open_library(const PluginInfo& plugin, Entry& entry) {
  boost::system::error_code failed;
  const CallScope scope(entry.plugin.itself, "its loading");
  // Binds all symbols now, and hides them from plugins loaded later.
  entry.file.load(
      entry.path, failed, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (failed) {
    const char* const linker = dlerror();
    const std::string problem = linker != nullptr ? linker : failed.message();
    throw Error("plugin.load_failed",
                plugin.describe() + " cannot be loaded: " + problem + "; " + fix_for(problem));
  }
}

// Returns the mapped files of each libtorch library, by library name.
std::map<std::string, std::set<std::string>> mapped_torch_libraries() {
  std::map<std::string, std::set<std::string>> files;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* context) {
        const std::filesystem::path file = info->dlpi_name != nullptr ? info->dlpi_name : "";
        const std::string base = file.filename().string();
        for (const std::string name : {"libc10", "libtorch_cpu"}) {
          // Packaging tools rename libraries to "libc10-0a1b2c3d.so"; libc10_cuda is a different
          // library.
          if (base.starts_with(name + ".") || base.starts_with(name + "-")) {
            std::error_code ignored;  // mapped files normally exist
            const auto real = std::filesystem::weakly_canonical(file, ignored);
            auto& all = *static_cast<std::map<std::string, std::set<std::string>>*>(context);
            all[name].insert(real.empty() ? file.string() : real.string());
          }
        }
        return 0;
      },
      &files);
  return files;
}

void check_one_torch(const PluginInfo& plugin) {
  for (const auto& [name, files] : mapped_torch_libraries()) {
    if (files.size() > 1) {
      std::string list;
      for (const std::string& file : files) {
        list += (list.empty() ? "" : " and ") + file;
      }
      throw Error("plugin.torch_mismatch",
                  plugin.describe() + " loads a second " + name + " into the process (" + list +
                      "); build it without its own library path, and do not ship libtorch with it");
    }
  }
}

void load(const PluginInfo& plugin, Entry& entry) {
  const PluginFile& opened = entry.opened.emplace(entry.path, plugin.describe());
  opened.check_same(plugin.stamp, plugin.hash);
  entry.plugin.hash = opened.hash();
  open_library(plugin, entry);
  opened.check_loaded(entry.file.native());
  check_one_torch(plugin);
  if (!entry.file.has(TENON_ENTRY_SYMBOL)) {
    throw Error(
        "plugin.load_failed",
        plugin.describe() + " does not export " TENON_ENTRY_SYMBOL "; define it with TENON_EXPORT");
  }
  run_entry(entry.file.get<tenon_status*(tenon_entry_args*)>(TENON_ENTRY_SYMBOL),
            plugin.manifest,
            entry.plugin);
}

}  // namespace

const LoadedPlugin& load_plugin(const PluginInfo& plugin, const ServiceTable& services) {
  std::error_code unresolved;
  const std::string path = std::filesystem::canonical(plugin.file, unresolved).string();
  if (unresolved) {
    throw Error("plugin.load_failed",
                plugin.describe() + " cannot be loaded: " + unresolved.message() +
                    "; it existed when its folder was read");
  }
  auto found = std::ranges::find(
      all_loaded(), path, [](const auto& entry) -> const std::string& { return entry->path; });
  if (found == all_loaded().end()) {
    const PluginContext context{plugin.manifest.id, plugin.manifest.version, plugin.file};
    // Added before its code runs: pointers that the code keeps stay valid even if loading fails.
    all_loaded().push_back(
        std::unique_ptr<Entry>(new Entry{path, {}, LoadedPlugin(context, services), std::nullopt}));
    found = std::prev(all_loaded().end());
    const ProcessSettings before;
    try {
      load(plugin, **found);
    } catch (const Error& error) {
      (*found)->failure = error;
    }
    if (const std::string changed = before.restore(); !changed.empty()) {
      (*found)->plugin.changed_settings = changed;
      log_warning((*found)->plugin.itself.describe() + " changed " + changed +
                  " of the process while it was loaded; Tenon has restored it");
    }
  }
  if ((*found)->failure) {
    throw *(*found)->failure;
  }
  return (*found)->plugin;
}

std::vector<const LoadedPlugin*> loaded_plugins() {
  std::vector<const LoadedPlugin*> plugins;
  for (const std::unique_ptr<Entry>& entry : all_loaded()) {
    if (!entry->failure) {
      plugins.push_back(&entry->plugin);
    }
  }
  return plugins;
}

const LoadedPlugin* plugin_of_code(const void* instruction) noexcept {
  Dl_info info{};
  if (instruction == nullptr || ::dladdr(instruction, &info) == 0 || info.dli_fname == nullptr) {
    return nullptr;
  }
  for (const std::unique_ptr<Entry>& entry : all_loaded()) {
    if (entry->path == info.dli_fname) {
      return &entry->plugin;
    }
  }
  return nullptr;
}

bool shutdown_plugins(const std::function<void(const StuckCall&)>& on_stuck) {
  constexpr std::chrono::duration<double> kLimit{10};
  std::optional<Watchdog> watchdog;
  bool is_clean = true;
  std::vector<std::unique_ptr<Entry>>& entries = all_loaded();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    LoadedPlugin& plugin = (*entry)->plugin;
    const auto shutdown = std::exchange(plugin.shutdown, nullptr);
    if (shutdown == nullptr) {
      continue;
    }
    if (on_stuck && !watchdog.has_value()) {
      watchdog.emplace(WatchLimits{.data = std::nullopt, .other = kLimit}, on_stuck);
    }
    try {
      ComponentIdentity(plugin.itself, "").watch("shutdown", shutdown);
    } catch (const Error& error) {
      is_clean = false;
      log_error(error.what());
    }
  }
  return is_clean;
}

}  // namespace tenon
