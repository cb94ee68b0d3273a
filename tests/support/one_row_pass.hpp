// SPDX-License-Identifier: Apache-2.0
//
// Rows for tests with one microbatch at a time: the source answers for its pass.
#pragma once

#include "host/model/row_source.hpp"

#include <memory>

namespace tenon {

class OneRowPass : public RowSource {
 public:
  std::unique_ptr<RowPass> begin(const Batch* batch, const CallPoint& point, Lookup lookup) final {
    start(batch, point, lookup);
    return std::make_unique<Pass>(*this);
  }

  virtual void start(const Batch* batch, const CallPoint& point, Lookup lookup) = 0;
  virtual at::Tensor rows(uint32_t v, const at::Tensor& ids) = 0;
  virtual void take_grad(uint32_t v, const at::Tensor& grad) = 0;

 private:
  class Pass final : public RowPass {
   public:
    explicit Pass(OneRowPass& source) : source_(source) {}
    at::Tensor rows(uint32_t v, const at::Tensor& ids) override { return source_.rows(v, ids); }
    void take_grad(uint32_t v, const at::Tensor& grad) override { source_.take_grad(v, grad); }

   private:
    OneRowPass& source_;
  };
};

}  // namespace tenon
