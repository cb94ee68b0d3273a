// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/checked_tables.hpp"

#include "host/plugin/checked/checked_functions.hpp"
#include "host/plugin/checked/lent_objects.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Counts that instances described, by component, instance and name.
struct DescribedCounts {
  std::mutex mutex;
  std::map<std::tuple<const LoadedComponent*, const void*, std::string>, std::size_t> counts;

  static DescribedCounts& get() {
    static auto* const counts = new DescribedCounts;
    return *counts;
  }
};

// The tables of stateful instances. A component may offer a table for each instance.
class StatefulTables {
 public:
  static StatefulTables& get() {
    static auto* const tables = new StatefulTables;
    return *tables;
  }
  void set(const LoadedComponent& component, const void* self, const tenon_stateful* table) {
    const std::lock_guard lock(mutex_);
    tables_[{&component, self}] = table;
  }
  const tenon_stateful& of(const void* self) {
    const std::lock_guard lock(mutex_);
    return *tables_.at({current_call_slot->component.load(), self});
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const LoadedComponent*, const void*>, const tenon_stateful*> tables_;
};

const tenon_run_api* checked_run_api(const tenon_run_api& real) {
  static const tenon_run_api api = [&] {
    tenon_run_api to = real;
    check_functions(to);
    return to;
  }();
  return &api;
}

}  // namespace

template <>
const tenon_stateful& registered<tenon_stateful>(const void* self) {
  return StatefulTables::get().of(self);
}

void set_count(const void* self, std::string_view name, std::size_t count) {
  DescribedCounts& all = DescribedCounts::get();
  const std::lock_guard lock(all.mutex);
  all.counts[{current_call_slot->component.load(), self, std::string(name)}] = count;
}

std::size_t count_of(const void* self, std::string_view name) {
  DescribedCounts& all = DescribedCounts::get();
  const std::lock_guard lock(all.mutex);
  return all.counts[{current_call_slot->component.load(), self, std::string(name)}];
}

tenon_status* checked_feature_run(const tenon_exec* exec,
                                  tenon_feature_call* calls,
                                  std::size_t n) {
  std::vector<tenon_feature_call> lent(calls, calls + n);
  std::vector<std::vector<tenon_column>> inputs(n);
  for (std::size_t i = 0; i < n; ++i) {
    inputs[i].assign(calls[i].inputs, calls[i].inputs + calls[i].num_inputs);
    for (tenon_column& column : inputs[i]) {
      column.values = current_frame().lend(column.values, "values of an input");
      column.weights = current_frame().lend(column.weights, "weights of an input");
      column.offsets = current_frame().lend_all(column.offsets, column.num_levels, "offsets");
    }
    lent[i].inputs = inputs[i].data();
  }
  tenon_status* const status = registered<tenon_feature>(nullptr).run(exec, lent.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t output = 0; output < calls[i].num_outputs; ++output) {
      tenon_column_out& column = calls[i].outputs[output];
      take_result(column.values_own, "values_own");
      take_result(column.weights_own, "weights_own");
      take_results(column.offsets_own, column.num_levels, "offsets_own");
    }
  }
  return status;
}

tenon_status* checked_hook_on_event(void* self, const tenon_event* event) {
  auto run = std::make_shared<CheckedRun>();
  run->what = "run";
  run->real = event->run;
  run->api = event->api;
  tenon_event lent = *event;
  lent.run = reinterpret_cast<tenon_run*>(run.get());
  lent.api = checked_run_api(*event->api);
  current_frame().keep(std::move(run));
  return registered<tenon_hook>(self).on_event(self, &lent);
}

bool check_use(const LentObject& object, std::string_view function) {
  if (object.has_ended) {
    report_problem(CallRule::kRoles,
                   formatted("called {} of the {} of {}, which has returned",
                             function,
                             object.what,
                             object.call.text()),
                   object.call.component);
    return false;
  }
  if (object.thread != std::this_thread::get_id()) {
    report_problem(CallRule::kRoles,
                   formatted("called {} of the {} of {} from another thread",
                             function,
                             object.what,
                             object.call.text()),
                   object.call.component);
    return false;
  }
  return true;
}

const void* checked_table(const LoadedComponent& component) {
  static auto* const mutex = new std::mutex;
  static auto* const tables =
      new std::map<const LoadedComponent*, std::shared_ptr<const void>>;  // used until the end
  const std::lock_guard lock(*mutex);
  std::shared_ptr<const void>& table = (*tables)[&component];
  if (table == nullptr) {
    table = table_with_checks(component);
  }
  return table.get();
}

const tenon_stateful* checked_stateful(const LoadedComponent& component,
                                       void* self,
                                       const tenon_stateful* table) {
  StatefulTables::get().set(component, self, table);
  return &checked_stateful_table();
}

}  // namespace tenon
