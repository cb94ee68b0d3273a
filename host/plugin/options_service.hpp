// SPDX-License-Identifier: Apache-2.0
//
// A component's options as its plugin reads them, by JSON pointer. They have been validated before;
// here they are only looked up.
// Invariant: an Options lives for one `create`, and so does every string it hands out.
// Threads: the service's functions may be called from any thread.

#pragma once

#include <tenon/options.h>

#include <map>
#include <memory>
#include <string>

namespace tenon {

class ComponentIdentity;

// The components that options name, by the option's JSON pointer ("/tokenizer").
using NamedComponents = std::map<std::string, tenon_component_ref>;

class Options {
 public:
  // `json` is the text of an object; `identity` must live longer than this object.
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

// The table of TENON_OPTIONS_ID.
const tenon_options_api* options_service() noexcept;

}  // namespace tenon
