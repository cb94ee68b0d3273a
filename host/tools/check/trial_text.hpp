// SPDX-License-Identifier: Apache-2.0
//
// The first sample of a trial's batch as a text, for a model that looks up rows: each column has
// the number of the position as its id, so a step gets the rows that the forward got there.
// Threads: the train thread.
#pragma once

#include <tenon/tensor.h>

#include "host/model/row_source.hpp"
#include "host/model/text_fields.hpp"
#include "host/tools/check/model_trial.hpp"

#include <ATen/Functions.h>

#include <cstdint>
#include <vector>

namespace tenon {

class TrialText final : public TextFields, public RowSource {
 public:
  // `trial` is borrowed, and has found a batch.
  explicit TrialText(const ModelTrial& trial) : trial_(trial) {
    for (const ModelValue& value : trial.graph().values) {
      if (value.lookup.has_value() && !value.lookup->column.empty()) {
        FieldInfo& field = fields_.emplace_back();
        field.name = value.lookup->column;
        field.dtype = TENON_I64;
      }
    }
  }

  const std::vector<FieldInfo>& fields() const override { return fields_; }
  std::vector<at::Tensor> values(const std::vector<int64_t>& ids) override {
    const auto length = static_cast<int64_t>(ids.size());
    return std::vector<at::Tensor>(fields_.size(), at::arange(length, at::kLong).unsqueeze(0));
  }

  std::unique_ptr<RowPass> begin(const Batch* batch,
                                 const CallPoint& /*point*/,
                                 Lookup /*lookup*/) override {
    return std::make_unique<Pass>(trial_, batch->fields.back().select(0, 0).to(at::kCPU));
  }

 private:
  class Pass final : public RowPass {
   public:
    Pass(const ModelTrial& trial, at::Tensor positions)
        : trial_(trial), positions_(std::move(positions)) {}
    at::Tensor rows(uint32_t v, const at::Tensor& /*ids*/) override {
      return trial_.value(v).select(0, 0).index_select(0, positions_).unsqueeze(0);
    }
    void take_grad(uint32_t /*v*/, const at::Tensor& /*grad*/) override {}

   private:
    const ModelTrial& trial_;
    const at::Tensor positions_;  // new ones, [n]
  };

  const ModelTrial& trial_;
  std::vector<FieldInfo> fields_;
};

}  // namespace tenon
