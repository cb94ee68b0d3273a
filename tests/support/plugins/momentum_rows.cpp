// SPDX-License-Identifier: Apache-2.0
//
// Gradient descent with momentum on the rows with a gradient in the step: the example of
// docs/plugin-guide/sparse-optimizer.md.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sparse_optimizer.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

struct MomentumOptions {
  double lr = 0.01;  // owned by the host, which passes it to each update
  double momentum = 0.9;
  bool keep_master = false;
};

class MomentumRows : public tenon::SparseOptimizer {
 public:
  static constexpr const char* kType = "momentum_rows";
  static constexpr const char* kSummary = "gradient descent with momentum on table rows";
  using Options = MomentumOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("lr", &Options::lr).min(0).doc("learning rate, multiplied by the schedule");
    binder.field("momentum", &Options::momentum)
        .min(0)
        .exclusive_max(1)
        .doc("decay factor of the momentum");
    binder.field("keep_master", &Options::keep_master)
        .doc("keep fp32 master copies of narrow values");
  }

  explicit MomentumRows(const Options& options) : options_(options) {}

  void describe(tenon::SparseOptimizerInfo& info) override {
    info.slot("momentum")
        .narrow(options_.keep_master ? TENON_NARROW_MASTER : TENON_NARROW_STOCHASTIC);
  }

  void update(const tenon::Exec&, const tenon::SparseUpdate& update) override {
    const auto lr = static_cast<float>(update.lr());
    const auto kept = static_cast<float>(options_.momentum);
    std::vector<float> value(update.dim());
    for (size_t i = 0; i < update.num_rows(); ++i) {
      const tenon::SparseRow row = update.row(i);
      row.read_value(value.data());
      float* const momentum = row.slot(0);
      for (size_t j = 0; j < value.size(); ++j) {
        momentum[j] = kept * momentum[j] + row.grad()[j];
        value[j] -= lr * momentum[j];
      }
      row.write_value(value.data());
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(MomentumRows)
