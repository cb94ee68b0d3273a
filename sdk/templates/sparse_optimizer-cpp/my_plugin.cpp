// SPDX-License-Identifier: Apache-2.0
//
// RMSprop on the rows of embedding tables, with one mean square per row:
//
//     v = decay v + (1 - decay) mean_j(grad_j^2)
//     value = value - lr grad / (sqrt(v) + eps)
//
// Threads: the host updates disjoint rows concurrently; an instance does not change.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sparse_optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

namespace {

class MyPlugin : public tenon::SparseOptimizer {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "RMSprop with one mean square per row";

  struct Options {
    double lr = 0.01;  // the host reads it, and passes the scheduled value to each update
    double decay = 0.99;
    double eps = 1e-8;
    bool round_randomly = true;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).min(0).doc("learning rate, multiplied by the schedule");
    binder.field("decay", &Options::decay)
        .min(0)
        .exclusive_max(1)
        .doc("decay factor of the mean square");
    binder.field("eps", &Options::eps).min(0).doc("added to the square root of the mean square");
    binder.field("round_randomly", &Options::round_randomly)
        .doc("round bf16 and fp16 rows stochastically; false: keep fp32 copies of them");
  }

  explicit MyPlugin(const Options& options) : options_(options) {
    if (options_.decay == 0 && options_.eps == 0) {
      TENON_FAIL(TENON_INVALID,
                 "my_plugin.eps",
                 "decay and eps are 0, so a gradient of 0 divides by 0; set one of them");
    }
  }

  // The host stores the slot beside the row, and saves it with the row.
  void describe(tenon::SparseOptimizerInfo& info) override {
    info.scalar_slot("mean_square")
        .narrow(options_.round_randomly ? TENON_NARROW_STOCHASTIC : TENON_NARROW_MASTER);
  }

  // The result of a row depends on that row alone.
  void update(const tenon::Exec&, const tenon::SparseUpdate& update) override {
    const size_t dim = update.dim();
    std::vector<float> value(dim);
    for (size_t i = 0; i < update.num_rows(); ++i) {
      const tenon::SparseRow row = update.row(i);
      const float* grad = row.grad();
      double squares = 0;
      for (size_t j = 0; j < dim; ++j) {
        squares += static_cast<double>(grad[j]) * grad[j];
      }
      float* mean_square = row.slot(0);
      *mean_square = static_cast<float>(options_.decay * *mean_square +
                                        (1 - options_.decay) * squares / static_cast<double>(dim));
      const double rate = update.lr() / (std::sqrt(*mean_square) + options_.eps);
      row.read_value(value.data());
      for (size_t j = 0; j < dim; ++j) {
        value[j] -= static_cast<float>(rate * grad[j]);
      }
      row.write_value(value.data());
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
