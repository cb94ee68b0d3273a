// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/exec_frame.hpp"

#include "host/tensor/philox.hpp"

namespace tenon {

ExecFrame::ExecFrame(const tenon_host* host, const ExecBase& base) : run_seed_(base.seed) {
  exec_.struct_size = sizeof(exec_);
  exec_.host = host;
  exec_.device = {TENON_CPU, -1};
  exec_.stream = nullptr;
  exec_.compute_dtype = static_cast<uint32_t>(base.compute_dtype);
  exec_.mesh = base.mesh;
  exec_.tensors = base.tensors;
  exec_.ops = base.ops;
  // A CPU has nothing to wait for.
  exec_.sync = [](const tenon_exec*) -> tenon_status* { return nullptr; };
}

void ExecFrame::move_to(const CallPlace& place) {
  exec_.step = place.step;
  exec_.microbatch = place.microbatch;
  exec_.is_train = place.is_train ? 1 : 0;
}

uint64_t ExecFrame::seed_for(uint32_t salt) {
  // Evaluation draws from streams of its own, so that how often one evaluates does not change
  // training.
  const uint64_t stream = (exec_.step << 1) | exec_.is_train;
  const uint64_t data_rank = exec_.mesh == nullptr
                                 ? 0
                                 : uint64_t{exec_.mesh->coordinate[TENON_MESH_REPLICATE]} *
                                           exec_.mesh->size[TENON_MESH_SHARD] +
                                       exec_.mesh->coordinate[TENON_MESH_SHARD];
  const uint64_t index = (data_rank << 48) | (uint64_t{exec_.microbatch} << 24) | salt;
  exec_.seed = random_bits(run_seed_, stream, index);
  return exec_.seed;
}

}  // namespace tenon
