/* SPDX-License-Identifier: Apache-2.0
 *
 * Two blocks: `body` calls operators of libtorch, and autograd computes its gradients. `head` has a
 * hand-written backward, and subtracts a running mean, which is a state buffer.
 *
 * Shapes   features [B, 3], hidden [B, 4], logits [B, 3] */
#include "model_graph.h"

/* The initial values of `body`. */
static tenon_status* materialize(void* opaque,
                                 const tenon_exec* exec,
                                 const tenon_materialize_args* args) {
  static const int64_t shape[] = {kHidden, kFeatures};
  for (uint32_t i = 0; i < 2; ++i) {
    float* data = NULL;
    MUSEUM_TRY(museum_empty(opaque, exec, TENON_F32, 2 - i, shape, &args->leaves_own[i], &data));
    for (int64_t k = 0; k < (i == 0 ? kHidden * kFeatures : kHidden); ++k) {
      data[k] = (float)(k * 5 % 7 - 3) / 8.0F;
    }
  }
  return NULL;
}

static tenon_status* fill_buffer(void* opaque,
                                 const tenon_exec* exec,
                                 const tenon_fill_buffer_args* args) {
  float* data = NULL;
  MUSEUM_TRY(museum_data(opaque, exec, args->tensor, TENON_F32, &data));
  for (int64_t k = 0; k < kHidden; ++k) {
    data[k] = 0.125F;
  }
  return NULL;
}

/* tanh(aten::linear(features, weight, bias)) */
static tenon_status* forward_body(museum* self, const tenon_exec* exec, tenon_forward_args* args) {
  const tenon_op* linear = NULL;
  const tenon_op* tanh = NULL;
  tenon_any inputs[3] = {
      {.tag = TENON_ANY_TENSOR}, {.tag = TENON_ANY_TENSOR}, {.tag = TENON_ANY_TENSOR}};
  tenon_any sum = {0};
  tenon_any result = {0};
  size_t n = 1;
  inputs[0].v.tensor = (tenon_tensor*)args->inputs[0];
  inputs[1].v.tensor = (tenon_tensor*)args->parameters[0];
  inputs[2].v.tensor = (tenon_tensor*)args->parameters[1];
  MUSEUM_TRY(exec->ops->find(self->host, "aten::linear", &linear));
  MUSEUM_TRY(exec->ops->find(self->host, "aten::tanh", &tanh));
  MUSEUM_TRY(exec->ops->call(self->host, linear, inputs, 3, &sum, &n));
  tenon_status* const status = exec->ops->call(self->host, tanh, &sum, 1, &result, &n);
  exec->tensors->release(sum.v.tensor);
  args->outputs_own[0] = status == NULL ? result.v.tensor : NULL;
  return status;
}

/* (hidden - mean) weight^T + bias; the mean moves towards that of the batch. */
static tenon_status* forward_head(museum* self, const tenon_exec* exec, tenon_forward_args* args) {
  const float* hidden = NULL;
  const float* weight = NULL;
  const float* bias = NULL;
  const float* mean = NULL;
  float* centered = NULL;
  float* logits = NULL;
  float* next = NULL;
  tenon_tensor* kept = NULL;
  MUSEUM_TRY(museum_data(self, exec, args->parameters[0], TENON_F32, &weight));
  MUSEUM_TRY(museum_data(self, exec, args->parameters[1], TENON_F32, &bias));
  MUSEUM_TRY(museum_data(self, exec, args->buffers[0], TENON_F32, &mean));
  MUSEUM_TRY(museum_data(self, exec, args->inputs[0], TENON_F32, &hidden));
  const int64_t n = self->info.numel / kHidden;
  const int64_t shape[] = {n, kClasses};
  const int64_t hidden_shape[] = {n, kHidden};
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 2, shape, &args->outputs_own[0], &logits));
  MUSEUM_TRY(
      museum_empty(self, exec, TENON_F32, 1, &hidden_shape[1], &args->next_buffers_own[0], &next));
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 2, hidden_shape, &kept, &centered));
  memcpy(next, mean, kHidden * sizeof(float));
  for (int64_t i = 0; i < n; ++i, hidden += kHidden, centered += kHidden, logits += kClasses) {
    for (int64_t k = 0; k < kHidden; ++k) {
      centered[k] = hidden[k] - mean[k];
      next[k] += 0.25F * centered[k] / (float)n;
    }
    for (int64_t v = 0; v < kClasses; ++v) {
      logits[v] = bias[v];
      for (int64_t k = 0; k < kHidden; ++k) {
        logits[v] += centered[k] * weight[v * kHidden + k];
      }
    }
  }
  tenon_status* const status = args->save(args, kept);
  exec->tensors->release(kept);
  return status;
}

static tenon_status* forward(void* self, const tenon_exec* exec, tenon_forward_args* args) {
  return args->block == kBody ? forward_body(self, exec, args) : forward_head(self, exec, args);
}

/* Of `head`, whose gradients are all wanted, because `body` is trained. */
static tenon_status* backward(void* self, const tenon_exec* exec, const tenon_backward_args* args) {
  static const int64_t weight_shape[] = {kClasses, kHidden};
  const float* centered = NULL;
  const float* weight = NULL;
  const float* grad = NULL;
  float* out[3] = {NULL, NULL, NULL}; /* of hidden, weight and bias */
  MUSEUM_TRY(museum_data(self, exec, args->parameters[0], TENON_F32, &weight));
  MUSEUM_TRY(museum_data(self, exec, args->grad_outputs[0], TENON_F32, &grad));
  MUSEUM_TRY(museum_data(self, exec, args->saved[0], TENON_F32, &centered));
  const int64_t shape[] = {((museum*)self)->info.numel / kHidden, kHidden};
  tenon_tensor** const of_parameters = args->grad_parameters_own;
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 2, shape, &args->grad_inputs_own[0], &out[0]));
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 2, weight_shape, &of_parameters[0], &out[1]));
  MUSEUM_TRY(museum_empty(self, exec, TENON_F32, 1, weight_shape, &of_parameters[1], &out[2]));
  memset(out[0], 0, (size_t)shape[0] * kHidden * sizeof(float));
  memset(out[1], 0, sizeof(float) * kClasses * kHidden);
  memset(out[2], 0, sizeof(float) * kClasses);
  for (int64_t i = 0; i < shape[0]; ++i, centered += kHidden, grad += kClasses, out[0] += kHidden) {
    for (int64_t v = 0; v < kClasses; ++v) {
      out[2][v] += grad[v];
      for (int64_t k = 0; k < kHidden; ++k) {
        out[0][k] += grad[v] * weight[v * kHidden + k];
        out[1][v * kHidden + k] += grad[v] * centered[k];
      }
    }
  }
  return NULL;
}

static tenon_status* infer(void* self, const tenon_exec* exec, tenon_infer_args* args) {
  (void)self;
  (void)exec;
  const int64_t sizes[] = {kFeatures, kHidden, kClasses};
  const double n = (double)args->input_shapes[0][0];
  args->out_ndims[0] = 2;
  args->out_shapes[0][0] = args->input_shapes[0][0];
  args->out_shapes[0][1] = sizes[args->block + 1];
  args->out_flops = 2 * n * (double)(sizes[args->block] * sizes[args->block + 1]);
  args->out_saved_bytes = n * kHidden * sizeof(float);
  args->out_working_bytes = 2 * n * kHidden * sizeof(float);
  return NULL;
}

static const tenon_model table = {.struct_size = sizeof table,
                                  .describe = museum_describe_graph,
                                  .forward = forward,
                                  .backward = backward,
                                  .materialize = materialize,
                                  .fill_buffer = fill_buffer,
                                  .infer = infer};

static const tenon_component component = {.struct_size = sizeof component,
                                          .kind = "model",
                                          .type = "museum_model",
                                          .interface_id = TENON_MODEL_ID,
                                          .table = &table,
                                          .summary = "two blocks",
                                          .options_schema = MUSEUM_NO_OPTIONS,
                                          .create = museum_create,
                                          .destroy = museum_destroy};

MUSEUM_PLUGIN("model", "model:museum_model", component);
