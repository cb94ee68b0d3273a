// SPDX-License-Identifier: Apache-2.0
//
// The part of ModelRunner that moves values and results of attention out of memory between forward
// and backward. A unit's group leaves after its forward, and comes back before its backward.
#include "host/error/error.hpp"
#include "host/model/activation_store.hpp"
#include "host/model/model_runner.hpp"

#include <utility>

namespace tenon {

void ModelRunner::offload_to(std::unique_ptr<ActivationStore> store) {
  offloaded_ = std::move(store);
  moves_ = facts_.movable_values([this](uint32_t b) { return is_light(b) && !facts_.is_tail(b); },
                                 [this](uint32_t v) { return is_kept_.empty() || is_kept_[v]; });
}

// Moves the group of the unit that ends with block `b`.
void ModelRunner::move_away(uint32_t b) {
  if (offloaded_ == nullptr || !place_.is_train || facts_.unit_of(b).last != b ||
      b + 1 == graph_.blocks.size()) {
    return;
  }
  Moved moved{.unit = facts_.unit_of(b), .values = {}};
  std::vector<at::Tensor> group;
  for (const uint32_t v : moves_[b]) {
    if (!values_[v].defined()) {
      continue;
    }
    moved.values.push_back(v);
    group.push_back(std::exchange(values_[v], at::Tensor()));
    for (const uint32_t user : graph_.values[v].users) {
      for (size_t i = 0; i < tapes_[user].inputs.size(); ++i) {
        if (graph_.blocks[user].inputs[i] == v) {
          tapes_[user].inputs[i].reset();
        }
      }
    }
  }
  for (uint32_t of = moved.unit.first; of <= b; ++of) {
    for (AttentionResult& result : tapes_[of].attention.results()) {
      result.is_away = result.is_unchanged();
      if (result.is_away) {
        group.push_back(std::move(result.y));
        group.push_back(std::move(result.sums));
      }
    }
  }
  if (!group.empty()) {
    offloaded_->push(std::move(group));
    moved_.push_back(std::move(moved));
  }
}

void ModelRunner::bring_back(uint32_t b) {
  if (moved_.empty() || moved_.back().unit.last != b) {
    return;
  }
  reloaded_ = std::move(moved_.back());
  moved_.pop_back();
  std::vector<at::Tensor> group = offloaded_->pop();
  size_t next = 0;
  for (const uint32_t v : reloaded_.values) {
    values_[v] = std::move(group[next++]);
  }
  for (uint32_t of = reloaded_.unit.first; of <= b; ++of) {
    for (AttentionResult& result : tapes_[of].attention.results()) {
      if (std::exchange(result.is_away, false)) {
        result.y = std::move(group[next++]);
        result.sums = std::move(group[next++]);
        result.renew();
      }
    }
  }
}

// A setting without effect is refused, as soon as it shows.
void ModelRunner::check_kept_attention() const {
  bool has_recomputed = false;
  for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
    const bool runs_again = graph_.blocks[b].model == 0 && !facts_.is_tail(b) && keeps_attention(b);
    if (runs_again && tapes_[b].attention.has_kept()) {
      return;
    }
    has_recomputed = has_recomputed || runs_again;
  }
  if (has_recomputed) {
    throw Error("model.no_attention",
                "/train/recompute: \"selective\" keeps results of the host's attention kernel, and "
                "no recomputed block uses it; set \"blocks\"");
  }
}

// Drops what was brought back for a unit whose backward has ended with block `b`. A value that
// earlier units read too stays until its maker's backward.
void ModelRunner::drop_moved(uint32_t b) {
  if (reloaded_.unit.first != b) {
    return;
  }
  for (const uint32_t v : std::exchange(reloaded_, {}).values) {
    if (graph_.values[v].users.front() >= b) {
      values_[v].reset();
    }
  }
}

}  // namespace tenon
