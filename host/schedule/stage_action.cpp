// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/stage_action.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

using K = StageActionKind;

struct KindRow {
  K kind;
  std::string_view code;
  std::string_view name;
};

// In the order of the enumeration.
constexpr std::array<KindRow, 11> kKinds = {
    {{K::kForward, "F", "forward"},
     {K::kBackward, "B", "backward"},
     {K::kBackwardInputs, "I", "backward of inputs"},
     {K::kBackwardWeights, "W", "backward of weights"},
     {K::kGather, "UNSHARD", "gathering of parameters"},
     {K::kFree, "RESHARD", "freeing of parameters"},
     {K::kReduce, "REDUCE_GRAD", "reduction of gradients"},
     {K::kSendValues, "SEND_F", "sending of values"},
     {K::kReceiveValues, "RECV_F", "receiving of values"},
     {K::kSendGradients, "SEND_B", "sending of gradients"},
     {K::kReceiveGradients, "RECV_B", "receiving of gradients"}}};

const KindRow& row_of(K kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

}  // namespace

bool is_compute(K kind) {
  return kind <= K::kBackwardWeights;
}

bool has_microbatch(K kind) {
  return kind != K::kGather && kind != K::kFree && kind != K::kReduce;
}

bool gives_input_gradients(K kind) {
  return kind == K::kBackward || kind == K::kBackwardInputs;
}

bool gives_weight_gradients(K kind) {
  return kind == K::kBackward || kind == K::kBackwardWeights;
}

std::string_view kind_code(K kind) {
  return row_of(kind).code;
}

std::optional<K> kind_of_code(std::string_view code) {
  const auto* const row = std::ranges::find(kKinds, code, &KindRow::code);
  return row == kKinds.end() ? std::nullopt : std::optional(row->kind);
}

std::string_view kind_name(K kind) {
  return row_of(kind).name;
}

std::string action_text(const StageAction& action) {
  const std::string_view code = kind_code(action.kind);
  return action.microbatch == kNoMicrobatch
             ? formatted("{}{}", action.stage, code)
             : formatted("{}{}{}", action.stage, code, action.microbatch);
}

}  // namespace tenon
