/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss: the sum of the squares of `logits`, on data pointers, with its own backward. And the same
 * with a table that ends before `backward`, so that nothing is trained. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "misbehaves.h"

typedef struct LossFault {
  const char* name;
  tenon_status* (*describe)(tenon_loss_info* out);
  tenon_status* (*count)(const Instance* self, const tenon_exec* exec, tenon_tensor** out_own);
  tenon_status* (*compute)(const Instance* self,
                           const tenon_exec* exec,
                           tenon_loss_compute_args* args);
  tenon_status* (*backward)(const Instance* self,
                            const tenon_exec* exec,
                            const tenon_loss_backward_args* args);
} LossFault;

/* ---- the good loss ---- */

static const tenon_port kPorts[] = {
    {.struct_size = sizeof(tenon_port), .name = "logits", .dtype = TENON_F32},
    {.struct_size = sizeof(tenon_port), .name = "labels", .dtype = TENON_I64}};

static void describe_ports(tenon_loss_info* out, const tenon_port* ports) {
  out->additive_over = TENON_ADDITIVE_SAMPLES;
  out->flags = TENON_LOSS_COUNT_FROM_BATCH;
  out->ports_ref = ports;
  out->num_ports = 2;
}

static tenon_status* good_count(const Instance* self,
                                const tenon_exec* exec,
                                const tenon_loss_count_args* args,
                                tenon_tensor** out_own) {
  tenon_tensor_info labels = {.struct_size = sizeof(labels)};
  RETURN_IF_FAILED(self->tensors->info(args->inputs[1], &labels));
  return filled(exec, TENON_F64, 0, (double)labels.numel, out_own);
}

static tenon_status* good_compute(const Instance* self,
                                  const tenon_exec* exec,
                                  tenon_loss_compute_args* args) {
  tenon_tensor_info logits = {.struct_size = sizeof(logits)};
  RETURN_IF_FAILED(self->tensors->info(args->inputs[0], &logits));
  const float* values = logits.data;
  double sum = 0;
  for (int64_t i = 0; i < logits.numel; ++i) {
    sum += (double)values[i] * values[i];
  }
  return filled(exec, TENON_F32, 0, sum, &args->out_sum_own);
}

static tenon_status* good_backward(const Instance* self,
                                   const tenon_exec* exec,
                                   const tenon_loss_backward_args* args) {
  tenon_tensor_info logits = {.struct_size = sizeof(logits)};
  tenon_tensor_info made = {.struct_size = sizeof(made)};
  double factor = 0;
  RETURN_IF_FAILED(self->tensors->info(args->inputs[0], &logits));
  RETURN_IF_FAILED(self->tensors->item(self->host, args->grad_sum, &factor));
  RETURN_IF_FAILED(self->tensors->empty(self->host,
                                        TENON_F32,
                                        exec->device,
                                        logits.ndim,
                                        logits.shape_ref,
                                        &args->grad_inputs_own[0]));
  RETURN_IF_FAILED(self->tensors->info(args->grad_inputs_own[0], &made));
  const float* values = logits.data;
  float* gradient = made.data;
  for (int64_t i = 0; i < logits.numel; ++i) {
    gradient[i] = (float)(2 * factor * values[i]);
  }
  return NULL;
}

/* ---- faults of describe ---- */

#define PORTS_OF_SIZE(bytes)                                          \
  {                                                                   \
    {.struct_size = (bytes), .name = "logits", .dtype = TENON_F32}, { \
      .struct_size = (bytes), .name = "labels", .dtype = TENON_I64    \
    }                                                                 \
  }

static tenon_status* ports_of_no_size(tenon_loss_info* out) {
  static const tenon_port ports[] = PORTS_OF_SIZE(0);
  describe_ports(out, ports);
  return NULL;
}

static tenon_status* ports_of_huge_size(tenon_loss_info* out) {
  static const tenon_port ports[] = PORTS_OF_SIZE((size_t)1 << 40);
  describe_ports(out, ports);
  return NULL;
}

static tenon_status* ports_of_odd_size(tenon_loss_info* out) {
  static const tenon_port ports[] = PORTS_OF_SIZE(sizeof(tenon_port) + 3);
  describe_ports(out, ports);
  return NULL;
}

static tenon_status* write_past_info(tenon_loss_info* out) {
  describe_ports(out, kPorts);
  volatile char* beyond = (volatile char*)out + sizeof(*out);
  for (int i = 0; i < 64; ++i) {
    beyond[i] = 0x11;
  }
  return NULL;
}

static tenon_status* unknown_flags(tenon_loss_info* out) {
  describe_ports(out, kPorts);
  out->flags |= 1u << 7;
  return NULL;
}

/* ---- faults of results ---- */

static tenon_status* count_of_minus_one(const Instance* self,
                                        const tenon_exec* exec,
                                        tenon_tensor** out_own) {
  (void)self;
  return filled(exec, TENON_F64, 0, -1, out_own);
}

static tenon_status* count_of_nan(const Instance* self,
                                  const tenon_exec* exec,
                                  tenon_tensor** out_own) {
  (void)self;
  return filled(exec, TENON_F64, 0, NAN, out_own);
}

static tenon_status* count_of_i32(const Instance* self,
                                  const tenon_exec* exec,
                                  tenon_tensor** out_own) {
  (void)self;
  return filled(exec, TENON_I32, 0, 4, out_own);
}

static tenon_status* no_sum(const Instance* self,
                            const tenon_exec* exec,
                            tenon_loss_compute_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return NULL;
}

static tenon_status* sum_of_i64(const Instance* self,
                                const tenon_exec* exec,
                                tenon_loss_compute_args* args) {
  (void)self;
  return filled(exec, TENON_I64, 0, 5, &args->out_sum_own);
}

static tenon_status* sum_of_two(const Instance* self,
                                const tenon_exec* exec,
                                tenon_loss_compute_args* args) {
  (void)self;
  return filled(exec, TENON_F32, 2, 5, &args->out_sum_own);
}

static tenon_status* short_gradient(const Instance* self,
                                    const tenon_exec* exec,
                                    const tenon_loss_backward_args* args) {
  (void)self;
  return filled(exec, TENON_F32, 1, 1, &args->grad_inputs_own[0]);
}

static tenon_status* infinite_gradient(const Instance* self,
                                       const tenon_exec* exec,
                                       const tenon_loss_backward_args* args) {
  tenon_tensor_info logits = {.struct_size = sizeof(logits)};
  RETURN_IF_FAILED(self->tensors->info(args->inputs[0], &logits));
  return self->tensors->full(self->host,
                             TENON_F32,
                             exec->device,
                             logits.ndim,
                             logits.shape_ref,
                             INFINITY,
                             &args->grad_inputs_own[0]);
}

static tenon_status* gradients_beyond_inputs(const Instance* self,
                                             const tenon_exec* exec,
                                             const tenon_loss_backward_args* args) {
  RETURN_IF_FAILED(good_backward(self, exec, args));
  return filled(exec, TENON_F32, 0, 1, &args->grad_inputs_own[args->num_inputs]);
}

static tenon_status* gradient_stored_twice(const Instance* self,
                                           const tenon_exec* exec,
                                           const tenon_loss_backward_args* args) {
  RETURN_IF_FAILED(good_backward(self, exec, args));
  args->grad_inputs_own[1] = args->grad_inputs_own[0];
  return NULL;
}

/* ---- faults of handles and statuses ---- */

static tenon_status* released_sum(const Instance* self,
                                  const tenon_exec* exec,
                                  tenon_loss_compute_args* args) {
  RETURN_IF_FAILED(good_compute(self, exec, args));
  self->tensors->release(args->out_sum_own);
  return NULL;
}

static tenon_status* sum_released_twice(const Instance* self,
                                        const tenon_exec* exec,
                                        tenon_loss_compute_args* args) {
  RETURN_IF_FAILED(good_compute(self, exec, args));
  self->tensors->release(args->out_sum_own);
  self->tensors->release(args->out_sum_own);
  return good_compute(self, exec, args);
}

static tenon_status* input_released(const Instance* self,
                                    const tenon_exec* exec,
                                    tenon_loss_compute_args* args) {
  self->tensors->release((tenon_tensor*)args->inputs[0]);
  return good_compute(self, exec, args);
}

static tenon_status* garbage_sum(const Instance* self,
                                 const tenon_exec* exec,
                                 tenon_loss_compute_args* args) {
  (void)self;
  (void)exec;
  args->out_sum_own = (tenon_tensor*)(uintptr_t)0x5a5a5a5a50;
  return NULL;
}

static tenon_status* input_returned(const Instance* self,
                                    const tenon_exec* exec,
                                    tenon_loss_compute_args* args) {
  (void)self;
  (void)exec;
  args->out_sum_own = (tenon_tensor*)args->inputs[0];
  return NULL;
}

static tenon_status* garbage_status(const Instance* self,
                                    const tenon_exec* exec,
                                    tenon_loss_compute_args* args) {
  (void)self;
  (void)exec;
  (void)args;
  return (tenon_status*)(uintptr_t)0x5a50;
}

static tenon_status* status_released_twice(const Instance* self,
                                           const tenon_exec* exec,
                                           tenon_loss_compute_args* args) {
  tenon_status* status = fail(self, TENON_INVALID, "twice");
  self->status->release(status);
  self->status->release(status);
  return good_compute(self, exec, args);
}

static tenon_status* released_status(const Instance* self,
                                     const tenon_exec* exec,
                                     tenon_loss_compute_args* args) {
  (void)exec;
  (void)args;
  tenon_status* status = fail(self, TENON_INVALID, "released");
  self->status->release(status);
  return status;
}

/* ---- faults that only checked calls find ---- */

/* The second call uses the input of the first. */
static tenon_status* input_kept(const Instance* self,
                                const tenon_exec* exec,
                                tenon_loss_compute_args* args) {
  static const tenon_tensor* kept = NULL;
  tenon_tensor_info info = {.struct_size = sizeof(info)};
  const tenon_tensor* const before = kept;
  kept = args->inputs[0];
  if (before != NULL) {
    RETURN_IF_FAILED(self->tensors->info(before, &info));
  }
  return good_compute(self, exec, args);
}

static tenon_status* used_after_release(const Instance* self,
                                        const tenon_exec* exec,
                                        tenon_loss_compute_args* args) {
  tenon_tensor* made = NULL;
  tenon_tensor* sum = NULL;
  RETURN_IF_FAILED(filled(exec, TENON_F32, 4, 1, &made));
  self->tensors->release(made);
  const tenon_any any[] = {tensor_any(made)};
  RETURN_IF_FAILED(call_op(exec, "aten::sum", any, 1, &sum));
  self->tensors->release(sum);
  return good_compute(self, exec, args);
}

static tenon_status* handle_left(const Instance* self,
                                 const tenon_exec* exec,
                                 tenon_loss_compute_args* args) {
  tenon_tensor* left = NULL;
  RETURN_IF_FAILED(filled(exec, TENON_F32, 4, 1, &left));
  return good_compute(self, exec, args);
}

static void* compute_alone(void* opaque) {
  const tenon_exec* exec = opaque;
  tenon_tensor* made = NULL;
  tenon_tensor* sum = NULL;
  tenon_status* failed = filled(exec, TENON_F32, 4, 1, &made);
  if (failed == NULL) {
    const tenon_any any[] = {tensor_any(made)};
    failed = call_op(exec, "aten::sum", any, 1, &sum);
  }
  exec->tensors->release(sum);
  exec->tensors->release(made);
  return failed;
}

static tenon_status* computed_on_thread(const Instance* self,
                                        const tenon_exec* exec,
                                        tenon_loss_compute_args* args) {
  pthread_t thread;
  void* failed = NULL;
  if (pthread_create(&thread, NULL, compute_alone, (void*)exec) != 0) {
    return fail(self, TENON_INTERNAL, "no thread");
  }
  pthread_join(thread, &failed);
  return failed != NULL ? failed : good_compute(self, exec, args);
}

static const LossFault kFaults[] = {
    {"", NULL, NULL, NULL, NULL},
    {"ports_of_no_size", ports_of_no_size, NULL, NULL, NULL},
    {"ports_of_huge_size", ports_of_huge_size, NULL, NULL, NULL},
    {"ports_of_odd_size", ports_of_odd_size, NULL, NULL, NULL},
    {"write_past_info", write_past_info, NULL, NULL, NULL},
    {"unknown_flags", unknown_flags, NULL, NULL, NULL},
    {"count_of_minus_one", NULL, count_of_minus_one, NULL, NULL},
    {"count_of_nan", NULL, count_of_nan, NULL, NULL},
    {"count_of_i32", NULL, count_of_i32, NULL, NULL},
    {"no_sum", NULL, NULL, no_sum, NULL},
    {"sum_of_i64", NULL, NULL, sum_of_i64, NULL},
    {"sum_of_two", NULL, NULL, sum_of_two, NULL},
    {"short_gradient", NULL, NULL, NULL, short_gradient},
    {"infinite_gradient", NULL, NULL, NULL, infinite_gradient},
    {"gradients_beyond_inputs", NULL, NULL, NULL, gradients_beyond_inputs},
    {"gradient_stored_twice", NULL, NULL, NULL, gradient_stored_twice},
    {"released_sum", NULL, NULL, released_sum, NULL},
    {"sum_released_twice", NULL, NULL, sum_released_twice, NULL},
    {"input_released", NULL, NULL, input_released, NULL},
    {"garbage_sum", NULL, NULL, garbage_sum, NULL},
    {"input_returned", NULL, NULL, input_returned, NULL},
    {"garbage_status", NULL, NULL, garbage_status, NULL},
    {"status_released_twice", NULL, NULL, status_released_twice, NULL},
    {"released_status", NULL, NULL, released_status, NULL},
    {"input_kept", NULL, NULL, input_kept, NULL},
    {"used_after_release", NULL, NULL, used_after_release, NULL},
    {"handle_left", NULL, NULL, handle_left, NULL},
    {"computed_on_thread", NULL, NULL, computed_on_thread, NULL},
};

/* ---- the component ---- */

static const LossFault* fault_of(const Instance* self) {
  return self->fault;
}

static tenon_status* describe(void* self, tenon_loss_info* out) {
  if (fault_of(self)->describe != NULL) {
    return fault_of(self)->describe(out);
  }
  describe_ports(out, kPorts);
  return NULL;
}

static tenon_status* count(void* self, const tenon_exec* exec, tenon_loss_count_args* args) {
  if (fault_of(self)->count != NULL && exec->step >= BAD_STEP) {
    return fault_of(self)->count(self, exec, &args->out_count_own);
  }
  return good_count(self, exec, args, &args->out_count_own);
}

static tenon_status* compute(void* self, const tenon_exec* exec, tenon_loss_compute_args* args) {
  if (fault_of(self)->compute != NULL && exec->step >= BAD_STEP) {
    return fault_of(self)->compute(self, exec, args);
  }
  return good_compute(self, exec, args);
}

static tenon_status* backward(void* self,
                              const tenon_exec* exec,
                              const tenon_loss_backward_args* args) {
  if (fault_of(self)->backward != NULL && exec->step >= BAD_STEP) {
    return fault_of(self)->backward(self, exec, args);
  }
  return good_backward(self, exec, args);
}

static const tenon_loss kTable = {.struct_size = sizeof(tenon_loss),
                                  .describe = describe,
                                  .count = count,
                                  .compute = compute,
                                  .backward = backward};
static const tenon_loss kOldTable = {.struct_size = offsetof(tenon_loss, backward),
                                     .describe = describe,
                                     .count = count,
                                     .compute = compute,
                                     .backward = backward};

DEFINE_CREATE(create, kFaults)

const tenon_component bad_loss_component =
    COMPONENT("loss", "bad_loss", TENON_LOSS_ID, kTable, create, OPTIONS_SCHEMA(""));
const tenon_component old_loss_component =
    COMPONENT("loss", "old_loss", TENON_LOSS_ID, kOldTable, create, OPTIONS_SCHEMA(""));
