// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a model's description of its weights in the files of another program
// (contract: tenon/draft/weights_layout.h). The meaning of the names is unknown here.
// Threads: [main].
#pragma once

#include <tenon/draft/weights_layout.h>

#include "host/plugin/instance.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct LayoutEntry {
  std::string name;       // of the file's tensor
  std::string parameter;  // of the model
  uint32_t flags = 0;     // TENON_LAYOUT_*
  int64_t first = 0;      // row of the file's tensor
  int64_t index = 0;      // with TENON_LAYOUT_SLICE: of the slice
};

struct LayoutFile {
  std::string name;
  std::string text;
};

struct LayoutDescription {
  std::vector<LayoutEntry> tensors;
  std::vector<LayoutFile> files;
};

struct LayoutDifference {
  std::string option;
  std::string here;
  std::string there;
};

class WeightsLayoutProxy {
 public:
  // Returns null if the model has no layouts. The instance must outlive the proxy.
  //
  // Errors   plugin.missing_interface if its table lacks a function
  static std::optional<WeightsLayoutProxy> of(const ComponentInstance& instance);

  // Errors   PluginError; plugin.bad_result for missing names or invalid file names
  LayoutDescription describe(const std::string& layout, uint32_t dtype) const;
  // `config` is the text of a JSON object.
  // Errors  PluginError
  std::vector<LayoutDifference> compare(const std::string& layout, const std::string& config) const;

 private:
  WeightsLayoutProxy(const ComponentInstance& instance, const tenon_weights_layout* table)
      : instance_(&instance), table_(table) {}

  const ComponentInstance* instance_;
  const tenon_weights_layout* table_;
};

}  // namespace tenon
