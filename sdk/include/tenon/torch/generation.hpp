// SPDX-License-Identifier: Apache-2.0
//
// Models of functional blocks that generate. A block that looks at other positions has a step
// beside its forward, which runs on new positions only and keeps what it needs of them in caches:
//
//     g.block("layers.0.attention", {x}, {h}, parameters, [](const BlockCall& b) { ... })
//         .step(2, [](const tenon::GenerationCall& c) {
//           const at::Tensor k = tenon::append_to_cache(c, 0, new_keys);
//           const at::Tensor v = tenon::append_to_cache(c, 1, new_values);
//           return tenon::cached_attention(queries, k, v);
//         });
//
// A block that is flagged tokenwise needs no step: its forward runs on the new positions.
//
// Letters in shapes: B samples, T new positions, S all positions, H query heads, K key and value
// heads, E width of a head.
#ifndef TENON_TORCH_GENERATION_HPP
#define TENON_TORCH_GENERATION_HPP

#include <tenon/cpp/generation.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* One step of a block: it runs on new positions of a sequence.
 *
 * Errors   TENON_INVALID for an index out of range, or an input that is absent
 * Threads  those of the step, and only during it
 * Owner    borrowed until the step returns */
class GenerationCall {
 public:
  GenerationCall(const Exec& exec, tenon_generation_args& args) : exec_(&exec), args_(&args) {}

  const Exec& exec() const { return *exec_; }
  /* Position of the first new token: number of positions in the caches. */
  int64_t first() const { return args_->first; }
  /* Positions that the sequence may get: at least first() and the new ones. */
  int64_t capacity() const { return args_->capacity; }
  bool has_input(size_t i) const { return i < args_->num_inputs && args_->inputs[i] != nullptr; }
  /* Inputs, at the new positions; parameters and buffers, as in the forward. */
  const at::Tensor& input(size_t i) const { return pick(args_->inputs, args_->num_inputs, i); }
  const at::Tensor& parameter(size_t i) const {
    return pick(args_->parameters, args_->num_parameters, i);
  }
  const at::Tensor& buffer(size_t i) const { return pick(args_->buffers, args_->num_buffers, i); }

  /* Cache i of the block; undefined in the first step of a sequence. The step may write into it. */
  at::Tensor cache(size_t i) const {
    TENON_CHECK(i < args_->num_caches, "the block has ", args_->num_caches, " caches");
    return args_->caches[i] == nullptr ? at::Tensor() : unwrap(args_->caches[i]);
  }
  /* Replaces cache i. Without this call, the host keeps the cache, with what was written. */
  void set_cache(size_t i, const at::Tensor& value) const {
    TENON_CHECK(i < args_->num_caches, "the block has ", args_->num_caches, " caches");
    replace_own(exec_->host(), args_->next_caches_own[i], value);
  }

 private:
  static const at::Tensor& pick(const tenon_tensor* const* handles, size_t n, size_t i) {
    TENON_CHECK(i < n, "index ", i, " is out of range (the block has ", n, " of these)");
    TENON_CHECK(handles[i] != nullptr, "input ", i, " is absent: test has_input()");
    return unwrap(handles[i]);
  }

  const Exec* exec_;
  tenon_generation_args* args_;
};

/* Appends values of the new positions to cache `i`, and returns those of all positions, a view of
 * the cache.
 *
 * Shapes  values [B, T, ...]; the result is [B, first() + T, ...]; the cache [B, capacity(), ...]
 * Errors  TENON_INVALID if the cache is too small or of another shape */
inline at::Tensor append_to_cache(const GenerationCall& call, size_t i, const at::Tensor& values) {
  at::Tensor cache = call.cache(i);
  const int64_t end = call.first() + values.size(1);
  if (!cache.defined()) {
    TENON_CHECK(call.first() == 0 && end <= call.capacity(),
                "a sequence without caches starts at position ",
                call.first(),
                ", with room for ",
                call.capacity(),
                " positions");
    std::vector<int64_t> shape = values.sizes().vec();
    shape[1] = call.capacity();
    cache = at::empty(shape, values.options());
    call.set_cache(i, cache);
  }
  TENON_CHECK(cache.dim() == values.dim() && cache.size(0) == values.size(0) &&
                  end <= cache.size(1) && cache.sizes().slice(2) == values.sizes().slice(2),
              "cache ",
              i,
              " is ",
              cache.sizes(),
              "; it has no room for ",
              values.sizes(),
              " at position ",
              call.first());
  cache.narrow(1, call.first(), values.size(1)).copy_(values);
  return cache.narrow(1, 0, end);
}

/* Turns queries or keys of the new positions by their angles. `table` starts at position 0.
 *
 * Shapes  x [B, T, heads, E], table as in ops::rope, with at least first() + T rows
 * Errors  TENON_INVALID if the table is too short */
inline at::Tensor rope_at(const GenerationCall& call,
                          const at::Tensor& x,
                          const at::Tensor& table) {
  TENON_CHECK(call.first() + x.size(1) <= table.size(1),
              "a sequence of ",
              call.first() + x.size(1),
              " positions is longer than the table of ",
              table.size(1),
              " positions");
  return ops::rope(x, table.narrow(1, call.first(), x.size(1)));
}

/* Attention of queries at the last T of S positions, for a step. Of `o`, it reads window, softcap
 * and scale; queries and keys are already turned.
 *
 * Shapes  query [B, T, H, E], key [B, S, K, E], value [B, S, K, any] with S >= T, where K divides
 *         H; the result is [B, T, H, width of a value]
 * Errors  c10::Error for shapes that do not match */
inline at::Tensor cached_attention(const at::Tensor& query,
                                   const at::Tensor& key,
                                   const at::Tensor& value,
                                   const ops::Attention& o = {}) {
  const int64_t T = query.size(1);
  const int64_t S = key.size(1);
  if (T == S) {
    ops::Attention plain;
    plain.window = o.window;
    plain.softcap = o.softcap;
    plain.scale = o.scale;
    return ops::attention(query, key, value, plain);
  }
  // Few queries see almost all keys: products by key head, without a copy of the keys.
  const int64_t B = query.size(0);
  const int64_t H = query.size(2);
  const int64_t E = query.size(3);
  const int64_t K = key.size(2);
  const int64_t G = H / K;
  const int64_t first_key = o.window > 0 ? std::max<int64_t>(0, S - T - o.window + 1) : 0;
  const int64_t N = S - first_key;
  const double scale = o.scale.value_or(1.0 / std::sqrt(static_cast<double>(E)));
  const at::Tensor q = (query * scale).reshape({B, T, K, G, E}).permute({0, 2, 3, 1, 4});
  const at::Tensor q_rows = q.reshape({B, K, G * T, E});
  const at::Tensor k = key.narrow(1, first_key, N).permute({0, 2, 3, 1});    // [B, K, E, N]
  const at::Tensor v = value.narrow(1, first_key, N).permute({0, 2, 1, 3});  // [B, K, N, any]
  at::Tensor scores = at::matmul(q_rows, k);                                 // [B, K, G T, N]
  if (o.softcap > 0) {
    scores = o.softcap * at::tanh(scores / o.softcap);
  }
  if (T > 1 || (o.window > 0 && o.window < N)) {
    const auto longs = query.options().dtype(at::kLong);
    const at::Tensor back = at::arange(S - T, S, longs).unsqueeze(1) -
                            at::arange(first_key, S, longs).unsqueeze(0);  // [T, N]
    at::Tensor hidden = back.lt(0);
    if (o.window > 0) {
      hidden = hidden.logical_or(back.ge(o.window));
    }
    scores = scores.view({B, K, G, T, N})
                 .masked_fill(hidden, -std::numeric_limits<double>::infinity())
                 .view({B, K, G * T, N});
  }
  const at::Tensor y = at::matmul(at::softmax(scores, -1), v);  // [B, K, G T, any]
  return y.view({B, K, G, T, value.size(3)})
      .permute({0, 3, 1, 2, 4})
      .reshape({B, T, H, value.size(3)});
}

/* A model of functional blocks that generates. `describe_generation` needs to set only ids, logits
 * and max_positions. */
class GeneratingModel : public TorchModel, public Generation {
 public:
  /* Returns ids, logits and max_positions. Errors and threads are those of describe_generation. */
  virtual GenerationInfo generation_info() = 0;

  GenerationInfo describe_generation() final {
    GenerationInfo info = generation_info();
    for (uint32_t b = 0; b < num_blocks(); ++b) {
      if (!has_step(b) && !is_tokenwise(b)) {
        TENON_FAIL(TENON_UNSUPPORTED,
                   "no_step",
                   "block ",
                   block_name(b),
                   " is neither tokenwise nor has a step");
      }
      info.cache_blocks.insert(info.cache_blocks.end(), num_caches(b), b);
    }
    return info;
  }
  void on_step(const Exec& exec, tenon_generation_args& args) final {
    call_torch([&] {
      if (has_step(args.block)) {
        hand_over_step(exec, args, run_step(args.block, GenerationCall(exec, args)));
        return;
      }
      tenon_forward_args forward{};
      forward.struct_size = sizeof(forward);
      forward.block = args.block;
      forward.inputs = args.inputs;
      forward.num_inputs = args.num_inputs;
      forward.parameters = args.parameters;
      forward.num_parameters = args.num_parameters;
      forward.buffers = args.buffers;
      forward.num_buffers = args.num_buffers;
      forward.outputs_own = args.outputs_own;
      forward.num_outputs = args.num_outputs;
      forward.save = ignore_tensor;
      forward.add_loss = ignore_loss;
      on_forward(exec, forward);
    });
  }

 private:
  static tenon_status* ignore_tensor(tenon_forward_args* /*args*/,
                                     const tenon_tensor* /*tensor*/) noexcept {
    return nullptr;
  }
  static tenon_status* ignore_loss(tenon_forward_args* /*args*/,
                                   const char* /*name*/,
                                   const tenon_tensor* /*sum*/,
                                   const tenon_tensor* /*count*/,
                                   double /*weight*/) noexcept {
    return nullptr;
  }
  static void hand_over_step(const Exec& exec,
                             tenon_generation_args& args,
                             const std::vector<at::Tensor>& outputs) {
    TENON_CHECK(outputs.size() == args.num_outputs,
                "the step of block ",
                args.block,
                " returned ",
                outputs.size(),
                " outputs (expected ",
                args.num_outputs,
                ", as declared)");
    for (size_t i = 0; i < outputs.size(); ++i) {
      TENON_CHECK(outputs[i].defined(), "output ", i, " of block ", args.block, " is undefined");
      args.outputs_own[i] = wrap(exec.host(), outputs[i]);
    }
  }
};

TENON_NAMESPACE_END

#endif
