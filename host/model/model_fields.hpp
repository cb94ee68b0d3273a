// SPDX-License-Identifier: Apache-2.0
//
// Compares what a model reads of a batch with what a dataset gives.
// Threads: any.
#pragma once

#include "host/model/graph.hpp"
#include "host/tensor/batch.hpp"

#include <string>
#include <vector>

namespace tenon {

// Checks that a dataset's fields match the model's inputs in name, dtype and axes. The dataset may
// lack optional inputs.
// Errors  model.field_missing, model.field_mismatch, with both sides in the message
void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset);

}  // namespace tenon
