// SPDX-License-Identifier: Apache-2.0
//
// The options service: plugins read the options of a component by JSON pointer. The options are
// already validated.
// Invariant: an Options object lives during one call into the plugin, such as `create`. Strings
// that it returns live as long as the object.
// Threads: the service's functions may be called from any thread.

#pragma once

#include <tenon/options.h>

#include <map>
#include <memory>
#include <string>

namespace tenon {

class ComponentIdentity;

// The components that options refer to, by JSON pointer of the option ("/tokenizer").
using NamedComponents = std::map<std::string, tenon_component_ref>;

class Options {
 public:
  // `json` is the text of a JSON object; `identity` must outlive this object.
  Options(const std::string& json,
          const NamedComponents& nested,
          const ComponentIdentity& identity);
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  ~Options();

  const tenon_options* abi() const noexcept { return options_.get(); }

 private:
  std::unique_ptr<const tenon_options> options_;
};

// Returns the table of TENON_OPTIONS_ID.
const tenon_options_api* options_service() noexcept;

}  // namespace tenon
