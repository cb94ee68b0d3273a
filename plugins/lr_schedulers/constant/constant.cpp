// SPDX-License-Identifier: Apache-2.0
//
// Constant schedule: factor 1 after the warmup.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/warmup.hpp>

namespace {

class Constant : public tenon::LrScheduler {
 public:
  static constexpr const char* kType = "constant";
  static constexpr const char* kSummary = "constant learning rate after an optional warmup";
  using Options = tenon::WarmupOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { tenon::bind_warmup(binder); }

  explicit Constant(const Options& options) : options_(options) {}

  double factor(uint64_t step, uint64_t) override {
    return tenon::warmup_factor(options_, step).value_or(1.0);
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(Constant)
