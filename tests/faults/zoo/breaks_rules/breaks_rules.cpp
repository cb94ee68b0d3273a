// SPDX-License-Identifier: Apache-2.0
//
// Components that break one rule each, of those that only the checker looks for.
#include <tenon/cpp/plugin.hpp>

#include "tests/faults/zoo/breaks_rules/adapters.hpp"
#include "tests/faults/zoo/breaks_rules/blocks.hpp"
#include "tests/faults/zoo/breaks_rules/judges.hpp"
#include "tests/faults/zoo/breaks_rules/keepers.hpp"
#include "tests/faults/zoo/breaks_rules/rows.hpp"
#include "tests/faults/zoo/breaks_rules/sources.hpp"

TENON_PLUGIN(RuleModel,
             RuleMap,
             RuleStream,
             RuleFeature,
             RuleLoss,
             RuleMetric,
             RuleRows,
             RuleHook,
             RuleSink,
             RuleStorage,
             RuleAdapter)
