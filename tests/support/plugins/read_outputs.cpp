// SPDX-License-Identifier: Apache-2.0
//
// A hook that asks for outputs of the model at after_loss, and writes "NAME yes" or "NAME no" into
// outputs.txt of the run folder for each of them.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

struct ReadOutputsOptions {
  std::vector<std::string> outputs;
  bool declares = true;
};

class ReadOutputs : public tenon::Hook {
 public:
  static constexpr const char* kType = "read_outputs";
  static constexpr const char* kSummary = "for tests: notes which outputs of the model exist";
  using Options = ReadOutputsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("outputs", &Options::outputs).doc("names of outputs");
    binder.field("declares", &Options::declares).doc("declare that the hook reads outputs");
  }

  explicit ReadOutputs(Options options) : options_(std::move(options)) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(TENON_EVENT_AFTER_LOSS);
    if (options_.declares) {
      info.reads = TENON_TOUCH_OUTPUTS;
    }
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    std::ofstream out(event.run_dir() + "/outputs.txt");
    for (const std::string& name : options_.outputs) {
      out << name << (has(event, name) ? " yes\n" : " no\n");
    }
  }

 private:
  static bool has(const tenon::Event& event, const std::string& name) {
    try {
      event.output(name);
      return true;
    } catch (const tenon::Error& error) {
      if (error.code() != TENON_NOT_FOUND) {
        throw;
      }
      return false;
    }
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(ReadOutputs)
