// SPDX-License-Identifier: Apache-2.0
//
// Verdicts on plugins: from the cache if the same file was vetted before, else from a child process
// that loads them (vet.hpp).
// Threads: [main], before the process starts other threads, because the child is a fork.
#pragma once

#include "host/trust/vet_trial.hpp"

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class VetCache;

// Returns the timeout per plugin: TENON_VET_TIMEOUT_S, or 10 s if it is not set.
//
// Errors   usage.bad_option if the value is not above 0 and at most 86400 s
std::chrono::milliseconds vet_timeout_from_environment();

// Returns ${XDG_CACHE_HOME:-~/.cache}/tenon/vetted.json, or "" if neither variable is an absolute
// path.
std::string default_vet_cache_file();

struct VetRules {
  std::string cache_file = {};  // "": no cache
  // What a verdict depends on beside the file of the plugin and the build of this host: "abi 0.5".
  std::string depends_on = {};
  bool ignores_cache = false;  // vets all plugins again, and replaces their cached verdicts
  std::chrono::milliseconds timeout = std::chrono::seconds(10);  // per plugin
};

class PluginVetter {
 public:
  // Reads the cache. A corrupt one counts as empty.
  explicit PluginVetter(VetRules rules);
  PluginVetter(const PluginVetter&) = delete;
  PluginVetter& operator=(const PluginVetter&) = delete;
  ~PluginVetter();

  // Returns a verdict for each plugin, in order, and stores new ones in the cache. `trial` gets the
  // index among `plugins`.
  //
  // Errors   run.out_of_resources if a process cannot be created
  std::vector<Verdict> vet(std::span<const VetSubject> plugins, const VetTrial& trial);

 private:
  VetRules rules_;
  std::unique_ptr<VetCache> cache_;
};

}  // namespace tenon
