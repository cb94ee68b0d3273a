// SPDX-License-Identifier: Apache-2.0
//
// What the help and the man page say beside options: the purpose, the environment, the exit status.
#pragma once

#include <array>
#include <string_view>

namespace tenon {

inline constexpr std::string_view kPurpose =
    "Trains the model that a recipe describes. The model, the data, the loss, the optimizer and "
    "all\n"
    "other components are plugins. The recipe names them; Tenon finds them in the plugin "
    "folders.\n";

struct HelpNote {
  std::string_view name;
  std::string_view text;
};

inline constexpr auto kEnvironmentNotes = std::to_array<HelpNote>({
    {"TENON_PLUGIN_PATH", "more plugin folders, separated by colons"},
    {"TENON_VET_TIMEOUT_S", "seconds until loading a plugin times out; default 10"},
    {"TENON_ALLOW_WRITABLE_PLUGINS", "1: as --allow-writable-plugins"},
});

inline constexpr auto kExitStatusNotes = std::to_array<HelpNote>({
    {"0", "success, also if a hook stopped training early"},
    {"1", "--trace-diff or --diff found a difference"},
    {"2", "invalid command line, or a folder on it cannot be used"},
    {"3", "invalid recipe, or schedule of a pipeline"},
    {"4", "a plugin failed before the first step, or a check of --check-plugin"},
    {"5", "the run failed after its first step"},
    {"6", "the policy for non-finite updates ended the run"},
    {"75", "stopped on request before the end: a signal, the kill switch or exit_at_step"},
});

}  // namespace tenon
