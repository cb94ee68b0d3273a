// SPDX-License-Identifier: Apache-2.0
//
// Some optimizers evaluate and export at other values than they compute gradients at, and some
// hooks average the parameters for this purpose. This object switches the parameters for the
// duration of an evaluation or an export. In all other runs it does nothing. Invariant: after
// `during`, the values of training are restored, bit for bit. Threads: the train thread; every rank
// calls the same functions.
#pragma once

#include "host/model/sharded_parameters.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/train/parameter_averages.hpp"

#include <cstdint>
#include <functional>

namespace tenon {

class EvaluationValues {
 public:
  // All are borrowed; `averages` is null if no hook averages parameters.
  EvaluationValues(OptimizerDriver& optimizer,
                   ShardedParameters& sharded,
                   ParameterAverages* averages = nullptr)
      : optimizer_(optimizer), sharded_(sharded), averages_(averages) {}

  // True if evaluations change parameters.
  bool differ() const {
    return !is_final_ && (optimizer_.has_evaluation_values() || has_averages());
  }
  // Calls `work` while the parameters hold the values of evaluation. Calls may be nested. `step` is
  // the last finished step.
  void during(uint64_t step, const std::function<void()>& work);
  // Called when nothing is trained any more, and the parameters hold values of evaluation already.
  void set_final(bool is_final = true) { is_final_ = is_final; }

 private:
  bool has_averages() const { return averages_ != nullptr && averages_->has_values(); }

  OptimizerDriver& optimizer_;
  ShardedParameters& sharded_;
  ParameterAverages* averages_;
  bool is_inside_ = false;
  bool is_final_ = false;
};

}  // namespace tenon
