// SPDX-License-Identifier: Apache-2.0
//
// The part of ProgramPass that sends values and gradients to other stages, and receives them.
#include "host/model/program_pass.hpp"
#include "host/model/stage_exchange.hpp"

#include <string>
#include <utility>

namespace tenon {

void ProgramPass::exchange(const Instruction& instruction) {
  const bool is_value = instruction.op == Op::kReceive || instruction.op == Op::kSend;
  const bool receives = instruction.op == Op::kReceive || instruction.op == Op::kReceiveGradients;
  const uint32_t here = state_.program_->stage();
  StageMessage message = {
      .kind = is_value ? StageMessage::Kind::kValue : StageMessage::Kind::kGradient,
      .from = receives ? instruction.stage : here,
      .to = receives ? here : instruction.stage,
      .step = state_.point_.step,
      .microbatch = state_.point_.microbatch,
      .is_train = state_.point_.is_train};
  for (const uint32_t v : state_.program_->values(instruction)) {
    message.value = v;
    const std::string& name = graph_.values[v].name;
    if (receives) {
      (is_value ? state_.values_ : state_.grads_)[v] = services_.exchange->receive(message, name);
    } else if (is_value) {
      services_.exchange->send(message, state_.values_[v], name);
    } else {
      services_.exchange->send(message, std::exchange(state_.grads_[v], at::Tensor()), name);
    }
  }
}

}  // namespace tenon
