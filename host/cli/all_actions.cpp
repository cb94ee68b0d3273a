// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"

#include <array>

namespace tenon {

ActionTable all_actions() {
  static constexpr std::array kActions = {&kTrainAction,
                                          &kEvaluateAction,
                                          &kValidateAction,
                                          &kPrintRecipeAction,
                                          &kLockAction,
                                          &kPlanAction,
                                          &kScheduleAction,
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

}  // namespace tenon
