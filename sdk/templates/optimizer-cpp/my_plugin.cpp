// SPDX-License-Identifier: Apache-2.0
//
// Lion: moves each parameter by the sign of an interpolated momentum.
//
//     c = beta1 m + (1 - beta1) g
//     p = p - lr (sign(c) + weight_decay p)
//     m = beta2 m + (1 - beta2) g
//
// The host's operators compute it, for each dtype and device that libtorch supports.
//
// Source: Chen et al., Symbolic Discovery of Optimization Algorithms (NeurIPS 2023), algorithm 2.
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/optimizer.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstddef>
#include <vector>

namespace {

class MyPlugin : public tenon::Optimizer {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "Lion: the sign of an interpolated momentum";

  struct Options {
    double lr = 1e-4;  // the host reads it, and passes the scheduled value to each update
    std::vector<double> betas = {0.9, 0.99};
    double weight_decay = 0.0;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).min(0).doc("learning rate, multiplied by the schedule");
    binder.field("betas", &Options::betas)
        .min(0)
        .exclusive_max(1)
        .min_items(2)
        .max_items(2)
        .doc("weight of the momentum in the update, and its decay factor");
    binder.field("weight_decay", &Options::weight_decay)
        .min(0)
        .doc("decoupled weight decay, multiplied by lr");
  }

  MyPlugin(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        lerp_(context.host, "aten::lerp.Scalar"),
        sign_(context.host, "aten::sign"),
        addcmul_(context.host, "aten::addcmul_"),
        lerp_in_place_(context.host, "aten::lerp_.Scalar") {
    if (options_.betas[0] > options_.betas[1]) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.betas",
                 "betas[0] is ",
                 options_.betas[0],
                 ", which is above betas[1] (",
                 options_.betas[1],
                 "); exchange them");
    }
  }

  // Element-wise: the host may pass any flat range of parameters as one piece. It allocates,
  // shards and saves the slot, in the dtype of the parameters.
  void describe(tenon::OptimizerInfo& info) override { info.slot("momentum"); }

  void update(const tenon::Exec&, const tenon::Update& update) override {
    if (update.found_inf() && update.found_inf().item() == 1.0) {
      return;  // the gradients are non-finite: parameters and slots must not change
    }
    for (size_t i = 0; i < update.num_pieces(); ++i) {
      const tenon::TensorRef parameter = update.parameter(i);
      const tenon::TensorRef momentum = update.slot(0, i);
      const tenon::TensorRef grad = update.grad(i);
      const tenon::Tensor sign = sign_({lerp_({momentum, grad, 1 - options_.betas[0]})});
      // lr stays a tensor: reading its value would wait for a GPU in each step.
      addcmul_({parameter, parameter, update.lr(), -options_.weight_decay});
      addcmul_({parameter, sign, update.lr(), -1.0});
      lerp_in_place_({momentum, grad, 1 - options_.betas[1]});
    }
  }

 private:
  Options options_;
  tenon::Op lerp_;
  tenon::Op sign_;
  tenon::Op addcmul_;
  tenon::Op lerp_in_place_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
