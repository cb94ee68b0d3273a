// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/model_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/text/formatted.hpp"

#include <utility>

namespace tenon {

ModelProxy::ModelProxy(ComponentInstance instance)
    : instance_(std::move(instance)), table_(table_of<tenon_model>(instance_, TENON_MODEL_ID)) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_model, table_, describe, TENON_MODEL_ID, identity);
  TENON_REQUIRE(tenon_model, table_, forward, TENON_MODEL_ID, identity);
  has_backward_ = TENON_HAS(tenon_model, table_, backward);
  has_infer_ = TENON_HAS(tenon_model, table_, infer);
}

// The next two functions are checked when called: only describe() shows if the model needs them.

std::vector<at::Tensor> ModelProxy::materialize(const tenon_exec& exec,
                                                uint32_t block,
                                                std::size_t num_leaves) const {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_model, table_, materialize, TENON_MODEL_ID, identity);
  OwnHandles leaves_own(num_leaves);
  const tenon_materialize_args args{.struct_size = sizeof(tenon_materialize_args),
                                    .block = block,
                                    .reserved = 0,
                                    .leaves_own = leaves_own.data(),
                                    .num_leaves = num_leaves};
  instance_.call("materialize",
                 [&] { return table_->materialize(instance_.self(), &exec, &args); });
  std::vector<at::Tensor> leaves = leaves_own.take(identity, "materialize");
  for (std::size_t i = 0; i < num_leaves; ++i) {
    if (!leaves[i].defined()) {
      identity.fail_result(
          formatted("materialize of block {} returned no leaf for its parameter {}", block, i));
    }
  }
  return leaves;
}

void ModelProxy::fill_buffer(const tenon_exec& exec, uint32_t buffer, tenon_tensor* tensor) const {
  TENON_REQUIRE(tenon_model, table_, fill_buffer, TENON_MODEL_ID, instance_.identity());
  const tenon_fill_buffer_args args{.struct_size = sizeof(tenon_fill_buffer_args),
                                    .buffer = buffer,
                                    .reserved = 0,
                                    .tensor = tensor};
  instance_.call("fill_buffer",
                 [&] { return table_->fill_buffer(instance_.self(), &exec, &args); });
}

}  // namespace tenon
