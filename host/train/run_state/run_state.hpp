// SPDX-License-Identifier: Apache-2.0
//
// The progress of a run. The journal reports it, so it is defined there.
#pragma once

#include "host/journal/run_counts.hpp"
