// SPDX-License-Identifier: Apache-2.0
#include "host/cli/action.hpp"

#include <algorithm>
#include <array>

namespace tenon {

const Option* Action::find_option(std::string_view name) const {
  if (name == option.name) {
    return &option;
  }
  const auto found = std::ranges::find(options, name, &Option::name);
  return found != options.end() ? &*found : nullptr;
}

std::span<const Action* const> all_actions() {
  static constexpr std::array kActions = {&kTrainAction,
                                          &kEvaluateAction,
                                          &kValidateAction,
                                          &kPrintRecipeAction,
                                          &kLockAction,
                                          &kPlanAction,
                                          &kProcessDataAction,
                                          &kPrintSchemaAction,
                                          &kListPluginsAction,
                                          &kDescribeAction,
                                          &kNewPluginAction,
                                          &kCheckPluginAction,
                                          &kListChecksAction,
                                          &kExplainAction,
                                          &kInspectAction,
                                          &kVerifyAction,
                                          &kCompareCheckpointsAction,
                                          &kCompareTracesAction,
                                          &kShowRowAction,
                                          &kExportAction,
                                          &kGenerateAction,
                                          &kPrintCompletionAction,
                                          &kPrintManAction,
                                          &kPrintVersionAction,
                                          &kPrintHelpAction};
  return kActions;
}

std::vector<Option> all_options() {
  std::vector<Option> all;
  const auto add = [&all](const Option& option) {
    if (!option.name.empty() && std::ranges::find(all, option.name, &Option::name) == all.end()) {
      all.push_back(option);
    }
  };
  for (const Action* const action : all_actions()) {
    add(action->option);
    std::ranges::for_each(action->options, add);
  }
  return all;
}

}  // namespace tenon
