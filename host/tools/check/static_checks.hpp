// SPDX-License-Identifier: Apache-2.0
//
// Checks of the file of a plugin. Nothing of the plugin runs.
// Threads: any.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_elf(Subject& subject);
CheckResult check_manifest(Subject& subject);
CheckResult check_compatible(Subject& subject);
CheckResult check_one_export(Subject& subject);
CheckResult check_unique_symbols(Subject& subject);
CheckResult check_host_symbols(Subject& subject);
CheckResult check_torch_symbols(Subject& subject);
CheckResult check_library_path(Subject& subject);
CheckResult check_runtimes(Subject& subject);
CheckResult check_text_relocations(Subject& subject);
CheckResult check_stack(Subject& subject);
CheckResult check_static_tls(Subject& subject);
CheckResult check_system_versions(Subject& subject);

}  // namespace tenon
