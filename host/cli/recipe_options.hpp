// SPDX-License-Identifier: Apache-2.0
//
// Options that several actions share: the recipe, its values, and the plugins.
// Threads: any.
#pragma once

#include "host/cli/command_line.hpp"
#include "host/recipe/load_recipe.hpp"
#include "host/terminal/given_options.hpp"
#include "host/terminal/option.hpp"

#include <array>
#include <string>

namespace tenon {

inline constexpr Option kRecipeOption{"recipe", "FILE", "recipe: JSON with comments"};
inline constexpr Option kPluginDirOption{
    "plugin-dir",
    "DIR",
    "plugin folder; repeat the option for more folders. Default: those of\n"
    "TENON_PLUGIN_PATH, else the folder \"plugins\" of this installation",
    Repeat::kYes};
inline constexpr Option kSetOption{"set",
                                   "PATH=VALUE",
                                   "override a value of the recipe, as in train.steps=10 or\n"
                                   "hooks.0.type=early_stop; repeat the option for more values",
                                   Repeat::kYes};
inline constexpr Option kDeviceOption{
    "device",
    "DEVICE",
    "cpu, cuda, cuda:N, or auto for a GPU if the machine has one;\n"
    "overrides the recipe's device",
    Repeat::kNo,
    "auto cpu cuda"};
inline constexpr Option kWhichOption{
    "which",
    "best|last",
    "parameters to read: of the best evaluation so far, which eval.keep_best\n"
    "keeps, or of the last step; default best if the checkpoint keeps it",
    Repeat::kNo,
    "best last"};
inline constexpr Option kQuietOption{"quiet", "", "print only warnings and errors"};
inline constexpr Option kLogLevelOption{
    "log-level",
    "LEVEL",
    "lowest level to log: debug, info, warning or error; default info",
    Repeat::kNo,
    "debug info warning error"};
inline constexpr Option kNoVetCacheOption{
    "no-vet-cache", "", "check each plugin in a child process again; ignore cached results"};

inline constexpr Option kTrustOption{
    "trust",
    "FILE",
    "load only plugins that a key of this file has signed (FILE.so.sig);\n"
    "overrides the recipe's plugins.trust"};
inline constexpr Option kAllowWritableOption{
    "allow-writable-plugins", "", "also load plugins that all users of the machine can change"};

// Reads --plugin-dir, --log-level, --no-vet-cache, --trust, --allow-writable-plugins, --quiet and
// --json.
void read_plugin_options(const GivenOptions& given, CommandLine& line);

// Reads --which; kAuto if it is not given.
WhichParameters read_which(const GivenOptions& given);

// The options of an action that checks a recipe and nothing else.
inline constexpr std::array kRecipeOptions = {kRecipeOption,
                                              kPluginDirOption,
                                              kSetOption,
                                              kDeviceOption,
                                              kLogLevelOption,
                                              kNoVetCacheOption,
                                              kTrustOption,
                                              kAllowWritableOption};

// Reads --recipe, --set and --device, and the options of read_plugin_options(). Without --recipe,
// the recipe is that of the run folder that --run-dir or --resume names; these are read before.
//
// Errors   usage.missing_recipe if there is no recipe
void read_recipe_options(const GivenOptions& given, CommandLine& line);

}  // namespace tenon
