// SPDX-License-Identifier: Apache-2.0
//
// A loss without the wrapper, whose `create` or `compute` lets an exception out: the option
// "where". Built twice, the second time with a C++ runtime of its own inside.
#include <tenon/tenon.h>

#include <stdexcept>
#include <string_view>

namespace {

struct Loss {
  bool throws_in_compute = false;
};

tenon_status* create(const tenon_host* host, const tenon_create_args* args, void** out_self) {
  const auto* const options =
      static_cast<const tenon_options_api*>(host->get_interface(host, TENON_OPTIONS_ID));
  const char* where = nullptr;
  if (tenon_status* const failed = options->get_string(args->options, "/where", &where)) {
    return failed;
  }
  if (std::string_view(where) == "create") {
    throw std::runtime_error("the zoo threw in create");
  }
  *out_self = new Loss{std::string_view(where) == "compute"};
  return nullptr;
}

void destroy(void* self) {
  delete static_cast<Loss*>(self);
}

tenon_status* describe(void* /*self*/, tenon_loss_info* out) {
  static const tenon_port port{sizeof(tenon_port), "logits", TENON_CLASS_FLOAT, 0, nullptr, 0};
  out->additive_over = TENON_ADDITIVE_SAMPLES;
  out->ports_ref = &port;
  out->num_ports = 1;
  return nullptr;
}

tenon_status* make_one(const tenon_exec* exec, uint32_t dtype, tenon_tensor** out_own) {
  return exec->tensors->full(exec->host, dtype, exec->device, 0, nullptr, 1, out_own);
}

tenon_status* count(void* /*self*/, const tenon_exec* exec, tenon_loss_count_args* args) {
  return make_one(exec, TENON_F64, &args->out_count_own);
}

tenon_status* compute(void* self, const tenon_exec* exec, tenon_loss_compute_args* args) {
  if (static_cast<Loss*>(self)->throws_in_compute) {
    throw std::runtime_error("the zoo threw in compute");
  }
  return make_one(exec, TENON_F32, &args->out_sum_own);
}

constexpr tenon_loss kTable{sizeof(tenon_loss), describe, count, compute, nullptr};

constexpr tenon_component kComponent{
    sizeof(tenon_component),
    "loss",
    "throws",
    TENON_LOSS_ID,
    &kTable,
    "for tests: throws",
    R"({"type": "object", "additionalProperties": false, "properties": {
      "where": {"type": "string", "default": "", "description": "the function that throws"}}})",
    create,
    destroy,
    nullptr,
    nullptr};

}  // namespace

extern "C" TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &kComponent);
}
