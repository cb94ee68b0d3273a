// SPDX-License-Identifier: Apache-2.0
//
// A hook that writes which samples each microbatch has: a line of JSON each, with all values of one
// field, in the file data-RANK.jsonl of the run folder, which is added to.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <fstream>
#include <string>

namespace {

struct DataTraceOptions {
  std::string field = "sample_id";
};

class DataTrace : public tenon::Hook {
 public:
  static constexpr const char* kType = "data_trace";
  static constexpr const char* kSummary = "for tests: writes which samples each microbatch has";
  using Options = DataTraceOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("field", &Options::field).doc("a field of i64");
  }

  DataTrace(const Options& options, const tenon::CreateContext& context)
      : field_(options.field), rank_(context.mesh == nullptr ? 0 : context.mesh->rank) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(TENON_EVENT_AFTER_DATA);
    info.reads = TENON_TOUCH_BATCH;
  }

  void on_event(const tenon::Event& event) override {
    const tenon::TensorRef values = event.field(field_);
    std::string line = tenon::concat("{\"step\":",
                                     event.step(),
                                     ",\"microbatch\":",
                                     event.microbatch(),
                                     ",\"is_train\":",
                                     event.is_train() ? "true" : "false",
                                     ",\"values\":[");
    if (values) {  // a rank may have no samples in a step
      const auto* const data = values.data<int64_t>();
      for (int64_t i = 0; i < values.numel(); ++i) {
        line += tenon::concat(i > 0 ? "," : "", data[i]);
      }
    }
    const std::string path = tenon::concat(event.run_dir(), "/data-", rank_, ".jsonl");
    std::ofstream out(path, std::ios::app);
    out << line << "]}\n";
    out.close();
    TENON_CHECK(out.good(), "cannot write ", path);
  }

 private:
  std::string field_;
  int64_t rank_;
};

}  // namespace

TENON_PLUGIN(DataTrace)
