// SPDX-License-Identifier: Apache-2.0
#include "host/hook/hook_list.hpp"

#include "host/error/error.hpp"
#include "host/hook/event_name.hpp"
#include "host/log/log.hpp"
#include "host/plugin/call_watch.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <tuple>

namespace tenon {

void check_writers(const std::vector<HookProxy>& hooks) {
  for (size_t i = 0; i < hooks.size(); ++i) {
    for (size_t k = i + 1; k < hooks.size(); ++k) {
      const HookInfo& a = hooks[i].info();
      const HookInfo& b = hooks[k].info();
      if ((a.writes & b.writes) != 0 && (a.events & b.events) != 0 && a.phase == b.phase &&
          a.priority == b.priority) {
        throw Error("hook.unordered_writers",
                    hooks[i].instance().identity().describe() + " and " +
                        hooks[k].instance().identity().describe() +
                        " write the same state at the same event, and neither phase nor priority "
                        "orders them; give one hook another priority, or remove one");
      }
    }
  }
}

void check_ranks(const std::vector<HookProxy>& hooks, uint32_t num_ranks) {
  for (const HookProxy& hook : hooks) {
    if (num_ranks > 1 && hook.info().rank_0_only && hook.info().writes != 0) {
      throw Error(
          "hook.one_rank_writes",
          formatted("{} runs on rank 0 only, but writes state that each of the {} ranks has, "
                    "so the ranks would diverge; run it on all ranks, or remove it",
                    hook.instance().identity().describe(),
                    num_ranks));
    }
  }
}

bool any_writes(const std::vector<HookProxy>& hooks, uint32_t event, uint32_t touches) {
  return std::any_of(hooks.begin(), hooks.end(), [&](const HookProxy& hook) {
    return hook.wants(event) && (hook.info().writes & touches) != 0;
  });
}

HookList::HookList(std::vector<HookProxy> hooks, uint32_t rank, RunView& run, const ExecBase& exec)
    : hooks_(std::move(hooks)), run_(run) {
  std::stable_sort(hooks_.begin(), hooks_.end(), [](const HookProxy& a, const HookProxy& b) {
    return std::make_tuple(a.info().phase, -int64_t{a.info().priority}) <
           std::make_tuple(b.info().phase, -int64_t{b.info().priority});
  });
  for (const HookProxy& hook : hooks_) {
    if (hook.info().rank_0_only && rank != 0) {
      continue;
    }
    ExecFrame& frame = frames_.emplace_back(hook.instance().host(), exec);
    for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
      if (hook.wants(event)) {
        listeners_[event].push_back({&hook, &frame});
      }
    }
  }
  event_.struct_size = sizeof(event_);
  event_.is_train = 1;
  event_.window_label = "";
  event_.message = "";
  event_.run = as_abi(run);
  event_.api = run_api();
}

void HookList::fire_to_listeners(uint32_t event) {
  event_.id = event;
  const EventScope scope(event_name(event));
  for (const Listener& listener : listeners_[event]) {
    const TraceSpan span("hook", listener.hook->instance().type());
    try {
      call(listener);
    } catch (const Error& error) {
      throw error.with_context(std::string("at ") + event_name(event));
    }
  }
}

void HookList::call(const Listener& listener) {
  listener.frame->move_to(
      {event_.step, static_cast<uint32_t>(event_.microbatch), event_.is_train != 0});
  event_.exec = &listener.frame->exec();
  run_.begin_call({listener.hook, event_.id});
  try {
    listener.hook->on_event(event_);
  } catch (...) {
    run_.drop_call();
    throw;
  }
  run_.end_call();
}

bool HookList::fire_in_reverse(uint32_t event, const std::string& message) {
  event_.id = event;
  event_.message = message.c_str();
  const EventScope scope(event_name(event));
  bool is_clean = true;
  const auto& hooks = listeners_[event];
  for (auto hook = hooks.rbegin(); hook != hooks.rend(); ++hook) {
    try {
      call(*hook);
    } catch (const Error& error) {
      is_clean = false;
      log_error(error.with_context(std::string("at ") + event_name(event)).what());
    }
  }
  event_.message = "";
  return is_clean;
}

}  // namespace tenon
