// SPDX-License-Identifier: Apache-2.0
//
// The `tenon_exec` passed to the compute calls of one component, updated from call to call.
// Threads: owned and driven by the train thread.
#pragma once

#include <tenon/exec.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace tenon {

// Waits for a device on behalf of plugins.
class DeviceWait {
 public:
  virtual ~DeviceWait() = default;
  // `host` belongs to the plugin that waits.
  virtual void wait_for(const tenon_host* host) = 0;
};

// Values that all components of a run share.
struct ExecBase {
  uint64_t seed = 0;           // of the run
  uint64_t random_stream = 0;  // of this rank; ranks that compute other tokens have others
  c10::Device device = c10::kCPU;
  void* stream = nullptr;         // of the device
  DeviceWait* waiting = nullptr;  // null if there is nothing to wait for
  at::ScalarType compute_dtype = at::kFloat;
  std::optional<at::ScalarType> autocast_dtype = {};  // of operators inside blocks
  const tenon_mesh* mesh = nullptr;
  const tenon_tensor_api* tensors = nullptr;
  const tenon_op_api* ops = nullptr;

  // The same, for calls that compute on another device.
  ExecBase on(c10::Device other) const {
    ExecBase exec = *this;
    exec.device = other;
    exec.stream = nullptr;
    return exec;
  }
};

// Position of a call in the run.
struct CallPoint {
  uint64_t step = 0;
  uint32_t microbatch = 0;
  bool is_train = true;
};

// What a step of generation reads.
enum class Generating { kPrompt, kContinuation };

class ExecFrame {
 public:
  // `host` is the one passed to the component's plugin.
  ExecFrame(const tenon_host* host, const ExecBase& base);

  void move_to(const CallPoint& point) {
    call_.exec.step = point.step;
    call_.exec.microbatch = point.microbatch;
    call_.exec.mode = point.is_train ? TENON_MODE_TRAIN : TENON_MODE_EVALUATE;
  }
  // Until the next move_to().
  void set_generating(Generating what) {
    call_.exec.mode = what == Generating::kPrompt ? TENON_MODE_PREFILL : TENON_MODE_DECODE;
  }
  // Seeds the call. `salt` distinguishes the blocks, or other users of random numbers, of one
  // point. Returns the seed, for use by the default generator.
  uint64_t seed_for(uint32_t salt);
  // Draws the random numbers of the rank `ranks` before this one, from the next seed on. 0: its
  // own.
  void use_stream_before(uint64_t ranks) { ranks_before_ = ranks; }
  // Draws other random numbers for each piece of the positions of a part, from the next seed on. 0:
  // the first piece, or the part.
  void use_piece(uint32_t index) { piece_ = index; }
  void set_recompute(bool is_recompute) { call_.exec.is_recompute = is_recompute ? 1 : 0; }

  const tenon_exec& exec() const { return call_.exec; }

 private:
  // Plugins receive a pointer to the first member; `sync` converts it back to a Call.
  struct Call {
    tenon_exec exec;
    DeviceWait* waiting;
  };
  static tenon_status* sync(const tenon_exec* exec);
  static uint32_t stop_requested(const tenon_exec* exec);

  uint64_t run_seed_;
  uint64_t random_stream_;
  uint64_t ranks_before_ = 0;
  uint32_t piece_ = 0;
  Call call_{};
};

}  // namespace tenon
