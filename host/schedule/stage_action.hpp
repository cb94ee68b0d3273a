// SPDX-License-Identifier: Apache-2.0
//
// One action of a pipeline: what a rank does for a stage, in a step. Its text is that of PyTorch's
// schedules: "2F0" is the forward of stage 2 for microbatch 0.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tenon {

enum class StageActionKind : uint8_t {
  kForward,
  kBackward,         // both halves
  kBackwardInputs,   // the half that gives gradients of the stage's inputs
  kBackwardWeights,  // the other half, after kBackwardInputs
  // Of the parameters of the stage; without a microbatch.
  kGather,
  kFree,
  kReduce,
  // Messages. They follow from forwards and backwards, so a table may have them or not.
  kSendValues,
  kReceiveValues,
  kSendGradients,
  kReceiveGradients,
};

inline constexpr uint32_t kNoMicrobatch = UINT32_MAX;

struct StageAction {
  uint32_t stage = 0;
  StageActionKind kind = StageActionKind::kForward;
  uint32_t microbatch = kNoMicrobatch;  // from 0; kNoMicrobatch for actions on parameters

  bool operator==(const StageAction&) const = default;
};

// Returns whether the kind computes: a forward, a backward or a half of one.
bool is_compute(StageActionKind kind);
// Returns whether actions of the kind belong to a microbatch.
bool has_microbatch(StageActionKind kind);
// Returns whether the kind computes gradients of the stage's inputs.
bool gives_input_gradients(StageActionKind kind);
// Returns whether the kind computes gradients of the stage's parameters.
bool gives_weight_gradients(StageActionKind kind);

// Returns "F", "B", "I", "W", "UNSHARD", "RESHARD", "REDUCE_GRAD", "SEND_F", "RECV_F", "SEND_B" or
// "RECV_B".
std::string_view kind_code(StageActionKind kind);
// Returns the kind with this code; null if none exists.
std::optional<StageActionKind> kind_of_code(std::string_view code);
// Returns "forward", "backward of weights", as in messages.
std::string_view kind_name(StageActionKind kind);

// Returns "2F0", or "2UNSHARD" without a microbatch.
std::string action_text(const StageAction& action);

}  // namespace tenon
