// SPDX-License-Identifier: Apache-2.0
//
// The tensors and files of a PEFT folder: adapter_model.safetensors and adapter_config.json. The
// plugins of the parametrizations know names and settings of one module; the model's plugin knows
// the names of the modules. This file knows how PEFT joins both. Reads and writes no files.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/instance.hpp"
#include "host/train/weights/layout_map.hpp"

#include <set>
#include <string>
#include <vector>

namespace tenon {

inline constexpr char kAdapterConfig[] = "adapter_config.json";
inline constexpr char kAdapterBase[] = "adapter_base.json";  // the hash of the base, for Tenon

// Whether an adapter is written or read, for messages.
enum class PeftUse { kExport, kLoad };

// Returns the map of the real parameters of all parametrizations, and adapter_config.json. Of
// the names of a folder's tensors, `there`, it also maps those of the model's own parameters.
//
// Errors   weights.no_layout if a parametrization has no names for PEFT, or there is none;
//          weights.bad_layout if PEFT cannot express them: the weight of a module is not one
//          parameter, or settings differ that PEFT has only once
LayoutMap peft_layout_map(const ComponentInstance& model,
                          const ModelGraph& graph,
                          PeftUse use = PeftUse::kExport,
                          const std::set<std::string>& there = {});

// Returns where the text of an adapter_config.json contradicts the parametrizations of a graph:
// "rank of 'model.layers.0...' is 16 in the recipe, and 8 in adapter_config.json".
//
// Errors   as peft_layout_map()
std::vector<std::string> peft_differences(const ComponentInstance& model,
                                          const ModelGraph& graph,
                                          const std::string& config);

}  // namespace tenon
