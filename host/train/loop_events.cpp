// SPDX-License-Identifier: Apache-2.0
#include "host/train/loop_events.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Copies this rank's parts of whole parameters, or of their gradients, to its slice of a group.
void keep_parts(const FlatGroup& group,
                const std::vector<at::Tensor>& whole,
                const at::Tensor& slice) {
  for (size_t e = 0; e < whole.size(); ++e) {
    const FlatPart& part = group.part(e);
    slice.narrow(0, part.in_slice, part.length()).copy_(values_of(part.piece, whole[e]));
  }
}

}  // namespace

LoopEvents::LoopEvents(RunServices& run, HookView& view)
    : run_(run),
      view_(view),
      hooks_(run.plan.observers.hooks, run.role().rank(), view, run.plan.context.exec) {
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    if (any_writes(hooks_.hooks(), event, TENON_TOUCH_PARAMETERS)) {
      parameter_writes_ |= TENON_EVENT_BIT(event);
    }
    const auto asks_for_whole = [event](const HookProxy& hook) {
      return hook.info().full_parameters && (hook.info().events & TENON_EVENT_BIT(event)) != 0;
    };
    if (!run_.model.sharded.has_all() && std::ranges::any_of(hooks_.hooks(), asks_for_whole)) {
      whole_parameters_ |= TENON_EVENT_BIT(event);
    }
  }
  rewrites_gradients_ =
      any_writes(hooks_.hooks(), TENON_EVENT_BEFORE_OPTIMIZER_STEP, TENON_TOUCH_GRADIENTS);
  reads_step_loss_ = std::ranges::any_of(hooks_.hooks(), [](const HookProxy& hook) {
    return (hook.info().reads & TENON_TOUCH_LOSS) != 0;
  });
  any_in_evaluations_ = std::ranges::any_of(hooks_.hooks(), [](const HookProxy& hook) {
    return (hook.info().events & TENON_EVENT_BIT(TENON_EVENT_BEFORE_EVALUATE)) != 0;
  });
}

void LoopEvents::fire_in_reverse(uint32_t event, const std::string& message) {
  run_.report.journal.add(EventBegan{event, hooks_.event().step});
  hooks_.fire_in_reverse(event, message);
  run_.report.journal.add(EventEnded{event, hooks_.event().step});
}

void LoopEvents::fire_with_parameters(uint32_t event) {
  const bool is_whole = (whole_parameters_ & TENON_EVENT_BIT(event)) != 0;
  const bool is_written = (parameter_writes_ & TENON_EVENT_BIT(event)) != 0;
  const bool are_grads_written = rewrites_gradients_ && event == TENON_EVENT_BEFORE_OPTIMIZER_STEP;
  auto& groups = run_.model.parameters.groups();
  run_.model.sharded.resolve();
  if (is_whole) {
    WholeGroups whole;
    for (FlatGroup& group : groups) {
      whole.values.push_back(run_.model.sharded.gather_stored(group));
      const bool has_grad = group.any_has_grad() && !group.sharing().frees_gradients;
      whole.grads.push_back(view_.step().are_gradients_final && has_grad
                                ? run_.model.sharded.gather_gradient(group)
                                : std::vector<at::Tensor>());
    }
    view_.show_whole(std::move(whole));
  }
  hooks_.fire(event);
  const WholeGroups& whole = view_.whole();
  for (size_t g = 0; is_whole && g < groups.size(); ++g) {
    if (is_written) {
      keep_parts(groups[g], whole.values[g], groups[g].data());
    }
    if (are_grads_written && !whole.grads[g].empty()) {
      keep_parts(groups[g], whole.grads[g], groups[g].grad());
    }
  }
  view_.show_whole({});
  if (is_written) {
    run_.model.sharded.publish();
  }
}

}  // namespace tenon
