// SPDX-License-Identifier: Apache-2.0

#include "host/cli/service_table.hpp"

#include "host/chat/chat_service.hpp"
#include "host/error/status.hpp"
#include "host/hook/run_view.hpp"
#include "host/kernels/operators.hpp"
#include "host/metrics/metrics_service.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/parallel_service.hpp"
#include "host/tensor/random_service.hpp"
#include "host/tensor/tensor_service.hpp"

namespace tenon {

ServiceTable make_service_table() {
  register_operators();
  ServiceTable services = {
      {TENON_STATUS_ID, status_service()},
      {TENON_TENSOR_ID, tensor_service()},
      {TENON_OP_ID, op_service()},
      {TENON_RANDOM_ID, random_service()},
      {TENON_PARALLEL_ID, parallel_service()},
      {TENON_METRICS_ID, metrics_service()},
      {TENON_CHAT_TEMPLATE_ID, chat_template_service()},
      {TENON_TEXT_GENERATION_ID, text_generation_service()},
  };
  add_plugin_services(services);
  return services;
}

}  // namespace tenon
