/* SPDX-License-Identifier: Apache-2.0
 *
 * Convention 7 of abi.h: a null argument is reported as TENON_INVALID; it does not crash. */
#include <string.h>

#include "misbehaves.h"

/* Returns an error that names the call, unless its status says TENON_INVALID. */
static tenon_status* check(const Instance* self, tenon_status* status, const char* call) {
  const uint32_t code = self->status->code(status);
  self->status->release(status);
  return code == TENON_INVALID ? NULL : fail(self, TENON_INTERNAL, call);
}

#define MUST_BE_INVALID(call) \
  RETURN_IF_FAILED(check(self, call, "not TENON_INVALID in spite of a null argument: " #call))
#define MUST_HOLD(condition) \
  RETURN_IF_FAILED((condition) ? NULL : fail(self, TENON_INTERNAL, "not true: " #condition))

static tenon_status* tensors_and_operators(const Instance* self, const tenon_exec* exec) {
  const tenon_tensor_api* tensors = self->tensors;
  const tenon_op_api* ops = exec->ops;
  const tenon_host* host = self->host;
  tenon_tensor_info info = {.struct_size = sizeof(info)};
  tenon_tensor* made = NULL;
  tenon_tensor* none = NULL;
  struct DLManagedTensorVersioned* exported = NULL;
  const tenon_op* op = NULL;
  tenon_any result;
  size_t num_results = 1;
  double value = 0;
  RETURN_IF_FAILED(filled(exec, TENON_F32, 0, 1, &made));
  tenon_any argument = tensor_any(made);
  MUST_BE_INVALID(tensors->info(NULL, &info));
  MUST_BE_INVALID(tensors->info(made, NULL));
  MUST_BE_INVALID(tensors->empty(host, TENON_F32, exec->device, 1, NULL, &none));
  MUST_BE_INVALID(tensors->empty(host, TENON_F32, exec->device, 0, NULL, NULL));
  MUST_BE_INVALID(tensors->full(host, TENON_F32, exec->device, 1, NULL, 0, &none));
  MUST_BE_INVALID(tensors->full(host, TENON_F32, exec->device, 0, NULL, 0, NULL));
  MUST_BE_INVALID(tensors->retain(host, NULL, &none));
  MUST_BE_INVALID(tensors->retain(host, made, NULL));
  MUST_BE_INVALID(tensors->item(host, NULL, &value));
  MUST_BE_INVALID(tensors->item(host, made, NULL));
  MUST_BE_INVALID(tensors->from_dlpack(host, NULL, NULL, &none));
  MUST_BE_INVALID(tensors->to_dlpack(host, NULL, NULL, &exported));
  MUST_BE_INVALID(tensors->to_dlpack(host, NULL, made, NULL));
  tensors->release(NULL);
  MUST_BE_INVALID(ops->find(host, NULL, &op));
  MUST_BE_INVALID(ops->find(host, "aten::sin", NULL));
  RETURN_IF_FAILED(ops->find(host, "aten::sin", &op));
  MUST_BE_INVALID(ops->call(host, NULL, &argument, 1, &result, &num_results));
  MUST_BE_INVALID(ops->call(host, op, NULL, 1, &result, &num_results));
  MUST_BE_INVALID(ops->call(host, op, &argument, 1, NULL, &num_results));
  MUST_BE_INVALID(ops->call(host, op, &argument, 1, &result, NULL));
  argument.v.tensor = NULL;
  MUST_BE_INVALID(ops->call(host, op, &argument, 1, &result, &num_results));
  MUST_HOLD(ops->schema(NULL) != NULL);
  MUST_BE_INVALID(exec->sync(NULL));
  MUST_HOLD(exec->stop_requested(NULL) == 0);
  MUST_HOLD(none == NULL && exported == NULL);
  tensors->release(made);
  return NULL;
}

static tenon_status* options(const Instance* self) {
  const tenon_options_api* api = self->host->get_interface(self->host, TENON_OPTIONS_ID);
  uint32_t flag = 0;
  int64_t integer = 0;
  double number = 0;
  size_t count = 0;
  const char* text = NULL;
  tenon_component_ref component = {.struct_size = sizeof(component)};
  MUST_HOLD(api->kind(NULL, NULL) == TENON_OPTION_ABSENT);
  MUST_BE_INVALID(api->get_bool(NULL, "/a", &flag));
  MUST_BE_INVALID(api->get_int(NULL, "/a", &integer));
  MUST_BE_INVALID(api->get_double(NULL, "/a", &number));
  MUST_BE_INVALID(api->get_string(NULL, "/a", &text));
  MUST_BE_INVALID(api->get_count(NULL, "/a", &count));
  MUST_BE_INVALID(api->get_key(NULL, "/a", 0, &text));
  MUST_BE_INVALID(api->get_json(NULL, NULL, NULL));
  MUST_BE_INVALID(api->get_component(NULL, "/a", &component));
  return NULL;
}

static tenon_status* small_services(const Instance* self) {
  const tenon_host* host = self->host;
  const tenon_log_api* log = host->get_interface(host, TENON_LOG_ID);
  const tenon_memory_api* memory = host->get_interface(host, TENON_MEMORY_ID);
  const tenon_metrics_api* metrics = host->get_interface(host, TENON_METRICS_ID);
  const tenon_parallel_api* parallel = host->get_interface(host, TENON_PARALLEL_ID);
  const tenon_random_api* numbers = host->get_interface(host, TENON_RANDOM_ID);
  MUST_HOLD(host->get_interface(NULL, TENON_LOG_ID) == NULL);
  MUST_HOLD(host->get_interface(host, NULL) == NULL);
  log->write(NULL, TENON_LOG_INFO, "a line of nobody");
  log->write(host, TENON_LOG_INFO, NULL);
  MUST_BE_INVALID(memory->allocate(host, 8, NULL));
  memory->release(NULL);
  MUST_BE_INVALID(metrics->add(host, NULL, 1, 1));
  MUST_BE_INVALID(metrics->add_tensor(host, "bad_hook/a", NULL, NULL));
  MUST_BE_INVALID(parallel->run(host, 1, 1, NULL, NULL));
  MUST_BE_INVALID(numbers->fill_uniform(1, 1, 0, 4, NULL));
  MUST_BE_INVALID(numbers->fill_normal(1, 1, 0, 4, NULL));
  MUST_HOLD(numbers->stream_of(NULL) == numbers->stream_of(""));
  self->status->release(NULL);
  MUST_HOLD(self->status->code(NULL) == TENON_OK);
  MUST_HOLD(strcmp(self->status->message(NULL), "") == 0);
  return NULL;
}

static tenon_status* run(const Instance* self, const tenon_event* event) {
  const tenon_run_api* api = event->api;
  tenon_run* const run = event->run;
  const tenon_tensor* tensor = NULL;
  double number = 0;
  size_t count = 0;
  tenon_parameter_view parameter = {.struct_size = sizeof(parameter)};
  tenon_lr_group group = {.struct_size = sizeof(group)};
  MUST_BE_INVALID(api->request(NULL, TENON_REQUEST_STOP, NULL));
  MUST_BE_INVALID(api->get_metric(NULL, "loss", &number));
  MUST_BE_INVALID(api->get_metric(run, NULL, &number));
  MUST_BE_INVALID(api->get_metric(run, "loss", NULL));
  MUST_BE_INVALID(api->get_scalar(run, NULL, &tensor));
  MUST_BE_INVALID(api->get_scalar(run, "loss", NULL));
  MUST_BE_INVALID(api->add_metric(run, NULL, 1));
  MUST_BE_INVALID(api->get_field(run, "x", NULL));
  MUST_BE_INVALID(api->set_lr_factor(NULL, 1));
  MUST_BE_INVALID(api->get_num_parameters(NULL, &count));
  MUST_BE_INVALID(api->get_num_parameters(run, NULL));
  MUST_BE_INVALID(api->get_parameter(NULL, 0, &parameter));
  MUST_BE_INVALID(api->get_parameter(run, 0, NULL));
  MUST_HOLD(api->run_dir(NULL) != NULL);
  MUST_BE_INVALID(api->get_num_lr_groups(run, NULL));
  MUST_BE_INVALID(api->get_lr_group(NULL, 0, &group));
  MUST_BE_INVALID(api->get_lr_group(run, 0, NULL));
  MUST_BE_INVALID(api->get_lr_group_option(run, 0, NULL, &number));
  MUST_BE_INVALID(api->get_lr_group_option(run, 0, "/lr", NULL));
  MUST_BE_INVALID(api->roll_back(NULL, 1, NULL));
  MUST_BE_INVALID(api->get_output(run, NULL, &tensor));
  MUST_BE_INVALID(api->get_output(run, "logits", NULL));
  MUST_BE_INVALID(api->set_field(run, "x", NULL));
  MUST_BE_INVALID(api->scale_loss(NULL, 1));
  MUST_BE_INVALID(api->get_step_loss(run, NULL));
  MUST_BE_INVALID(api->all_reduce(run, NULL, 1, TENON_REDUCE_SUM));
  return NULL;
}

tenon_status* call_with_nulls(const Instance* self, const tenon_event* event) {
  RETURN_IF_FAILED(tensors_and_operators(self, event->exec));
  RETURN_IF_FAILED(options(self));
  RETURN_IF_FAILED(small_services(self));
  return run(self, event);
}
