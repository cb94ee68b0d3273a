// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_trial.hpp"
#include "host/plugin/registration.hpp"
#include "host/plugin/vet_components.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Of the other plugins, which the seed chooses.
constexpr std::size_t kMaxOthers = 10;

constexpr const char* kUnknownId = "org.tenon.check.unknown/1";

// Errors of the entry that a check of their own reports.
bool is_registration_error(const std::string& id) {
  constexpr auto kIds = std::to_array<std::string_view>({"plugin.components_differ",
                                                         "plugin.missing_interface",
                                                         "plugin.bad_struct",
                                                         "plugin.bad_schema",
                                                         "plugin.abi_mismatch"});
  return std::ranges::find(kIds, id) != kIds.end();
}

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::vector<std::string> environment_texts() {
  std::vector<std::string> texts;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    texts.emplace_back(*variable);
  }
  std::ranges::sort(texts);
  return texts;
}

// What a plugin may not leave behind in the process, except the settings of ProcessSettings.
struct ProcessTraces {
  std::vector<std::string> environment = environment_texts();
  std::size_t num_threads = names_in("/proc/self/task").size();
  std::size_t num_files = names_in("/proc/self/fd").size();
};

// Collects what the process prints during its lifetime.
class PrintedText {
 public:
  PrintedText() : file_(::memfd_create("printed", MFD_CLOEXEC)) {
    std::fflush(nullptr);
    for (std::size_t i = 0; i < kStreams.size(); ++i) {
      saved_[i] = ::fcntl(kStreams[i], F_DUPFD_CLOEXEC, 0);
      ::dup2(file_, kStreams[i]);
    }
  }
  PrintedText(const PrintedText&) = delete;
  PrintedText& operator=(const PrintedText&) = delete;
  ~PrintedText() { end(); }

  // Restores the streams, and returns the text.
  std::string end() {
    if (file_ < 0) {
      return {};
    }
    std::fflush(nullptr);
    for (std::size_t i = 0; i < kStreams.size(); ++i) {
      ::dup2(saved_[i], kStreams[i]);
      ::close(saved_[i]);
    }
    std::string text(200, '\0');
    const ssize_t size = ::pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    ::close(std::exchange(file_, -1));
    return text;
  }

 private:
  static constexpr std::array kStreams = {STDOUT_FILENO, STDERR_FILENO};
  int file_;
  std::array<int, 2> saved_{};
};

// Loads the plugin into this process, without load_plugin(): its entry meets another host.
void run_entry_as(Subject& subject, const EntryOffer& offer) {
  subject.note("");
  void* const library =
      ::dlopen(std::filesystem::absolute(subject.info().file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error("plugin.load_failed", ::dlerror());
  }
  void* const entry = ::dlsym(library, TENON_ENTRY_SYMBOL);
  const Manifest& manifest = subject.info().manifest;
  // Never destroyed: the plugin keeps pointers.
  auto* const plugin = new LoadedPlugin({manifest.id, manifest.version, subject.info().file},
                                        subject.request().services);
  run_entry(reinterpret_cast<PluginEntry>(entry), manifest, *plugin, offer);
}

}  // namespace

CheckResult check_loads(Subject& subject) {
  try {
    subject.plugin();
  } catch (const Error& error) {
    if (!is_registration_error(error.id())) {
      return failed(error.message());
    }
  }
  return passed();
}

CheckResult check_registers(Subject& subject) {
  try {
    subject.plugin();
  } catch (const Error& error) {
    if (error.id() == "plugin.bad_schema" || error.id() == "plugin.abi_mismatch") {
      return skipped("the host refuses the plugin for another reason: " + error.message());
    }
    return failed(error.message());
  }
  return passed();
}

CheckResult check_entry_version(Subject& subject) {
  try {
    subject.plugin();
  } catch (const Error& error) {
    if (error.id() == "plugin.abi_mismatch") {
      return failed(error.message());
    }
  }
  return passed();
}

CheckResult check_keeps_process(Subject& subject) {
  const ProcessTraces before;
  PrintedText printed;
  std::string settings;
  try {
    settings = subject.plugin().changed_settings;
  } catch (const Error& error) {
    printed.end();
    return skipped("the plugin does not load: " + error.message());
  }
  const std::string text = printed.end();
  const ProcessTraces after;
  Findings findings;
  findings.add_examined();
  if (!settings.empty()) {
    findings.add_problem("loading changed " + settings);
  }
  if (after.environment != before.environment) {
    findings.add_problem("loading changed the environment variables");
  }
  if (after.num_threads > before.num_threads) {
    findings.add_problem(
        formatted("loading started {} threads", after.num_threads - before.num_threads));
  }
  if (after.num_files > before.num_files + 1) {  // the host keeps the plugin's file open
    findings.add_problem(
        formatted("loading opened {} files", after.num_files - before.num_files - 1));
  }
  if (!text.empty()) {
    findings.add_problem("loading printed \"" + text + "\"");
  }
  return findings.result("");
}

CheckResult check_beside_others(Subject& subject) {
  const PluginInfo& own = subject.info();
  std::vector<PluginInfo> others = scan_plugins(subject.request().folders);
  std::erase_if(others, [&](const PluginInfo& other) {
    return !other.is_usable() || other.manifest.id == own.manifest.id;
  });
  const std::chrono::milliseconds limit = subject.request().load_limit * 2;
  const auto load = [](Subject& apart, const PluginInfo& plugin) {
    apart.note("the loading of " + plugin.file);
    try {
      load_plugin(plugin, apart.request().services);
    } catch (const Error&) {  // its own fault
    }
  };
  std::mt19937_64 generator = subject.generator();
  std::ranges::shuffle(others, generator);
  others.resize(std::min(others.size(), kMaxOthers));
  // A plugin that does not load alone proves nothing.
  std::vector<const PluginInfo*> pointers;
  for (const PluginInfo& other : others) {
    pointers.push_back(&other);
  }
  subject.note("the loading of other plugins");
  const std::vector<Verdict> verdicts =
      try_plugins(pointers, subject.request().services, subject.request().load_limit);
  std::vector<PluginInfo> good;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (verdicts[i].is_good()) {
      good.push_back(others[i]);
    }
  }
  others = std::move(good);
  if (others.empty()) {
    return skipped("there are no other plugins in the plugin folders");
  }
  const auto in_order = [&](bool is_first) {
    return subject.try_apart(
        [&](Subject& apart) -> std::string {
          if (is_first) {
            load(apart, own);
          }
          for (const PluginInfo& other : others) {
            load(apart, other);
          }
          if (!is_first) {
            apart.plugin();
          }
          return "";
        },
        limit);
  };
  for (const bool is_first : {true, false}) {
    if (std::optional<CheckResult> result = in_order(is_first)) {
      result->found.front() =
          (is_first ? "loaded before the other plugins: " : "loaded after the other plugins: ") +
          result->found.front();
      return *result;
    }
  }
  return passed(formatted("loaded before and after {} others", others.size()));
}

CheckResult check_newer_host(Subject& subject) {
  const EntryOffer newer{.newest_minor = kHostAbi.max_minor + 1, .later_bytes = 64};
  try {
    run_entry_as(subject, newer);
  } catch (const Error& error) {
    return failed(
        formatted("a host of ABI {}.{} whose tenon_entry_args is 64 bytes larger refuses "
                  "it: {}",
                  kHostAbi.major,
                  newer.newest_minor,
                  error.message()));
  }
  return passed();
}

CheckResult check_unknown_ids(Subject& subject) {
  return subject.for_each_instance(
      "", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        findings.add_examined();
        subject.note("get_extension of " + checked.name());
        if (instance.extension(kUnknownId) != nullptr) {
          findings.add_problem("get_extension of " + checked.name() + " returned a table for \"" +
                               kUnknownId + "\"");
        }
        const tenon_component& descriptor = instance.descriptor();
        if (TENON_HAS(tenon_component, &descriptor, get_table)) {
          subject.note("get_table of " + checked.name());
          if (descriptor.get_table(kUnknownId) != nullptr) {
            findings.add_problem("get_table of " + checked.name() + " returned a table for \"" +
                                 kUnknownId + "\"");
          }
        }
      });
}

CheckResult check_absent_services(Subject& subject) {
  const std::vector<std::string>& required = subject.info().manifest.services;
  int num_tried = 0;
  for (const auto& [id, table] : subject.request().services) {
    if (std::ranges::find(required, id) != required.end()) {
      continue;
    }
    CheckRequest request = subject.request();
    request.services.erase(id);
    request.recipe.clear();
    ++num_tried;
    Subject reduced(request, subject.info(), nullptr);
    const std::optional<CheckResult> result = reduced.try_apart(
        [](Subject& apart) {
          try {
            apart.plugin();
            for (const CheckedComponent& checked : apart.components()) {
              if (checked.problem.empty()) {
                describe_instance(apart.create(checked));
              }
            }
          } catch (const Error&) {  // a status is the right answer
          }
          return "";
        },
        subject.request().load_limit);
    if (result) {
      CheckResult named = *result;
      named.found.front() = "without the service " + id + ": " + named.found.front();
      return named;
    }
  }
  return passed(formatted("tried without each of {} services", num_tried));
}

}  // namespace tenon
