// SPDX-License-Identifier: Apache-2.0
//
// The state that ranks save together, in memory: whole tensors of the parts of all ranks.
#pragma once

#include "host/tensor/state/state_tree.hpp"

#include <ATen/Functions.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {

// A tensor in memory of which any piece can be read.
class WholeSource final : public TensorSource {
 public:
  explicit WholeSource(at::Tensor whole)
      : TensorSource(whole.scalar_type(), whole.sizes().vec()),
        flat_(whole.contiguous().view(-1)) {}
  void read(int64_t first, const at::Tensor& out) const override {
    out.view(-1).copy_(flat_.narrow(0, first, out.numel()));
  }

 private:
  at::Tensor flat_;
};

// Returns a tree of whole tensors that any rank can load. Fails the test if parts of a tensor do
// not cover it, or if two ranks save different values of an element. Numbers are those of the first
// rank that has them.
inline StateTree joined_state(const std::vector<StateTree>& trees) {
  struct Joined {
    std::vector<int64_t> shape;
    at::Tensor values;  // flat
    at::Tensor is_set;
  };
  std::map<std::string, Joined> joined;
  StateTree result;
  for (const StateTree& tree : trees) {
    for (const auto& [name, entry] : tree.entries()) {
      const auto* const tensor = std::get_if<at::Tensor>(&entry.value);
      if (tensor == nullptr && result.find(name) == nullptr) {
        result.put_entry(name, entry);
      }
      if (tensor == nullptr || !entry.is_saved) {
        continue;
      }
      const TensorPiece piece = entry.piece ? *entry.piece : TensorPiece(tensor->sizes().vec());
      const int64_t numel = TensorPiece(piece.shape()).numel();
      auto [at, is_new] = joined.try_emplace(name);
      if (is_new) {
        at->second = {
            piece.shape(), at::zeros({numel}, tensor->options()), at::zeros({numel}, at::kBool)};
      }
      const at::Tensor flat = tensor->reshape(-1);
      for_each_run(piece, [&](const TensorPiece::Run& run) {
        const auto in_whole = [&run](const at::Tensor& whole) {
          return whole.narrow(0, run.in_tensor, run.numel);
        };
        const at::Tensor mine = flat.narrow(0, run.in_piece, run.numel);
        const at::Tensor differs =
            in_whole(at->second.is_set).logical_and(in_whole(at->second.values).ne(mine));
        if (differs.any().item<bool>()) {
          FAIL(name << " differs on ranks");
        }
        in_whole(at->second.values).copy_(mine);
        in_whole(at->second.is_set).fill_(true);
      });
    }
  }
  for (const auto& [name, whole] : joined) {
    if (!whole.is_set.all().item<bool>()) {
      FAIL(name << " is not complete");
    }
    result.put_source(name, std::make_shared<WholeSource>(whole.values.view(whole.shape)));
  }
  return result;
}

// Returns the names of the tensors and numbers that differ, also if one tree lacks a tensor. Scopes
// of numbers, and where the pieces of an optimizer begin, depend on the slices and are not
// compared; nor are numbers of parameters of which a rank has no part.
inline std::string state_difference(const StateTree& a, const StateTree& b) {
  std::string names;
  const auto look = [&names](const StateTree& from, const StateTree& to) {
    for (const auto& [name, entry] : from.entries()) {
      const StateEntry* const found = to.find(name);
      const bool is_number = std::holds_alternative<int64_t>(entry.value);
      if ((is_number && found == nullptr) || name.starts_with("optimizer/starts/")) {
        continue;
      }
      StateEntry other = found != nullptr ? *found : StateEntry{};
      other.scope = entry.scope;
      StateTree one;
      StateTree two;
      one.put_entry(name, entry);
      two.put_entry(name, other);
      names += one == two ? "" : name + ", ";
    }
  };
  look(a, b);
  look(b, a);
  return names;
}

}  // namespace tenon
