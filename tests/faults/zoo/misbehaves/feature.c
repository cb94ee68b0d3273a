/* SPDX-License-Identifier: Apache-2.0
 *
 * A transform that passes its input on, and a tokenizer of bytes. */
#include "misbehaves.h"

/* ---- bad_feature ---- */

typedef struct FeatureFault {
  const char* name;
  size_t num_outputs;
  int stores_garbage;
} FeatureFault;

static const FeatureFault kFeatureFaults[] = {
    {"", 1, 0}, {"a_thousand_outputs", 1000, 0}, {"garbage_values", 1, 1}};

static tenon_status* infer(void* opaque,
                           const tenon_column_type* inputs,
                           size_t num_inputs,
                           tenon_column_type* outputs,
                           size_t* io_num_outputs) {
  const FeatureFault* fault = ((const Instance*)opaque)->fault;
  (void)num_inputs;
  outputs[0] = inputs[0];
  *io_num_outputs = fault->num_outputs;
  return NULL;
}

static tenon_status* run(const tenon_exec* exec, tenon_feature_call* calls, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    Instance* self = calls[i].self;
    const FeatureFault* fault = self->fault;
    tenon_tensor** values = &calls[i].outputs[0].values_own;
    if (fault->stores_garbage != 0 && ++self->num_calls >= BAD_STEP) {
      *values = (tenon_tensor*)(uintptr_t)0x5a5a5a5a50;
    } else {
      RETURN_IF_FAILED(exec->tensors->retain(exec->host, calls[i].inputs[0].values, values));
    }
  }
  return NULL;
}

static const tenon_feature kFeatureTable = {
    .struct_size = sizeof(tenon_feature), .infer = infer, .run = run};

DEFINE_CREATE(create_feature, kFeatureFaults)

const tenon_component bad_feature_component = COMPONENT(
    "feature", "bad_feature", TENON_FEATURE_ID, kFeatureTable, create_feature, OPTIONS_SCHEMA(""));

/* ---- bad_tokenizer ---- */

typedef struct TokenizerFault {
  const char* name;
  int64_t vocab_size;
} TokenizerFault;

static const TokenizerFault kTokenizerFaults[] = {{"", 256}, {"no_vocabulary", 0}};

static tenon_status* describe(void* opaque, tenon_tokenizer_info* out) {
  const TokenizerFault* fault = ((const Instance*)opaque)->fault;
  out->vocab_size = fault->vocab_size;
  out->bos = out->eos = out->pad = -1;
  out->bytes_per_token = 1;
  return NULL;
}

static tenon_status* encode(void* self, const tenon_encode_args* args) {
  (void)self;
  for (size_t i = 0; i < args->num_bytes; ++i) {
    const int32_t id = (unsigned char)args->bytes[i];
    RETURN_IF_FAILED(args->sink(args->context, &id, 1));
  }
  return NULL;
}

static tenon_status* decode(void* self, const tenon_decode_args* args) {
  (void)self;
  for (size_t i = 0; i < args->num_ids; ++i) {
    const char byte = (char)args->ids[i];
    RETURN_IF_FAILED(args->sink(args->context, &byte, 1));
  }
  return NULL;
}

static const tenon_tokenizer kTokenizerTable = {.struct_size = sizeof(tenon_tokenizer),
                                                .describe = describe,
                                                .encode = encode,
                                                .decode = decode};

DEFINE_CREATE(create_tokenizer, kTokenizerFaults)

const tenon_component bad_tokenizer_component = COMPONENT("tokenizer",
                                                          "bad_tokenizer",
                                                          TENON_TOKENIZER_ID,
                                                          kTokenizerTable,
                                                          create_tokenizer,
                                                          OPTIONS_SCHEMA(""));
