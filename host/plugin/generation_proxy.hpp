// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a model's ability to generate with caches (contract:
// tenon/draft/generation.h). The graph of the model is unknown here.
// Threads: [main] to create it, then the train thread.
#pragma once

#include <tenon/draft/generation.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// As the model describes it. Names are not checked.
struct GenerationInfo {
  std::string ids;                     // value that holds token ids
  std::string logits;                  // value that holds logits
  int64_t max_positions = 0;           // at least 1
  std::vector<uint32_t> cache_blocks;  // by cache
};

class GenerationProxy {
 public:
  // Returns nothing if the model cannot generate with caches. The instance must outlive the proxy.
  //
  // Errors   plugin.missing_interface if its table lacks a function
  static std::optional<GenerationProxy> of(const ComponentInstance& instance);

  // Errors   PluginError, with TENON_UNSUPPORTED if options of the model exclude generation;
  //          plugin.bad_result for missing names or no positions
  GenerationInfo describe() const;

  // Runs one block on new positions. If it throws, the caller releases handles that are already in
  // `args`.
  //
  // Errors   PluginError
  // Threads  the train thread
  void step(const tenon_exec& exec, tenon_generation_args& args) const {
    instance_->call("step", [&] { return table_->step(instance_->self(), &exec, &args); });
  }

 private:
  GenerationProxy(const ComponentInstance& instance, const tenon_generation* table)
      : instance_(&instance), table_(table) {}

  const ComponentInstance* instance_;
  const tenon_generation* table_;
};

}  // namespace tenon
