/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin `misbehaves`: one component of each kind, in plain C without the wrapper. The option
 * "fault" selects what a component does wrong, from a list in the file of its kind; with "" it does
 * its work. On ranks other than the option "rank", it does its work with any fault; -1 means all
 * ranks. */
#ifndef TENON_TESTS_MISBEHAVES_H
#define TENON_TESTS_MISBEHAVES_H

#include <tenon/tenon.h>

#include <stddef.h>

/* The step in which faults of a step begin, and the number of the first bad read of a dataset. */
#define BAD_STEP 3

#define RETURN_IF_FAILED(call)            \
  do {                                    \
    tenon_status* failed_status = (call); \
    if (failed_status != NULL) {          \
      return failed_status;               \
    }                                     \
  } while (0)

/* An instance of any component here. */
typedef struct Instance {
  const tenon_host* host;
  const tenon_status_api* status;
  const tenon_tensor_api* tensors;
  const void* fault;        /* element of the list of its kind; never null */
  void (*at_destroy)(void); /* null: nothing but the end of the instance */
  int num_calls;            /* of functions that count them */
} Instance;

/* The faults of a kind: structs whose first member is the name. The first one is "": no fault. */
typedef struct FaultList {
  const void* faults;
  size_t size; /* of an element, in bytes */
  size_t count;
} FaultList;

#define FAULT_LIST(array) \
  { (array), sizeof((array)[0]), sizeof(array) / sizeof((array)[0]) }

/* `create` of every component here. Besides the faults of the list, it has those of any kind:
 * "crash_in_create", "exit_in_create", "hang_in_create", "crash_in_destroy", "hang_in_destroy". */
tenon_status* create_instance(const tenon_host* host,
                              const tenon_create_args* args,
                              const FaultList* list,
                              void** out_self);
void destroy_instance(void* self);

/* A status with the id "misbehaves.asked". */
tenon_status* fail(const Instance* self, uint32_t code, const char* message);
/* A new tensor of `numel` values in one axis; a scalar if numel is 0. */
tenon_status* filled(
    const tenon_exec* exec, uint32_t dtype, int64_t numel, double value, tenon_tensor** out_own);
/* Calls an operator whose one result is a tensor. */
tenon_status* call_op(const tenon_exec* exec,
                      const char* name,
                      const tenon_any* args,
                      size_t num_args,
                      tenon_tensor** out_own);
tenon_any tensor_any(const tenon_tensor* tensor);

void crash(void);
void hang(void);

/* Calls functions of the host with null arguments. Returns an error if one of them does not answer
 * TENON_INVALID. */
tenon_status* call_with_nulls(const Instance* self, const tenon_event* event);

/* A component's "create", which knows the faults of its kind. */
#define DEFINE_CREATE(name, array)                                              \
  static tenon_status* name(                                                    \
      const tenon_host* host, const tenon_create_args* args, void** out_self) { \
    static const FaultList list = FAULT_LIST(array);                            \
    return create_instance(host, args, &list, out_self);                        \
  }

#define OPTIONS_SCHEMA(more)                                                                     \
  "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {" more               \
  "\"fault\": {\"type\": \"string\", \"default\": \"\", \"description\": \"what goes wrong\"}, " \
  "\"rank\": {\"type\": \"integer\", \"default\": -1, "                                          \
  "\"description\": \"the rank where it does; -1: all\"}}}"

#define COMPONENT(kind_name, type_name, id, functions, create_name, schema)           \
  {                                                                                   \
    .struct_size = sizeof(tenon_component), .kind = (kind_name), .type = (type_name), \
    .interface_id = (id), .table = &(functions), .summary = "for tests: goes wrong",  \
    .options_schema = schema, .create = (create_name), .destroy = destroy_instance    \
  }

extern const tenon_component bad_loss_component;
extern const tenon_component old_loss_component;
extern const tenon_component bad_hook_component;
extern const tenon_component bad_model_component;
extern const tenon_component bad_map_component;
extern const tenon_component bad_stream_component;
extern const tenon_component bad_optimizer_component;
extern const tenon_component bad_schedule_component;
extern const tenon_component bad_metric_component;
extern const tenon_component bad_sink_component;
extern const tenon_component bad_tokenizer_component;
extern const tenon_component bad_feature_component;
extern const tenon_component bad_storage_component;

#endif
