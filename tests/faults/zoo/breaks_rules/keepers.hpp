// SPDX-License-Identifier: Apache-2.0
//
// A hook that asks for a checkpoint every third step, a sink that writes a file, and the storage of
// docs/plugin-guide/storage.md.
#pragma once

#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/metric_sink.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/stateful.hpp>
#include <tenon/cpp/storage.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/zoo/breaks_rules/fault.hpp"
#include "tests/faults/zoo/breaks_rules/sources.hpp"

#pragma push_macro("TENON_PLUGIN")
#undef TENON_PLUGIN
#define TENON_PLUGIN(type)
#include "tests/support/plugins/memory_storage.cpp"
#pragma pop_macro("TENON_PLUGIN")

namespace {

class RuleHook final : public tenon::Hook, public tenon::Stateful {
 public:
  static constexpr const char* kType = "rule_hook";
  static constexpr const char* kSummary = "for tests: asks for checkpoints; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleHook(const Options& options) : fault_(options.fault) {}

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_START, TENON_EVENT_AFTER_STEP});
  }
  void on_event(const tenon::Event& event) override {
    if (event.id() == TENON_EVENT_START) {
      if (fault_ == "events") {
        event.parameter(0);  // a run may have none on this rank
      }
      return;
    }
    if (fault_ == "writes" && event.num_parameters() > 0) {
      const tenon::ParameterView view = event.parameter(0);
      view.value.mutable_data<float>()[0] += 1;
    }
    if (++num_steps_ % 4 == 0) {
      event.request(TENON_REQUEST_CHECKPOINT, "it is time");
    }
  }

  void snapshot(tenon::StateWriter& writer) override {
    writer.put_int("steps", fault_ == "state" ? 0 : num_steps_);
  }
  void load(const tenon::StateReader& reader) override { num_steps_ = reader.get_int("steps"); }

 private:
  std::string fault_;
  int64_t num_steps_ = 0;
};

class RuleSink final : public tenon::MetricSink {
 public:
  static constexpr const char* kType = "rule_sink";
  static constexpr const char* kSummary = "for tests: writes a file; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleSink(const Options& options) : fault_(options.fault) {}

  void open(const std::string& run_dir) override {
    if (fault_ == "missing_folder") {
      std::FILE* const log = std::fopen((run_dir + "/log.txt").c_str(), "a");
      std::fputs("opened\n", log);
      std::fclose(log);
    }
    file_.open(run_dir + "/rules.txt", std::ios::app);
    if (!file_) {
      TENON_FAIL(TENON_IO, "rules.io", "cannot open a file in ", run_dir);
    }
  }
  void write(const tenon::MetricRecord& record) override {
    for (size_t i = 0; i < record.size(); ++i) {
      if (fault_ == "records" && std::isnan(record.value(i))) {
        TENON_FAIL(TENON_INVALID, "rules.nan", record.name(i), " is NaN");
      }
      file_ << record.step() << ' ' << record.name(i) << ' ' << record.value(i) << '\n';
    }
  }
  void flush() override { file_.flush(); }
  void resume(uint64_t step, uint64_t) override {
    if (fault_ == "resume" && step == 0) {
      TENON_FAIL(TENON_NOT_FOUND, "rules.empty", "the file has no record");
    }
  }

 private:
  std::string fault_;
  std::ofstream file_;
};

class RuleStorage final : public MemoryStorage {
 public:
  static constexpr const char* kType = "rule_storage";
  static constexpr const char* kSummary = "for tests: files in memory; may break a rule";
  using Options = FaultOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { bind_fault(binder); }

  explicit RuleStorage(const Options& options) : fault_(options.fault) {}

  void open(const std::string& checkpoint, bool is_first) override {
    MemoryStorage::open(checkpoint, is_first);
    if (fault_ == "commit") {
      open_names().insert(checkpoint);
    }
  }
  void commit(const std::string& checkpoint) override {
    MemoryStorage::commit(checkpoint);
    open_names().erase(checkpoint);
  }
  void abort(const std::string& checkpoint) override {
    MemoryStorage::abort(checkpoint);
    open_names().erase(checkpoint);
  }
  std::vector<std::string> list() override {
    std::vector<std::string> names = MemoryStorage::list();
    names.insert(names.end(), open_names().begin(), open_names().end());
    return names;
  }
  std::vector<std::string> list_files(const std::string& checkpoint) override {
    std::vector<std::string> names = MemoryStorage::list_files(checkpoint);
    if (fault_ == "round_trip") {
      std::reverse(names.begin(), names.end());
    }
    return names;
  }
  uint64_t file_size(const std::string& checkpoint, const std::string& file) override {
    const std::vector<std::string> all = MemoryStorage::list();
    const bool is_missing = std::find(all.begin(), all.end(), checkpoint) == all.end();
    return fault_ == "errors" && is_missing ? 0 : MemoryStorage::file_size(checkpoint, file);
  }
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            void* out,
            size_t size) override {
    if (fault_ == "threads") {
      cursor_ = offset;
      wait_a_moment();
      offset = cursor_;
    }
    MemoryStorage::read(checkpoint, file, offset, out, size);
  }

 private:
  static std::set<std::string>& open_names() {
    static std::set<std::string> names;
    return names;
  }

  std::string fault_;
  uint64_t cursor_ = 0;
};

}  // namespace
