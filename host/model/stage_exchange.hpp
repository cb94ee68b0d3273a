// SPDX-License-Identifier: Apache-2.0
//
// Messages between the stages of a pipeline: values, and the running sums of their gradients. Each
// message has a header, so that a rank needs no other rank's schedule, shapes may vary, and a
// gradient may be undefined. A receiver reads the messages of a rank in the order in which they
// were sent, and keeps those that it does not need yet. Stages of one rank send nothing. Invariant:
// sends never block. Threads: the train thread.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// Bytes of the header of a message, which is sent besides the tensor.
int64_t stage_header_bytes();

struct StageMessage {
  enum class Kind : uint8_t { kValue, kGradient };
  Kind kind = Kind::kValue;
  uint32_t value = 0;
  uint32_t from = 0;  // stage
  uint32_t to = 0;    // stage
  // Of the microbatch, as in CallPoint.
  uint64_t step = 0;
  uint32_t microbatch = 0;
  bool is_train = true;

  bool operator==(const StageMessage&) const = default;
};

class StageExchange {
 public:
  // `headers` are for values in CPU memory, `tensors` on the device of the run; both are the ranks
  // of the pipeline, and are borrowed. `owners` has the rank of each stage. `device` is that of the
  // run.
  StageExchange(Group& headers,
                Group& tensors,
                std::vector<uint32_t> owners,
                c10::Device device = c10::kCPU);
  ~StageExchange();
  StageExchange(const StageExchange&) = delete;
  StageExchange& operator=(const StageExchange&) = delete;

  // True if this rank has the stage.
  bool is_here(uint32_t stage) const { return owners_[stage] == headers_.rank(); }

  // Starts to send a tensor of any shape and dtype, and keeps it until it has arrived. It must not
  // change. It may be undefined. `name` is that of the value, for reports.
  // Errors  distributed.failed, also for the functions below
  void send(const StageMessage& message, const at::Tensor& tensor, const std::string& name);
  // Waits for a message. Undefined if the tensor sent is undefined. The result has the strides of
  // the tensor sent if that one has no gaps in memory; otherwise it is contiguous.
  at::Tensor receive(const StageMessage& message, const std::string& name);
  // Waits until all tensors of this rank have arrived. Call it at the end of each step and
  // evaluation; messages must not be left.
  void finish();
  // Forgets what was received and not used, and waits for no send: after an error.
  void clear();

 private:
  struct Sent;
  struct Received;

  // Receives the next message of a rank. `what` names the one that is needed.
  Received receive_next(uint32_t rank, const std::string& what);
  void forget_arrived();

  Group& headers_;
  Group& tensors_;
  const std::vector<uint32_t> owners_;
  const c10::Device device_;
  std::deque<std::unique_ptr<Sent>> sent_;
  std::vector<std::deque<Received>> early_;  // by rank: received before they were needed
};

}  // namespace tenon
