// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/exec_frame.hpp"

#include "host/tensor/handle.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/tensor/torch_guard.hpp"

#include <cstddef>
#include <type_traits>

namespace tenon {

ExecFrame::ExecFrame(const tenon_host* host, const ExecBase& base)
    : run_seed_(base.seed), random_stream_(base.random_stream) {
  call_.exec.struct_size = sizeof(call_.exec);
  call_.exec.host = host;
  call_.exec.device = to_abi(base.device);
  call_.exec.stream = base.stream;
  call_.exec.compute_dtype = static_cast<uint32_t>(base.compute_dtype);
  call_.exec.mesh = base.mesh;
  call_.exec.tensors = base.tensors;
  call_.exec.ops = base.ops;
  call_.exec.sync = &ExecFrame::sync;
  call_.exec.stop_requested = &ExecFrame::stop_requested;
  call_.waiting = base.waiting;
}

tenon_status* ExecFrame::sync(const tenon_exec* exec) {
  return torch_guard(exec != nullptr ? exec->host : nullptr, "sync: ", [exec] {
    if (exec == nullptr) {
      throw Error("tensor.bad_argument", "sync was called with a null argument");
    }
    static_assert(std::is_standard_layout_v<Call> && offsetof(Call, exec) == 0);
    DeviceWait* const waiting = reinterpret_cast<const Call*>(exec)->waiting;
    if (waiting != nullptr) {
      waiting->wait_for(exec->host);
    }
  });
}

uint32_t ExecFrame::stop_requested(const tenon_exec* exec) {
  return exec != nullptr && is_stop_requested() ? 1 : 0;
}

uint64_t ExecFrame::seed_for(uint32_t salt) {
  // Evaluation and generation use separate streams, so that their frequency does not change
  // training.
  const uint64_t stream = (uint64_t{piece_} << 48) | (call_.exec.step << 1) |
                          (call_.exec.mode == TENON_MODE_TRAIN ? uint64_t{1} : uint64_t{0});
  const uint64_t index =
      ((random_stream_ - ranks_before_) << 48) | (uint64_t{call_.exec.microbatch} << 24) | salt;
  call_.exec.seed = random_bits(run_seed_, stream, index);
  return call_.exec.seed;
}

}  // namespace tenon
