// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/plugin_trial.hpp"

#include "host/error/error.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/vet_components.hpp"

#include <exception>

namespace tenon {
namespace {

Verdict try_plugin(const PluginInfo& plugin,
                   const ServiceTable& services,
                   const ReportCall& report) {
  Verdict verdict;
  try {
    const LoadedPlugin& loaded = load_plugin(plugin, services);
    verdict.hash = loaded.hash;
    vet_components(loaded, report);
  } catch (const Error& error) {
    verdict.id = error.id();
    verdict.message = error.message();
  } catch (...) {
    std::terminate();  // with the exception active, so that the output names it
  }
  return verdict;
}

}  // namespace

std::vector<VetSubject> vet_subjects(std::span<const PluginInfo* const> plugins) {
  std::vector<VetSubject> subjects;
  for (const PluginInfo* const plugin : plugins) {
    subjects.push_back({.file = plugin->file,
                        .described = plugin->describe(),
                        .stamp = plugin->stamp,
                        .hash = plugin->hash});
  }
  return subjects;
}

VetTrial trial_of(std::span<const PluginInfo* const> plugins, const ServiceTable& services) {
  return [plugins, &services](std::size_t index, const ReportCall& report) {
    return try_plugin(*plugins[index], services, report);
  };
}

std::vector<Verdict> try_plugins(std::span<const PluginInfo* const> plugins,
                                 const ServiceTable& services,
                                 std::chrono::milliseconds timeout) {
  return PluginVetter({.timeout = timeout}).vet(vet_subjects(plugins), trial_of(plugins, services));
}

}  // namespace tenon
