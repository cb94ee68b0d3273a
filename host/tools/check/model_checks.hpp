// SPDX-License-Identifier: Apache-2.0
//
// Checks of models, block by block: graph, recompute, gradients, precision, the views and sizes
// that a block may get, and steps of generation. Threads: one at a time, in the process of the
// check.
#pragma once

#include "host/tools/check/check.hpp"

namespace tenon {

CheckResult check_model_graph(Subject& subject);
CheckResult check_model_results(Subject& subject);
CheckResult check_model_recompute(Subject& subject);
CheckResult check_model_gradients(Subject& subject);
CheckResult check_model_fp64(Subject& subject);
CheckResult check_model_views(Subject& subject);
CheckResult check_model_reads_only(Subject& subject);
CheckResult check_model_sizes(Subject& subject);
CheckResult check_model_tokenwise(Subject& subject);
CheckResult check_model_generation(Subject& subject);

}  // namespace tenon
