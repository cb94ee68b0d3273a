// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/checked_tables.hpp"

#include <tenon/dataset.h>
#include <tenon/draft/parametrization.h>
#include <tenon/feature.h>
#include <tenon/hook.h>
#include <tenon/loss.h>
#include <tenon/metric.h>
#include <tenon/model.h>
#include <tenon/optimizer.h>

#include "host/plugin/call_watch.hpp"
#include "host/plugin/checked/lent_objects.hpp"
#include "host/plugin/loaded_plugin.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// The table of the component whose call is in progress, as the plugin registered it.
template <class Table>
const Table& registered() {
  return *static_cast<const Table*>(current_call_slot->component.load()->table);
}

CallFrame& frame() {
  return *CallFrame::current();
}

// ---- datasets ----

tenon_batch_writer* lend_writer(tenon_batch_writer* writer) {
  return lend_object(writer, "batch writer", [](tenon_batch_writer& to) {
    TENON_CHECK_FUNCTION(tenon_batch_writer, to, add);
    TENON_CHECK_FUNCTION(tenon_batch_writer, to, add_tensor);
    TENON_CHECK_FUNCTION(tenon_batch_writer, to, set_counts);
    TENON_CHECK_FUNCTION(tenon_batch_writer, to, set_position);
    TENON_CHECK_FUNCTION(tenon_batch_writer, to, set_lengths);
  });
}

tenon_status* dataset_read(void* self, const tenon_exec* exec, const tenon_read_args* args) {
  tenon_read_args lent = *args;
  lent.writer = lend_writer(args->writer);
  return registered<tenon_dataset>().read(self, exec, &lent);
}

tenon_status* dataset_next(void* self, const tenon_exec* exec, tenon_next_args* args) {
  tenon_next_args lent = *args;
  lent.writer = lend_writer(args->writer);
  tenon_status* const status = registered<tenon_dataset>().next(self, exec, &lent);
  args->out_end = lent.out_end;
  return status;
}

// ---- features ----

tenon_status* feature_run(const tenon_exec* exec, tenon_feature_call* calls, std::size_t n) {
  std::vector<tenon_feature_call> lent(calls, calls + n);
  std::vector<std::vector<tenon_column>> inputs(n);
  for (std::size_t i = 0; i < n; ++i) {
    inputs[i].assign(calls[i].inputs, calls[i].inputs + calls[i].num_inputs);
    for (tenon_column& column : inputs[i]) {
      column.values = frame().lend(column.values, "values of an input");
      column.weights = frame().lend(column.weights, "weights of an input");
      column.offsets = frame().lend_all(column.offsets, column.num_levels, "offsets");
    }
    lent[i].inputs = inputs[i].data();
  }
  tenon_status* const status = registered<tenon_feature>().run(exec, lent.data(), n);
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

// ---- losses ----

tenon_status* loss_count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  tenon_loss_count_args lent = *args;
  lent.inputs = frame().lend_all(args->inputs, args->num_inputs, "inputs");
  tenon_status* const status = registered<tenon_loss>().count(self, exec, &lent);
  take_result(lent.out_count_own, "out_count_own");
  args->out_count_own = lent.out_count_own;
  return status;
}

tenon_status* loss_compute(void* self, const tenon_exec* exec, tenon_loss_compute_args* args) {
  tenon_loss_compute_args lent = *args;
  lent.inputs = frame().lend_all(args->inputs, args->num_inputs, "inputs");
  tenon_status* const status = registered<tenon_loss>().compute(self, exec, &lent);
  take_result(lent.out_sum_own, "out_sum_own");
  args->out_sum_own = lent.out_sum_own;
  return status;
}

tenon_status* loss_backward(void* self,
                            const tenon_exec* exec,
                            const tenon_loss_backward_args* args) {
  tenon_loss_backward_args lent = *args;
  lent.inputs = frame().lend_all(args->inputs, args->num_inputs, "inputs");
  lent.grad_sum = frame().lend(args->grad_sum, "grad_sum");
  tenon_status* const status = registered<tenon_loss>().backward(self, exec, &lent);
  take_results(args->grad_inputs_own, args->num_inputs, "grad_inputs_own");
  return status;
}

// ---- metrics ----

tenon_status* metric_update(void* self,
                            const tenon_exec* exec,
                            const tenon_metric_update_args* args) {
  tenon_metric_update_args lent = *args;
  lent.inputs = frame().lend_all(args->inputs, args->num_inputs, "inputs");
  lent.states = frame().lend_all(args->states, args->num_states, "states");
  tenon_status* const status = registered<tenon_metric>().update(self, exec, &lent);
  take_results(args->appended_own, args->num_states, "appended_own");
  return status;
}

tenon_status* metric_merge(void* self,
                           const tenon_exec* exec,
                           const tenon_metric_merge_args* args) {
  tenon_metric_merge_args lent = *args;
  lent.states = frame().lend_all(args->states, args->num_states, "states");
  lent.others = frame().lend_all(args->others, args->num_states, "others");
  return registered<tenon_metric>().merge(self, exec, &lent);
}

tenon_status* metric_compute(void* self,
                             const tenon_exec* exec,
                             const tenon_metric_compute_args* args) {
  tenon_metric_compute_args lent = *args;
  lent.states = frame().lend_all(args->states, args->num_states, "states");
  return registered<tenon_metric>().compute(self, exec, &lent);
}

tenon_status* metric_reset(void* self,
                           const tenon_exec* exec,
                           const tenon_metric_reset_args* args) {
  tenon_metric_reset_args lent = *args;
  lent.states = frame().lend_all(args->states, args->num_states, "states");
  return registered<tenon_metric>().reset(self, exec, &lent);
}

// ---- models ----

tenon_status* model_describe(void* self, tenon_model_builder* builder) {
  return registered<tenon_model>().describe(
      self, lend_object(builder, "model builder", [](tenon_model_builder& to) {
        TENON_CHECK_FUNCTION(tenon_model_builder, to, add_value);
        TENON_CHECK_FUNCTION(tenon_model_builder, to, add_parameter);
        TENON_CHECK_FUNCTION(tenon_model_builder, to, add_buffer);
        TENON_CHECK_FUNCTION(tenon_model_builder, to, add_block);
      }));
}

tenon_status* model_forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  tenon_forward_args* const lent =
      lend_object(args, "arguments of forward", [](tenon_forward_args& to) {
        TENON_CHECK_FUNCTION(tenon_forward_args, to, save);
        TENON_CHECK_FUNCTION(tenon_forward_args, to, add_loss);
        to.inputs = frame().lend_all(to.inputs, to.num_inputs, "inputs");
        to.parameters = frame().lend_all(to.parameters, to.num_parameters, "parameters");
        to.buffers = frame().lend_all(to.buffers, to.num_buffers, "buffers");
      });
  tenon_status* const status = registered<tenon_model>().forward(self, exec, lent);
  take_results(args->outputs_own, args->num_outputs, "outputs_own");
  take_results(args->next_buffers_own, args->num_buffers, "next_buffers_own");
  return status;
}

tenon_status* model_backward(void* self, const tenon_exec* exec, const tenon_backward_args* args) {
  tenon_backward_args lent = *args;
  lent.saved = frame().lend_all(args->saved, args->num_saved, "saved");
  lent.parameters = frame().lend_all(args->parameters, args->num_parameters, "parameters");
  lent.grad_outputs = frame().lend_all(args->grad_outputs, args->num_outputs, "grad_outputs");
  tenon_status* const status = registered<tenon_model>().backward(self, exec, &lent);
  take_results(args->grad_inputs_own, args->num_inputs, "grad_inputs_own");
  take_results(args->grad_parameters_own, args->num_parameters, "grad_parameters_own");
  return status;
}

tenon_status* model_materialize(void* self,
                                const tenon_exec* exec,
                                const tenon_materialize_args* args) {
  tenon_status* const status = registered<tenon_model>().materialize(self, exec, args);
  take_results(args->leaves_own, args->num_leaves, "leaves_own");
  return status;
}

tenon_status* model_fill_buffer(void* self,
                                const tenon_exec* exec,
                                const tenon_fill_buffer_args* args) {
  tenon_fill_buffer_args lent = *args;
  lent.tensor = frame().lend(args->tensor, "tensor");
  return registered<tenon_model>().fill_buffer(self, exec, &lent);
}

// ---- optimizers ----

// The number of slots of each optimizer instance, which `update` does not state.
class SlotCounts {
 public:
  static SlotCounts& get() {
    static auto* const counts = new SlotCounts;
    return *counts;
  }
  void set(const void* self, std::size_t count) {
    const std::lock_guard lock(mutex_);
    counts_[{current_call_slot->component.load(), self}] = count;
  }
  std::size_t of(const void* self) {
    const std::lock_guard lock(mutex_);
    return counts_[{current_call_slot->component.load(), self}];
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<const LoadedComponent*, const void*>, std::size_t> counts_;
};

tenon_status* optimizer_describe(void* self, tenon_optimizer_info* out) {
  tenon_status* const status = registered<tenon_optimizer>().describe(self, out);
  SlotCounts::get().set(self, status == nullptr ? out->num_slots : 0);
  return status;
}

tenon_status* optimizer_update(void* self, const tenon_exec* exec, const tenon_update_args* args) {
  const std::size_t n = args->num_pieces;
  tenon_update_args lent = *args;
  lent.parameters = frame().lend_all(args->parameters, n, "parameters");
  lent.grads = frame().lend_all(args->grads, n, "grads");
  lent.slots = frame().lend_all(args->slots, SlotCounts::get().of(self) * n, "slots");
  lent.steps = frame().lend_all(args->steps, n, "steps");
  lent.lr = frame().lend(args->lr, "lr");
  lent.found_inf = frame().lend(args->found_inf, "found_inf");
  return registered<tenon_optimizer>().update(self, exec, &lent);
}

tenon_status* optimizer_evaluation_values(void* self,
                                          const tenon_exec* exec,
                                          const tenon_evaluation_values_args* args) {
  const std::size_t n = args->num_pieces;
  tenon_evaluation_values_args lent = *args;
  lent.parameters = frame().lend_all(args->parameters, n, "parameters");
  lent.slots = frame().lend_all(args->slots, SlotCounts::get().of(self) * n, "slots");
  lent.steps = frame().lend_all(args->steps, n, "steps");
  return registered<tenon_optimizer>().evaluation_values(self, exec, &lent);
}

// ---- parametrizations ----

SlotCounts& real_counts() {
  static auto* const counts = new SlotCounts;
  return *counts;
}

SlotCounts& real_buffer_counts() {
  static auto* const counts = new SlotCounts;
  return *counts;
}

tenon_status* parametrization_describe(void* self,
                                       const tenon_parameter_spec* effective,
                                       tenon_parametrization_info* out) {
  tenon_status* const status = registered<tenon_parametrization>().describe(self, effective, out);
  real_counts().set(self, status == nullptr ? out->num_reals : 0);
  real_buffer_counts().set(self, status == nullptr ? out->num_buffers : 0);
  return status;
}

tenon_status* parametrization_start(void* self,
                                    const tenon_exec* exec,
                                    const tenon_parametrization_start_args* args) {
  tenon_parametrization_start_args lent = *args;
  lent.value = frame().lend(args->value, "value");
  lent.reals = frame().lend_all(args->reals, real_counts().of(self), "reals");
  lent.buffers = frame().lend_all(args->buffers, real_buffer_counts().of(self), "buffers");
  return registered<tenon_parametrization>().start(self, exec, &lent);
}

tenon_status* parametrization_effective(void* self,
                                        const tenon_exec* exec,
                                        tenon_effective_args* args) {
  tenon_effective_args lent = *args;
  lent.reals = frame().lend_all(args->reals, real_counts().of(self), "reals");
  lent.buffers = frame().lend_all(args->buffers, real_buffer_counts().of(self), "buffers");
  tenon_status* const status = registered<tenon_parametrization>().effective(self, exec, &lent);
  take_result(lent.out_own, "out_own");
  args->out_own = lent.out_own;
  return status;
}

tenon_status* parametrization_product(void* self,
                                      const tenon_exec* exec,
                                      tenon_product_args* args) {
  tenon_product_args lent = *args;
  lent.x = frame().lend(args->x, "x");
  lent.reals = frame().lend_all(args->reals, real_counts().of(self), "reals");
  lent.buffers = frame().lend_all(args->buffers, real_buffer_counts().of(self), "buffers");
  tenon_status* const status = registered<tenon_parametrization>().product(self, exec, &lent);
  take_result(lent.out_own, "out_own");
  args->out_own = lent.out_own;
  return status;
}

// ---- hooks ----

const tenon_run_api* checked_run_api(const tenon_run_api& real) {
  static const tenon_run_api api = [&] {
    tenon_run_api to = real;
    TENON_CHECK_FUNCTION(tenon_run_api, to, request);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_metric);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_scalar);
    TENON_CHECK_FUNCTION(tenon_run_api, to, add_metric);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_field);
    TENON_CHECK_FUNCTION(tenon_run_api, to, set_lr_factor);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_num_parameters);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_parameter);
    TENON_CHECK_FUNCTION(tenon_run_api, to, run_dir);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_num_lr_groups);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_lr_group);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_lr_group_option);
    TENON_CHECK_FUNCTION(tenon_run_api, to, roll_back);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_output);
    TENON_CHECK_FUNCTION(tenon_run_api, to, set_field);
    TENON_CHECK_FUNCTION(tenon_run_api, to, scale_loss);
    TENON_CHECK_FUNCTION(tenon_run_api, to, get_step_loss);
    TENON_CHECK_FUNCTION(tenon_run_api, to, all_reduce);
    return to;
  }();
  return &api;
}

tenon_status* hook_on_event(void* self, const tenon_event* event) {
  auto run = std::make_shared<CheckedRun>();
  run->what = "run";
  run->real = event->run;
  run->api = event->api;
  tenon_event lent = *event;
  lent.run = reinterpret_cast<tenon_run*>(run.get());
  lent.api = checked_run_api(*event->api);
  frame().keep(std::move(run));
  return registered<tenon_hook>().on_event(self, &lent);
}

// ---- state ----

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

uint32_t stateful_version(void* self) {
  return StatefulTables::get().of(self).version(self);
}

tenon_status* stateful_snapshot(void* self, tenon_state_writer* writer) {
  return StatefulTables::get().of(self).snapshot(
      self, lend_object(writer, "state writer", [](tenon_state_writer& to) {
        TENON_CHECK_FUNCTION(tenon_state_writer, to, put_int);
        TENON_CHECK_FUNCTION(tenon_state_writer, to, put_double);
        TENON_CHECK_FUNCTION(tenon_state_writer, to, put_bytes);
        TENON_CHECK_FUNCTION(tenon_state_writer, to, put_tensor);
      }));
}

tenon_status* stateful_load(void* self, tenon_state_reader* reader) {
  return StatefulTables::get().of(self).load(
      self, lend_object(reader, "state reader", [](tenon_state_reader& to) {
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_int);
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_double);
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_bytes);
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_tensor);
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_num_entries);
        TENON_CHECK_FUNCTION(tenon_state_reader, to, get_entry);
      }));
}

// ---- tables ----

// Returns a copy of a table, as long as the plugin's, in which `replace` sets functions.
template <class Table, class Replace>
std::shared_ptr<const void> copied(const void* table, const Replace& replace) {
  auto copy = std::make_shared<Table>();
  std::size_t size = 0;
  std::memcpy(&size, table, sizeof(size));
  std::memcpy(copy.get(), table, std::min(size, sizeof(Table)));
  copy->struct_size = std::min(size, sizeof(Table));
  replace(*copy);
  return copy;
}

template <class Function>
void set_if(Function*& function, Function* other) {
  if (function != nullptr) {
    function = other;
  }
}

std::shared_ptr<const void> table_with_checks(const LoadedComponent& component) {
  if (component.kind == "dataset") {
    return copied<tenon_dataset>(component.table, [](tenon_dataset& to) {
      set_if(to.read, dataset_read);
      set_if(to.next, dataset_next);
    });
  }
  if (component.kind == "feature") {
    return copied<tenon_feature>(component.table,
                                 [](tenon_feature& to) { set_if(to.run, feature_run); });
  }
  if (component.kind == "loss") {
    return copied<tenon_loss>(component.table, [](tenon_loss& to) {
      set_if(to.count, loss_count);
      set_if(to.compute, loss_compute);
      set_if(to.backward, loss_backward);
    });
  }
  if (component.kind == "metric") {
    return copied<tenon_metric>(component.table, [](tenon_metric& to) {
      set_if(to.update, metric_update);
      set_if(to.merge, metric_merge);
      set_if(to.compute, metric_compute);
      set_if(to.reset, metric_reset);
    });
  }
  if (component.kind == "model") {
    return copied<tenon_model>(component.table, [](tenon_model& to) {
      set_if(to.describe, model_describe);
      set_if(to.forward, model_forward);
      set_if(to.backward, model_backward);
      set_if(to.materialize, model_materialize);
      set_if(to.fill_buffer, model_fill_buffer);
    });
  }
  if (component.kind == "optimizer") {
    return copied<tenon_optimizer>(component.table, [](tenon_optimizer& to) {
      set_if(to.describe, optimizer_describe);
      set_if(to.update, optimizer_update);
      set_if(to.evaluation_values, optimizer_evaluation_values);
    });
  }
  if (component.kind == "parametrization") {
    return copied<tenon_parametrization>(component.table, [](tenon_parametrization& to) {
      set_if(to.describe, parametrization_describe);
      set_if(to.start, parametrization_start);
      set_if(to.effective, parametrization_effective);
      set_if(to.product, parametrization_product);
    });
  }
  if (component.kind == "hook") {
    return copied<tenon_hook>(component.table,
                              [](tenon_hook& to) { set_if(to.on_event, hook_on_event); });
  }
  return {component.table, [](const void*) {}};
}

}  // namespace

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
  static constexpr tenon_stateful kChecked = {.struct_size = sizeof(tenon_stateful),
                                              .version = stateful_version,
                                              .snapshot = stateful_snapshot,
                                              .load = stateful_load};
  StatefulTables::get().set(component, self, table);
  return &kChecked;
}

}  // namespace tenon
