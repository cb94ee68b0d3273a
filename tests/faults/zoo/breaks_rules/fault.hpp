// SPDX-License-Identifier: Apache-2.0
//
// The option of all components of the plugin `breaks_rules`. They train like good ones. With a
// fault, each breaks one rule that only --check-plugin looks for; with "" it passes all checks.
#pragma once

#include <tenon/cpp/options.hpp>

#include <string>

namespace {

struct FaultOptions {
  std::string fault;
};

void bind_fault(tenon::OptionBinder<FaultOptions>& binder) {
  binder.field("fault", &FaultOptions::fault).doc("which rule is broken; \"\": none");
}

}  // namespace
