// SPDX-License-Identifier: Apache-2.0
//
// Attention over positions that ranks divide; ranks are threads. The oracle is attention() of the
// whole sequences on one rank in fp64.
#include "host/kernels/divided_attention.hpp"

#include "host/kernels/attention.hpp"
#include "host/kernels/kept_attention.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/host/kernels/sequence_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Tensors = std::vector<at::Tensor>;
using Lengths = std::vector<int64_t>;

constexpr double kFp64Bound = 1e-12;
constexpr double kFp32Bound = 1e-5;  // 84 epsilons

struct Heads {
  int64_t H, K;
};

struct Whole {
  at::Tensor query, key, value, grad_y;
  AttentionOptions options;
};

int64_t sum_of(const Lengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

// B = 2 samples of S positions in fp64, with values of width V.
Whole whole_of(int64_t S, Heads heads, int64_t E, int64_t V) {
  return {.query = made(1, {2, S, heads.H, E}),
          .key = made(2, {2, S, heads.K, E}),
          .value = made(3, {2, S, heads.K, V}),
          .grad_y = made(4, {2, S, heads.H, V}),
          .options = {}};
}

at::Tensor table_of(int64_t positions, int64_t rotated) {
  const at::Tensor angles = made(5, {positions, rotated / 2});
  return at::stack({angles.cos(), angles.sin()});
}

// Runs of 3, 4, 5, ... equal numbers, which begin elsewhere in each sample; only two numbers.
at::Tensor segments_of(int64_t S) {
  at::Tensor segments = at::zeros({2, S}, at::kLong);
  for (int64_t b = 0; b < 2; ++b) {
    int64_t run = 0;
    int64_t left = 2 + b;
    for (int64_t t = 0; t < S; ++t, --left) {
      if (left == 0) {
        left = 3 + ++run;
      }
      segments[b][t] = run % 2;
    }
  }
  return segments;
}

at::Tensor positions_for(int64_t S) {
  return (at::arange(2 * S, at::kLong) * 5).remainder(S + 7).view({2, S});
}

std::vector<std::pair<std::string, AttentionOptions>> options_for(int64_t S, int64_t E) {
  const at::Tensor table = table_of(S + 7, E);
  const at::Tensor narrow_table = table_of(S + 7, E / 4 * 2);
  const at::Tensor segments = segments_of(S);
  const at::Tensor positions = positions_for(S);
  return {{"causal", {}},
          {"rotary", {.rotary = table}},
          {"positions", {.rotary = narrow_table, .positions = positions.to(at::kInt)}},
          {"segments", {.segments = segments}},
          {"window", {.window = 4}},
          {"softcap and scale", {.softcap = 1.5, .scale = 0.3}},
          {"not causal", {.is_causal = false}},
          {"not causal, rotary", {.rotary = table, .softcap = 2.0, .is_causal = false}},
          {"all",
           {.rotary = narrow_table,
            .positions = positions,
            .segments = segments,
            .window = 6,
            .softcap = 3.0,
            .scale = -0.4}}};
}

std::optional<at::Tensor> narrowed(const std::optional<at::Tensor>& x, const SequenceParts& parts) {
  return x ? std::optional(x->narrow(1, parts.begin(), parts.length())) : std::nullopt;
}

// This rank's part of x.
Whole part_of(const Whole& x, const SequenceParts& parts) {
  const auto cut = [&](const at::Tensor& of) {
    return of.narrow(1, parts.begin(), parts.length());
  };
  Whole part{cut(x.query), cut(x.key), cut(x.value), cut(x.grad_y), x.options};
  part.options.positions = narrowed(x.options.positions, parts);
  part.options.segments = narrowed(x.options.segments, parts);
  return part;
}

enum class Form { kSeparate, kPacked };

struct Call {
  at::Tensor y;
  Tensors leaves;
};

// Leaves of this dtype and attention of them.
Call call_of(const Whole& x, at::ScalarType dtype, Form form) {
  if (form == Form::kSeparate) {
    const Tensors leaves = leaves_of({x.query, x.key, x.value}, dtype);
    return {attention(leaves[0], leaves[1], leaves[2], x.options), leaves};
  }
  const Tensors leaves = leaves_of({at::cat({x.query, x.key, x.value}, 2).flatten(2)}, dtype);
  return {packed_attention(leaves[0], x.query.size(2), x.key.size(2), x.options), leaves};
}

// The output, and the gradients of queries, keys and values.
Tensors results_of(const Whole& x, const Call& call, Form form) {
  const at::Tensor grad_y = form == Form::kSeparate ? x.grad_y : x.grad_y.flatten(2);
  Tensors grads = torch::autograd::grad({call.y}, call.leaves, {grad_y.to(call.y.scalar_type())});
  if (form == Form::kPacked) {
    const int64_t H = x.query.size(2);
    const int64_t K = x.key.size(2);
    grads = grads[0].unflatten(2, {H + 2 * K, x.query.size(3)}).split_with_sizes({H, K, K}, 2);
  }
  grads.insert(grads.begin(), call.y.detach().view(x.grad_y.sizes()));
  return grads;
}

Tensors run_whole(const Whole& x, at::ScalarType dtype) {
  return results_of(x, call_of(x, dtype, Form::kSeparate), Form::kSeparate);
}

struct Setting {
  ContextBy by;
  Lengths lengths;
};

// Runs `body`, which returns tensors [B, T, ...], on each rank, and joins them along T.
Tensors on_parts(Mailbox& box,
                 const Setting& s,
                 const std::function<Tensors(const SequenceParts& parts)>& body) {
  std::vector<Tensors> of_ranks(s.lengths.size());
  run_sequence_ranks(box, s.by, s.lengths, [&](const SequenceParts& parts) {
    of_ranks[parts.ranks->rank()] = body(parts);
  });
  Tensors joined;
  for (size_t i = 0; i < of_ranks.front().size(); ++i) {
    Tensors pieces;
    for (const Tensors& of_rank : of_ranks) {
      pieces.push_back(of_rank[i]);
    }
    joined.push_back(at::cat(pieces, 1));
  }
  return joined;
}

Tensors run_divided(Mailbox& box,
                    const Setting& s,
                    const Whole& x,
                    at::ScalarType dtype,
                    Form form = Form::kSeparate) {
  return on_parts(box, s, [&](const SequenceParts& parts) {
    const Whole part = part_of(x, parts);
    const SequenceScope scope(&parts);
    return results_of(part, call_of(part, dtype, form), form);
  });
}

Tensors run_divided(const Setting& s,
                    const Whole& x,
                    at::ScalarType dtype,
                    Form form = Form::kSeparate) {
  Mailbox box(static_cast<uint32_t>(s.lengths.size()));
  return run_divided(box, s, x, dtype, form);
}

double difference(const at::Tensor& got, const at::Tensor& want) {
  REQUIRE(got.sizes() == want.sizes());
  return (got.to(at::kDouble) - want).norm().item<double>() / (want.norm().item<double>() + 1e-3);
}

void check_near(const Tensors& got, const Tensors& want, double most) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(difference(got[i], want[i]) < most);
  }
}

void check_equal(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].equal(want[i]));
  }
}

const std::vector<Heads> kHeadCounts = {{8, 8}, {8, 2}, {6, 3}, {5, 1}, {3, 3}};

// One to four ranks; ranks without positions; fewer positions than ranks.
const std::vector<Lengths> kLengths = {
    {11}, {6, 5}, {5, 0, 6}, {1, 0, 6, 4}, {0, 3, 2, 0}, {1, 1, 1, 0}};

std::string kernels_generated() {
  return GENERATE(as<std::string>(), "auto", "plain");
}

ContextBy by_generated() {
  return GENERATE(ContextBy::kHeads, ContextBy::kKeys);
}

}  // namespace

TEST_CASE("attention over divided positions equals attention of the whole", "[kernels]") {
  const ContextBy by = by_generated();
  const Heads heads = kHeadCounts[GENERATE(range<size_t>(0, kHeadCounts.size()))];
  for (const Lengths& lengths : kLengths) {
    const int64_t S = sum_of(lengths);
    Whole x = whole_of(S, heads, 8, 8);
    for (const auto& [name, options] : options_for(S, 8)) {
      CAPTURE(static_cast<int>(by), heads.H, heads.K, lengths, name);
      x.options = options;
      const Tensors want = run_whole(x, at::kDouble);
      check_near(run_divided({by, lengths}, x, at::kDouble), want, kFp64Bound);
      check_near(run_divided({by, lengths}, x, at::kFloat), want, kFp32Bound);
    }
  }
}

TEST_CASE("long sequences, narrow values and packed operands may be divided", "[kernels]") {
  // Own kernels have blocks of 96 queries and 48 keys.
  const PolicyScope policy(all_kernels(kernels_generated()));
  const ContextBy by = by_generated();
  for (const Lengths& lengths : {Lengths{97, 203}, Lengths{130, 0, 49, 122}}) {
    const int64_t S = sum_of(lengths);
    const auto all = options_for(S, 16);
    // Rotary, segments, not causal, all.
    for (const size_t i : {size_t{1}, size_t{3}, size_t{7}, size_t{8}}) {
      const auto& [name, options] = all[i];
      CAPTURE(static_cast<int>(by), lengths, name);
      Whole x = whole_of(S, {4, 2}, 16, 16);
      x.options = options;
      const Tensors want = run_whole(x, at::kDouble);
      check_near(run_divided({by, lengths}, x, at::kFloat, Form::kPacked), want, kFp32Bound);
      Whole narrow = whole_of(S, {4, 2}, 16, 6);
      narrow.options = options;
      check_near(run_divided({by, lengths}, narrow, at::kFloat),
                 run_whole(narrow, at::kDouble),
                 kFp32Bound);
    }
  }
}

TEST_CASE("packed attention in fp64 may be divided", "[kernels]") {
  const ContextBy by = by_generated();
  for (const Heads heads : kHeadCounts) {
    Whole x = whole_of(11, heads, 8, 8);
    x.options = {.rotary = table_of(11, 8), .segments = segments_of(11)};
    check_near(run_divided({by, {4, 0, 2, 5}}, x, at::kDouble, Form::kPacked),
               run_whole(x, at::kDouble),
               kFp64Bound);
  }
}

TEST_CASE("divided attention in bf16 is as exact as that of the whole", "[kernels]") {
  constexpr double kEpsilon = 1.0 / 256;
  const ContextBy by = by_generated();
  for (const Heads heads : kHeadCounts) {
    Whole x = whole_of(35, heads, 16, 16);
    for (at::Tensor* of : {&x.query, &x.key, &x.value, &x.grad_y}) {
      *of = of->to(at::kBFloat16).to(at::kDouble);
    }
    for (const auto& [name, options] : options_for(35, 16)) {
      CAPTURE(static_cast<int>(by), heads.H, heads.K, name);
      x.options = options;
      const Tensors want = run_whole(x, at::kDouble);
      const Tensors whole = run_whole(x, at::kBFloat16);
      const Tensors got = run_divided({by, {9, 0, 16, 10}}, x, at::kBFloat16);
      for (size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        CHECK(difference(got[i], want[i]) < 1.5 * difference(whole[i], want[i]) + kEpsilon / 2);
      }
    }
  }
}

TEST_CASE("divided attention runs under autocast", "[kernels]") {
  const ContextBy by = by_generated();
  Whole x = whole_of(11, {3, 3}, 8, 8);
  x.options = {.rotary = table_of(11, 8), .softcap = GENERATE(0.0, 2.0)};
  const Tensors want = run_whole(x, at::kDouble);
  const auto cast = [](const Whole& part) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const Call call = call_of(part, at::kFloat, Form::kSeparate);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expect(call.y.scalar_type() == at::kBFloat16, "the result is in bf16");
    return results_of(part, call, Form::kSeparate);
  };
  const Tensors whole = cast(x);
  Mailbox box(4);
  const Tensors got = on_parts(box, {by, {4, 0, 2, 5}}, [&](const SequenceParts& parts) {
    const SequenceScope scope(&parts);
    return cast(part_of(x, parts));
  });
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].scalar_type() == whole[i].scalar_type());
    CHECK(difference(got[i], want[i]) < 1.5 * difference(whole[i], want[i]) + 1.0 / 512);
  }
}

TEST_CASE("both ways to divide attention give one result, each time the same bits", "[kernels]") {
  const PolicyScope policy(all_kernels(kernels_generated()));
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  Whole x = whole_of(37, {6, 3}, 8, 4);
  x.options = options_for(37, 8).back().second;
  const Setting by_heads{ContextBy::kHeads, {9, 12, 0, 16}};
  const Setting by_keys{ContextBy::kKeys, {9, 12, 0, 16}};
  const Tensors heads = run_divided(by_heads, x, dtype);
  const Tensors keys = run_divided(by_keys, x, dtype);
  Tensors heads64;
  for (const at::Tensor& of : heads) {
    heads64.push_back(of.to(at::kDouble));
  }
  check_near(keys, heads64, dtype == at::kFloat ? kFp32Bound : kFp64Bound);
  check_equal(run_divided(by_heads, x, dtype), heads);
  check_equal(run_divided(by_keys, x, dtype), keys);
}

TEST_CASE("the backward of divided attention may run on another thread", "[kernels]") {
  const PolicyScope policy(all_kernels(kernels_generated()));
  const ContextBy by = by_generated();
  Whole x = whole_of(11, {5, 1}, 8, 8);
  x.options = {.rotary = table_of(11, 8), .window = 4};
  const Setting s{by, {4, 0, 2, 5}};
  Mailbox box(4);
  const Tensors got = on_parts(box, s, [&](const SequenceParts& parts) {
    const Whole part = part_of(x, parts);
    Call call;
    {
      const SequenceScope scope(&parts);
      call = call_of(part, at::kFloat, Form::kSeparate);
    }
    Tensors results;
    std::thread backward([&] { results = results_of(part, call, Form::kSeparate); });
    backward.join();
    return results;
  });
  check_equal(got, run_divided(s, x, at::kFloat));
}

TEST_CASE("a recompute of divided attention takes what the forward kept", "[kernels]") {
  const ContextBy by = by_generated();
  Whole x = whole_of(11, {5, 1}, 8, 4);
  x.options = {.rotary = table_of(11, 8), .segments = segments_of(11)};
  const Setting s{by, {4, 0, 2, 5}};
  const Tensors want = run_divided(s, x, at::kFloat);
  Mailbox box(4);
  check_equal(on_parts(box,
                       s,
                       [&](const SequenceParts& parts) {
                         const Whole part = part_of(x, parts);
                         const SequenceScope scope(&parts);
                         KeptAttention kept;
                         {
                           const AttentionScope keeps(&kept, AttentionScope::Use::kKeep);
                           call_of(part, at::kFloat, Form::kSeparate);
                         }
                         const int64_t runs = attention_runs();
                         const AttentionScope takes(&kept, AttentionScope::Use::kTake);
                         const Call again = call_of(part, at::kFloat, Form::kSeparate);
                         expect(attention_runs() == runs, "no attention is computed again");
                         return results_of(part, again, Form::kSeparate);
                       }),
              want);
  // Without kept results.
  check_equal(on_parts(box,
                       s,
                       [&](const SequenceParts& parts) {
                         const Whole part = part_of(x, parts);
                         const SequenceScope scope(&parts);
                         call_of(part, at::kFloat, Form::kSeparate);
                         return results_of(
                             part, call_of(part, at::kFloat, Form::kSeparate), Form::kSeparate);
                       }),
              want);
}

TEST_CASE("ranks send each other no more than the heads or keys that they need", "[kernels]") {
  const PolicyScope policy(all_kernels(kernels_generated()));
  const Heads heads = GENERATE(Heads{8, 8}, Heads{8, 4});
  const auto c = GENERATE(int64_t{2}, int64_t{4});
  CAPTURE(heads.H, heads.K, c);
  constexpr int64_t kWidth = 16;
  const int64_t S = 6 * c;
  const Whole x = whole_of(S, heads, kWidth, kWidth);
  const Lengths lengths(static_cast<size_t>(c), 6);
  const int64_t all = 2 * S * kWidth;
  Mailbox by_heads(static_cast<uint32_t>(c));
  run_divided(by_heads, {ContextBy::kHeads, lengths}, x, at::kFloat);
  // Of a position: (2 D + 2 K E) (c - 1) / c numbers, and as many for the gradients.
  CHECK(by_heads.all_elements() == 2 * all * (2 * heads.H + 2 * heads.K) * (c - 1) / c);
  Mailbox by_keys(static_cast<uint32_t>(c));
  run_divided(by_keys, {ContextBy::kKeys, lengths}, x, at::kFloat);
  const std::map<std::string, int64_t> sent = by_keys.elements();
  const bool is_plain = kernel_policy().mode == KernelPolicy::Mode::kPlain;
  CHECK(sent.at("keys of attention") == (is_plain ? 1 : 2) * all * 2 * heads.K * (c - 1));
  CHECK(sent.at("gradients of attention's keys") == all * 2 * heads.K * (c - 1));
}

TEST_CASE("narrow values are sent without padding", "[kernels]") {
  const Whole x = whole_of(8, {4, 4}, 16, 6);
  Mailbox box(2);
  run_divided(box, {ContextBy::kHeads, {4, 4}}, x, at::kFloat);
  CHECK(box.all_elements() == 2 * (2 * 8) * 4 * (16 + 16 + 6 + 6) / 2);
}

TEST_CASE("calls of a scope send the same segments once, until these change", "[kernels]") {
  const Whole x = whole_of(8, {2, 2}, 8, 8);
  Mailbox box(2);
  run_sequence_ranks(box, by_generated(), {5, 3}, [&](const SequenceParts& parts) {
    Whole part = part_of(x, parts);
    part.options.segments = segments_of(8).narrow(1, parts.begin(), parts.length()).clone();
    const SequenceScope scope(&parts);
    call_of(part, at::kFloat, Form::kSeparate);
    const at::Tensor before = call_of(part, at::kFloat, Form::kSeparate).y;
    part.options.segments->fill_(1);
    const at::Tensor after = call_of(part, at::kFloat, Form::kSeparate).y;
    expect(!after.equal(before), "other segments give another result");
  });
  CHECK(box.calls().at("segments of attention") == 2 * 2);
}

TEST_CASE("scopes nest, and a scope of no parts divides nothing", "[kernels]") {
  const Whole x = whole_of(8, {2, 2}, 8, 8);
  CHECK(sequence_parts() == nullptr);
  Mailbox box(2);
  run_sequence_ranks(box, ContextBy::kHeads, {5, 3}, [&](const SequenceParts& parts) {
    const SequenceScope outer(&parts);
    {
      const SequenceScope none(nullptr);
      const Call alone = call_of(x, at::kFloat, Form::kSeparate);
      expect(alone.y.size(1) == 8, "a rank alone takes any length");
    }
    expect(sequence_parts() == &parts, "the outer scope is back");
  });
  CHECK(box.calls().empty());
}

TEST_CASE("the bytes that divided attention would keep are counted without ranks", "[kernels]") {
  const Whole x = whole_of(10, {3, 3}, 8, 8);
  const ContextBy by = by_generated();
  Mailbox box(2);
  run_sequence_ranks(box, by, {7, 3}, [&](const SequenceParts& parts) {
    const Whole part = part_of(x, parts);
    const at::Tensor query = part.query.to(at::kMeta, at::kFloat);
    const SequenceScope scope(&parts);
    int64_t bytes = 0;
    const AttentionScope counts(bytes, at::kCPU);
    expect(attention(query, query, query, {}).sizes() == query.sizes(), "the shape is right");
    const int64_t rows =
        by == ContextBy::kHeads ? 10 * (parts.ranks->rank() == 0 ? 2 : 1) : parts.length() * 3;
    expect(bytes == 2 * rows * (8 + 1) * 4, "outputs and sums are counted");
  });
  CHECK(box.calls().empty());
}

TEST_CASE("divided attention refuses what it cannot do", "[kernels]") {
  const Whole x = whole_of(8, {2, 2}, 8, 8);
  const ContextBy by = by_generated();
  const auto fails = [&](const Lengths& lengths,
                         const std::string& message,
                         const std::function<void(Whole & part)>& change) {
    Mailbox box(2);
    CHECK_THROWS_WITH(run_sequence_ranks(box,
                                         by,
                                         lengths,
                                         [&](const SequenceParts& parts) {
                                           Whole part = part_of(x, parts);
                                           change(part);
                                           const SequenceScope scope(&parts);
                                           call_of(part, at::kFloat, Form::kSeparate);
                                         }),
                      contains_text(message));
  };
  fails(
      {4, 4},
      "tenon::attention: dropout of attention weights is not possible where positions are divided "
      "among ranks",
      [](Whole& part) { part.options.dropout = 0.5; });
  fails({4, 4}, "must have the 4 positions of this rank, not 4 and 3", [](Whole& part) {
    part.options.is_causal = false;
    part.key = part.key.narrow(1, 0, 3);
    part.value = part.value.narrow(1, 0, 3);
  });
  fails({4, 4}, "must have the 4 positions of this rank, not 3 and 3", [](Whole& part) {
    part.query = part.query.narrow(1, 0, 3);
    part.key = part.key.narrow(1, 0, 3);
    part.value = part.value.narrow(1, 0, 3);
  });
  fails({4, 4}, "a row for each of the 8 positions of all ranks", [](Whole& part) {
    part.options.rotary = table_of(7, 8);
  });
  fails({4, 4}, "must be [B, T] of the query", [](Whole& part) {
    part.options.rotary = table_of(8, 8);
    part.options.positions = at::zeros({2, 8}, at::kLong);
  });
  fails({4, 4}, "position 8 at [0, 0] is not in [0, 8)", [](Whole& part) {
    part.options.rotary = table_of(8, 8);
    part.options.positions = at::full({2, 4}, 8, at::kLong);
  });
}

TEST_CASE("the gradient of divided attention has no gradient", "[kernels]") {
  const Whole x = whole_of(8, {2, 2}, 8, 8);
  Mailbox box(2);
  CHECK_THROWS_WITH(run_sequence_ranks(box,
                                       by_generated(),
                                       {4, 4},
                                       [&](const SequenceParts& parts) {
                                         const Whole part = part_of(x, parts);
                                         const SequenceScope scope(&parts);
                                         const Call call =
                                             call_of(part, at::kDouble, Form::kSeparate);
                                         torch::autograd::grad({call.y},
                                                               call.leaves,
                                                               {part.grad_y},
                                                               /*retain_graph=*/std::nullopt,
                                                               /*create_graph=*/true);
                                       }),
                    contains_text("tenon::attention: its gradient has no gradient (create_graph)"));
}

}  // namespace tenon
