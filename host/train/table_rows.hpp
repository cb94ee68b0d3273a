// SPDX-License-Identifier: Apache-2.0
//
// Adapts the tables of a run to the model runner, which identifies lookups by the values they make.
// Threads: the train thread.
#pragma once

#include "host/embedding/table_set.hpp"
#include "host/model/row_source.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tenon {

class TableRows final : public RowSource {
 public:
  // Lookup l of `tables` makes value values[l] of the graph. `tables` is borrowed.
  TableRows(TableSet& tables, const std::vector<uint32_t>& values) : tables_(tables) {
    for (size_t l = 0; l < values.size(); ++l) {
      lookup_of_[values[l]] = l;
    }
  }

  std::unique_ptr<RowPass> begin(const Batch* batch,
                                 const CallPoint& point,
                                 Lookup lookup) override {
    return std::make_unique<Pass>(tables_.begin(batch, point, how_of(lookup)), lookup_of_);
  }

 private:
  class Pass final : public RowPass {
   public:
    Pass(std::unique_ptr<TableSet::Pass> pass, const std::map<uint32_t, size_t>& lookup_of)
        : pass_(std::move(pass)), lookup_of_(lookup_of) {}
    at::Tensor rows(uint32_t v, const at::Tensor& ids) override {
      return pass_->rows(lookup_of_.at(v), ids);
    }
    void take_grad(uint32_t v, const at::Tensor& grad) override {
      pass_->take_grad(lookup_of_.at(v), grad);
    }

   private:
    const std::unique_ptr<TableSet::Pass> pass_;
    const std::map<uint32_t, size_t>& lookup_of_;
  };

  static TableSet::Lookup how_of(Lookup lookup) {
    switch (lookup) {
      case Lookup::kTrain:
        return TableSet::Lookup::kTrain;
      case Lookup::kPreview:
        return TableSet::Lookup::kPreview;
      default:
        return TableSet::Lookup::kRead;
    }
  }

  TableSet& tables_;
  std::map<uint32_t, size_t> lookup_of_;
};

}  // namespace tenon
