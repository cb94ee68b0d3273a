// SPDX-License-Identifier: Apache-2.0
//
// All that other rooms use of this one (tests/tree/layers.json). It decides whether the host runs
// the code of a plugin file, in this order:
//
//   FolderGuard     who can change the file, and who has signed it; before any of its code runs
//   PluginVetter    what happens when a child process loads it, or what happened last time
//   PluginFile      whether the file that is loaded is the one that was looked at
//   PluginLock      whether it is the file that the recipe was used with
//   Notices         which warnings were logged at an earlier start
//
// Others include the headers of the folders within this one directly: readers of ELF files, child
// processes, and the secrets of ranks.
#pragma once

#include "host/trust/folder_guard.hpp"
#include "host/trust/notices.hpp"
#include "host/trust/plugin_file.hpp"
#include "host/trust/plugin_lock.hpp"
#include "host/trust/plugin_vetter.hpp"
