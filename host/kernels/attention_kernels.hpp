// SPDX-License-Identifier: Apache-2.0
//
// Implements attention_heads.hpp for one instruction set; included only by each_machine.hpp.
//
// A block holds the scores of kQueries queries and kKeys keys, transposed: a row per key, so that
// the softmax of neighboring queries runs in the lanes of a vector. Keys that a query does not see
// are skipped by tiles. At the border, their weights are set to 0.
#include "host/kernels/tile_kernels.hpp"

// Distance between rows of scores. The padding spreads a column over all sets of the cache.
inline constexpr int64_t kScoresRow = kQueries + 16;
inline constexpr float kLowestScore = -3.0e38f;

struct Span {
  int64_t begin;
  int64_t end;
};

// Rows in scratch memory, apart by a distance that spreads columns over the sets of the cache.
inline int64_t scratch_row(int64_t E) {
  const int64_t width = (E + kLanes - 1) / kLanes * kLanes;
  return width % 64 == 0 ? width + 16 : width;
}

inline float* take_scratch(float*& next, int64_t n) {
  float* const taken = next;
  next += (n + 15) / 16 * 16;
  return taken;
}

// to = scale * (a cos - b sin, b cos + a sin) of from = (a, b). `sign` -1 inverts the rotation.
SIMD_INLINE void rotate_row(const float* from,
                            float* to,
                            const float* cos,
                            const float* sin,
                            int64_t half,
                            float scale,
                            float sign) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Floats a = load(from + i);
    const Floats b = load(from + half + i);
    const Floats c = load(cos + i);
    const Floats s = load(sin + i) * sign;
    store(to + i, (a * c - b * s) * scale);
    store(to + half + i, (b * c + a * s) * scale);
  }
  for (; i < half; ++i) {
    const float a = from[i];
    const float b = from[half + i];
    const float s = sin[i] * sign;
    to[i] = (a * cos[i] - b * s) * scale;
    to[half + i] = (b * cos[i] + a * s) * scale;
  }
}

SIMD_INLINE void scale_row(const float* from, float* to, int64_t n, float scale) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(to + i, load(from + i) * scale);
  }
  for (; i < n; ++i) {
    to[i] = from[i] * scale;
  }
}

// Heads are far apart in memory, where hardware does not prefetch them. Reading a few rows ahead
// hides the latency; an address past the end does no harm.
SIMD_INLINE void prefetch_row(const HeadRows<const float>& rows, const float* row, int64_t E) {
  constexpr int64_t kAhead = 8;
  constexpr int64_t kLine = 16;  // floats per cache line
  for (int64_t e = 0; e < E; e += kLine) {
    __builtin_prefetch(row + kAhead * rows.position + e);
  }
}

// Copies a row of queries, keys or their gradients, at the position of key `s`, into or out of
// scratch memory.
SIMD_INLINE void move_row(const AttentionInput& in,
                          int64_t b,
                          int64_t s,
                          const float* from,
                          float* to,
                          float scale,
                          float sign) {
  const int64_t rotated = in.rotated;
  if (in.cos != nullptr) {
    const int64_t half = rotated / 2;
    const int64_t row = (in.positions == nullptr ? s : in.positions[b * in.sizes.S + s]) * half;
    rotate_row(from, to, in.cos + row, in.sin + row, half, scale, sign);
  }
  scale_row(from + rotated, to + rotated, in.sizes.E - rotated, scale);
}

// Keys and values of positions [first, first + n) in scratch memory.
inline void take_keys(const AttentionInput& in,
                      int64_t b,
                      int64_t kv_head,
                      int64_t first,
                      int64_t n,
                      float* k,
                      float* v) {
  const int64_t row = scratch_row(in.sizes.E);
  for (int64_t j = 0; j < n; ++j) {
    const float* const from_k = in.k.at(b, first + j, kv_head);
    const float* const from_v = in.v.at(b, first + j, kv_head);
    prefetch_row(in.k, from_k, in.sizes.E);
    prefetch_row(in.v, from_v, in.sizes.E);
    move_row(in, b, first + j, from_k, k + j * row, 1.0f, 1.0f);
    scale_row(from_v, v + j * row, in.sizes.E, 1.0f);
  }
}

// A block of queries of one head, and the keys that each sees.
struct QueryBlock {
  QueryBlock(const AttentionInput& in, int64_t sample, int64_t head, int64_t from, int64_t end)
      : b(sample), h(head), first(from), rows(std::min(end - from, kQueries)) {
    for (int64_t r = 0; r < kQueries; ++r) {
      const int64_t t = first + r;
      const bool is_padding = r >= rows;
      const int64_t start =
          in.starts == nullptr || is_padding ? 0 : in.starts[b * in.starts_batch + t];
      const int64_t end_key = is_padding ? 0 : in.is_causal ? in.first + t + 1 : in.sizes.S;
      lo[r] = static_cast<int32_t>(start);
      hi[r] = static_cast<int32_t>(end_key);
    }
  }

  // The keys among `keys` that queries [begin, end) of the block see.
  Span keys_of(int64_t begin, int64_t end, Span keys) const {
    return {std::max<int64_t>(lo[begin], keys.begin), std::min<int64_t>(hi[end - 1], keys.end)};
  }
  // Whether each of the queries sees each of the keys.
  bool is_full(int64_t begin, int64_t end, Span keys) const {
    return lo[end - 1] <= keys.begin && hi[begin] >= keys.end;
  }
  // The queries of the block that see any of the keys.
  Span queries_of(Span keys) const {
    Span queries = {0, rows};
    while (queries.begin < queries.end && hi[queries.begin] <= keys.begin) {
      ++queries.begin;
    }
    while (queries.begin < queries.end && lo[queries.end - 1] >= keys.end) {
      --queries.end;
    }
    return queries;
  }

  int64_t b;
  int64_t h;
  int64_t first;
  int64_t rows;
  int32_t lo[kQueries];  // query r sees the keys [lo[r], hi[r])
  int32_t hi[kQueries];
};

// Rotated and scaled queries of a block, as rows and transposed.
inline void take_queries(const AttentionInput& in,
                         const QueryBlock& block,
                         float* q,
                         float* turned) {
  const int64_t row = scratch_row(in.sizes.E);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t t = block.first + r;
    const float* const from = in.q.at(block.b, t, block.h);
    prefetch_row(in.q, from, in.sizes.E);
    move_row(in, block.b, in.first + t, from, q + r * row, in.scale, 1.0f);
  }
  turn_rows(q, row, turned, kScoresRow, block.rows, in.sizes.E);
}

// Keys in scratch memory, and which they are.
struct KeyBlock {
  Span keys;
  const float* k;
  const float* v;
};

// Products of `left`, rows by key, with a strip of kTileColumns transposed queries, for the keys
// [begin, end) of a block, to whole tiles.
inline void strip_product(
    const float* left, const float* turned, float* c, int64_t begin, int64_t end, int64_t E) {
  const int64_t row = scratch_row(E);
  for (int64_t j = begin / kTileRows * kTileRows; j < end; j += kTileRows) {
    tile_product<kTileVectors, TileInto::kSet>(
        {left + j * row, row, 1}, turned, kScoresRow, c + j * kScoresRow, kScoresRow, E, nullptr);
  }
}

inline void clear_strip(float* c, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; ++j) {
    store(c + j * kScoresRow, Floats{});
    store(c + j * kScoresRow + kLanes, Floats{});
  }
}

SIMD_INLINE Floats tanh_of_score(Floats x) {
  const Words sign = reinterpret_cast<Words>(x) & 0x80000000u;
  const Floats size = reinterpret_cast<Floats>(reinterpret_cast<Words>(x) & 0x7FFFFFFFu);
  const Floats z = x * x;
  Floats p = splat(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Floats small = p * z * x + x;
  const Floats large = 1.0f - 2.0f / (exp_of(size + size) + 1.0f);
  const Ints is_small = size < 0.625f;
  return is_small ? small : reinterpret_cast<Floats>(reinterpret_cast<Words>(large) | sign);
}

// The score where the query of a lane sees key `j`; elsewhere minus infinity.
SIMD_INLINE Floats masked_score(Floats score, int64_t j, const int32_t* lo, const int32_t* hi) {
  const Ints key = Ints{} + static_cast<int32_t>(j);
  const Ints is_seen =
      (key >= *reinterpret_cast<const Ints*>(lo)) & (key < *reinterpret_cast<const Ints*>(hi));
  return is_seen ? score : splat(-__builtin_inff());
}

// Largest score, sum of weights and factor of the former sums of a block's queries.
struct RunningSoftmax {
  float largest[kQueries];
  float sum[kQueries];
  float rescale[kQueries];
};

// Converts the scores of a strip's queries for the keys `seen`, of which the first has row 0 at
// `scores`, to weights relative to the largest score so far.
template <bool kIsMasked>
inline void weigh_strip(float* scores,
                        Span seen,
                        const int32_t* lo,
                        const int32_t* hi,
                        float softcap,
                        float* largest,
                        float* sum,
                        float* rescale) {
  const int64_t n = seen.end - seen.begin;
  for (int64_t v = 0; v < kTileVectors; ++v) {
    float* const at = scores + v * kLanes;
    const Floats before = load(largest + v * kLanes);
    Floats most = before;
    for (int64_t j = 0; j < n; ++j) {
      Floats score = load(at + j * kScoresRow);
      if (softcap > 0.0f) {
        score = softcap * tanh_of_score(score / softcap);
      }
      if constexpr (kIsMasked) {
        score = masked_score(score, seen.begin + j, lo + v * kLanes, hi + v * kLanes);
      }
      if (kIsMasked || softcap > 0.0f) {
        store(at + j * kScoresRow, score);
      }
      most = larger(score, most);
    }
    const Floats factor = exp_of(before - most);
    Floats all = load(sum + v * kLanes) * factor;
    for (int64_t j = 0; j < n; ++j) {
      const Floats weight = exp_of(load(at + j * kScoresRow) - most);
      store(at + j * kScoresRow, weight);
      all += weight;
    }
    store(largest + v * kLanes, most);
    store(sum + v * kLanes, all);
    store(rescale + v * kLanes, factor);
  }
}

// Adds the values of a key block, weighed, to `out`.
inline void attend_block(const AttentionInput& in,
                         const QueryBlock& block,
                         const KeyBlock& key_block,
                         const float* turned,
                         float* scores,
                         RunningSoftmax& softmax,
                         float* out) {
  const int64_t E = in.sizes.E;
  const int64_t row = scratch_row(E);
  const Span keys = key_block.keys;
  const int64_t base = keys.begin;
  for (int64_t c = 0; c < block.rows; c += kTileColumns) {
    const int64_t end = std::min(c + kTileColumns, block.rows);
    const Span seen = block.keys_of(c, end, keys);
    float* const strip = scores + c;
    if (seen.begin >= seen.end) {
      clear_strip(strip, 0, keys.end - base);
      std::fill(softmax.rescale + c, softmax.rescale + c + kTileColumns, 1.0f);
      continue;
    }
    strip_product(key_block.k, turned + c, strip, seen.begin - base, seen.end - base, E);
    const auto weigh = block.is_full(c, end, seen) ? &weigh_strip<false> : &weigh_strip<true>;
    weigh(strip + (seen.begin - base) * kScoresRow,
          seen,
          block.lo + c,
          block.hi + c,
          in.softcap,
          softmax.largest + c,
          softmax.sum + c,
          softmax.rescale + c);
    clear_strip(strip, 0, seen.begin - base);
    clear_strip(strip, seen.end - base, keys.end - base);
  }
  for (int64_t i = 0; i < block.rows; i += kTileRows) {
    const Span seen = block.keys_of(i, std::min(i + kTileRows, block.rows), keys);
    if (seen.begin < seen.end) {
      const int64_t skipped = seen.begin - base;
      row_product<TileInto::kScaleAdd>({scores + skipped * kScoresRow + i, 1, kScoresRow},
                                       key_block.v + skipped * row,
                                       out + i * row,
                                       row,
                                       (E + kLanes - 1) / kLanes * kLanes,
                                       seen.end - seen.begin,
                                       softmax.rescale + i);
    }
  }
}

inline void attend_queries(const AttentionInput& in,
                           int64_t task,
                           const AttentionOutput& output,
                           float* scratch) {
  const AttentionSizes& s = in.sizes;
  const int64_t row = scratch_row(s.E);
  float* const k = take_scratch(scratch, kKeys * row);
  float* const v = take_scratch(scratch, kKeys * row);
  float* const q = take_scratch(scratch, kQueries * row);
  float* const turned = take_scratch(scratch, s.E * kScoresRow);
  float* const out = take_scratch(scratch, kQueries * row);
  float* const scores = take_scratch(scratch, kKeys * kScoresRow);

  // The last queries of a head first: they cost most.
  const int64_t blocks = blocks_of(s.T, kQueries);
  const int64_t head = task / blocks;
  const QueryBlock block(in, head / s.H, head % s.H, (blocks - 1 - task % blocks) * kQueries, s.T);
  take_queries(in, block, q, turned);
  RunningSoftmax softmax;
  std::fill(softmax.largest, softmax.largest + kQueries, kLowestScore);
  std::fill(softmax.sum, softmax.sum + kQueries, 0.0f);
  std::fill(out, out + kQueries * row, 0.0f);
  const Span seen = block.keys_of(0, block.rows, {0, s.S});
  for (int64_t j = seen.begin; j < seen.end; j += kKeys) {
    const Span keys = {j, std::min(j + kKeys, seen.end)};
    take_keys(in, block.b, block.h / (s.H / s.K), j, keys.end - j, k, v);
    attend_block(in, block, {keys, k, v}, turned, scores, softmax, out);
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t t = block.first + r;
    scale_row(out + r * row, output.y.at(block.b, t, block.h), s.E, 1.0f / softmax.sum[r]);
    output.sums[head * s.T + t] = softmax.largest[r] + std::log(softmax.sum[r]);
  }
}

// Locations in scratch memory for the backward.
struct BackwardScratch {
  BackwardScratch(const AttentionSizes& s, float* next)
      : row(scratch_row(s.E)), keys(chunk_keys(s.S, s.E)) {
    k = take_scratch(next, keys * row);
    v = take_scratch(next, keys * row);
    grad_k = take_scratch(next, keys * row);
    grad_v = take_scratch(next, keys * row);
    q = take_scratch(next, kQueries * row);
    grad_q = take_scratch(next, kQueries * row);
    grad_y = take_scratch(next, kQueries * row);
    q_turned = take_scratch(next, s.E * kScoresRow);
    grad_y_turned = take_scratch(next, s.E * kScoresRow);
    y_turned = take_scratch(next, s.E * kScoresRow);
    weights = take_scratch(next, kKeys * kScoresRow);
    grad_scores = take_scratch(next, kKeys * kScoresRow);
    end = next;
  }

  int64_t row;
  int64_t keys;
  float* k;
  float* v;
  float* grad_k;
  float* grad_v;
  float* q;
  float* grad_q;
  float* grad_y;
  float* q_turned;
  float* grad_y_turned;
  float* y_turned;
  float* weights;
  float* grad_scores;
  float* end;
};

inline int64_t attention_scratch_floats(const AttentionSizes& s) {
  float* const none = nullptr;
  return BackwardScratch(s, none).end - none;
}

// Converts scores to weights, and the gradients of weights to those of scores: dscore = weight
// (dweight - dot), where dot = sum(weight * dweight) = sum(y * dy) of the query.
template <bool kIsMasked>
inline void weigh_strip_backward(float* scores,
                                 float* grads,
                                 Span seen,
                                 const int32_t* lo,
                                 const int32_t* hi,
                                 float softcap,
                                 const float* sums,
                                 const float* dots) {
  const int64_t n = seen.end - seen.begin;
  for (int64_t v = 0; v < kTileVectors; ++v) {
    float* const at = scores + v * kLanes;
    float* const grad_at = grads + v * kLanes;
    const Floats sum = load(sums + v * kLanes);
    const Floats dot = load(dots + v * kLanes);
    for (int64_t j = 0; j < n; ++j) {
      Floats score = load(at + j * kScoresRow);
      Floats slope = splat(1.0f);
      if (softcap > 0.0f) {
        const Floats t = tanh_of_score(score / softcap);
        score = softcap * t;
        slope = 1.0f - t * t;
      }
      if constexpr (kIsMasked) {
        score = masked_score(score, seen.begin + j, lo + v * kLanes, hi + v * kLanes);
      }
      const Floats weight = exp_of(score - sum);
      Floats grad = weight * (load(grad_at + j * kScoresRow) - dot);
      if (softcap > 0.0f) {
        grad *= slope;
      }
      store(at + j * kScoresRow, weight);
      store(grad_at + j * kScoresRow, grad);
    }
  }
}

// Adds the gradients between a block of queries and a block of keys, whose rows begin at row
// `offset` of the scratch.
inline void attend_block_backward(const AttentionInput& in,
                                  const QueryBlock& block,
                                  Span keys,
                                  int64_t offset,
                                  const float* sums,
                                  const float* dots,
                                  const BackwardScratch& at) {
  const int64_t E = in.sizes.E;
  const int64_t row = at.row;
  const int64_t width = (E + kLanes - 1) / kLanes * kLanes;
  const int64_t base = keys.begin;
  const int64_t n = keys.end - base;
  const float* const k = at.k + offset * row;
  for (int64_t c = 0; c < block.rows; c += kTileColumns) {
    const int64_t end = std::min(c + kTileColumns, block.rows);
    const Span seen = block.keys_of(c, end, keys);
    const int64_t from = std::min(seen.begin - base, n);
    const int64_t to = std::max(seen.end - base, from);
    float* const weights = at.weights + c;
    float* const grads = at.grad_scores + c;
    if (from < to) {
      strip_product(k, at.q_turned + c, weights, from, to, E);
      strip_product(at.v + offset * row, at.grad_y_turned + c, grads, from, to, E);
      const auto weigh =
          block.is_full(c, end, seen) ? &weigh_strip_backward<false> : &weigh_strip_backward<true>;
      weigh(weights + from * kScoresRow,
            grads + from * kScoresRow,
            seen,
            block.lo + c,
            block.hi + c,
            in.softcap,
            sums + c,
            dots + c);
    }
    clear_strip(weights, 0, from);
    clear_strip(weights, to, n);
    clear_strip(grads, 0, from);
    clear_strip(grads, to, n);
  }
  for (int64_t j = 0; j < n; j += kTileRows) {
    const Span seers = block.queries_of({base + j, std::min(base + j + kTileRows, keys.end)});
    const int64_t depth = seers.end - seers.begin;
    if (depth == 0) {
      continue;
    }
    const int64_t scores = j * kScoresRow + seers.begin;
    row_product<TileInto::kAdd>({at.weights + scores, kScoresRow, 1},
                                at.grad_y + seers.begin * row,
                                at.grad_v + (offset + j) * row,
                                row,
                                width,
                                depth,
                                nullptr);
    row_product<TileInto::kAdd>({at.grad_scores + scores, kScoresRow, 1},
                                at.q + seers.begin * row,
                                at.grad_k + (offset + j) * row,
                                row,
                                width,
                                depth,
                                nullptr);
  }
  for (int64_t i = 0; i < block.rows; i += kTileRows) {
    const Span seen = block.keys_of(i, std::min(i + kTileRows, block.rows), keys);
    if (seen.begin < seen.end) {
      const int64_t skipped = seen.begin - base;
      row_product<TileInto::kAdd>({at.grad_scores + skipped * kScoresRow + i, 1, kScoresRow},
                                  k + skipped * row,
                                  at.grad_q + i * row,
                                  row,
                                  width,
                                  seen.end - seen.begin,
                                  nullptr);
    }
  }
}

// Gradients between a block of queries and the keys of a chunk. `adds` is whether grad_q holds the
// part of other chunks.
inline void attend_chunk_backward(const AttentionInput& in,
                                  const QueryBlock& block,
                                  Span chunk,
                                  bool adds,
                                  const AttentionGrads& grads,
                                  const BackwardScratch& at) {
  const AttentionSizes& s = in.sizes;
  const Span seen = block.keys_of(0, block.rows, chunk);
  if (seen.begin >= seen.end) {
    for (int64_t r = 0; r < block.rows && !adds; ++r) {
      float* const to = grads.grad_q.at(block.b, block.first + r, block.h);
      std::fill(to, to + s.E, 0.0f);
    }
    return;
  }
  take_queries(in, block, at.q, at.q_turned);
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* const from = grads.grad_y.at(block.b, block.first + r, block.h);
    prefetch_row(grads.grad_y, from, s.E);
    prefetch_row(grads.y, grads.y.at(block.b, block.first + r, block.h), s.E);
    scale_row(from, at.grad_y + r * at.row, s.E, 1.0f);
  }
  turn_rows(at.grad_y, at.row, at.grad_y_turned, kScoresRow, block.rows, s.E);
  turn_rows(grads.y.at(block.b, block.first, block.h),
            grads.y.position,
            at.y_turned,
            kScoresRow,
            block.rows,
            s.E);
  // In the order of strip_product: if a query sees one key, dot equals dweight to the last bit.
  float sums[kQueries] = {};
  float dots[kQueries] = {};
  for (int64_t c = 0; c < block.rows; c += kLanes) {
    Floats dot = {};
    for (int64_t e = 0; e < s.E; ++e) {
      dot += load(at.y_turned + e * kScoresRow + c) * load(at.grad_y_turned + e * kScoresRow + c);
    }
    store(dots + c, dot);
  }
  const float* const saved = grads.sums + (block.b * s.H + block.h) * s.T + block.first;
  std::copy(saved, saved + block.rows, sums);
  std::fill(at.grad_q, at.grad_q + kQueries * at.row, 0.0f);

  const int64_t skipped = (seen.begin - chunk.begin) / kKeys * kKeys;
  for (int64_t j = chunk.begin + skipped; j < seen.end; j += kKeys) {
    const Span keys = {j, std::min(j + kKeys, chunk.end)};
    attend_block_backward(in, block, keys, j - chunk.begin, sums, dots, at);
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t t = block.first + r;
    float* const to = grads.grad_q.at(block.b, t, block.h);
    // The rows of q are free now.
    float* const part = adds ? at.q + r * at.row : to;
    move_row(in, block.b, in.first + t, at.grad_q + r * at.row, part, in.scale, -1.0f);
    for (int64_t e = 0; adds && e < s.E; ++e) {
      to[e] += part[e];
    }
  }
}

inline void attend_keys_backward(const AttentionInput& in,
                                 const AttentionPart& part,
                                 const AttentionGrads& grads,
                                 float* scratch) {
  const AttentionSizes& s = in.sizes;
  const BackwardScratch at(s, scratch);
  for (int64_t first = part.first_key; first < part.end_key; first += at.keys) {
    const Span chunk = {first, std::min(first + at.keys, part.end_key)};
    const int64_t n = chunk.end - first;
    take_keys(in, part.b, part.kv_head, first, n, at.k, at.v);
    std::fill(at.grad_k, at.grad_k + at.keys * at.row, 0.0f);
    std::fill(at.grad_v, at.grad_v + at.keys * at.row, 0.0f);
    for (int64_t h = part.first_head; h < part.end_head; ++h) {
      for (int64_t t = part.first_query; t < part.end_query; t += kQueries) {
        const QueryBlock block(in, part.b, h, t, part.end_query);
        attend_chunk_backward(in, block, chunk, first > part.first_key, grads, at);
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      const int64_t t = first + j;
      float* const grad_k = grads.grad_k.at(part.b, t, part.kv_head);
      move_row(in, part.b, t, at.grad_k + j * at.row, grad_k, 1.0f, -1.0f);
      scale_row(at.grad_v + j * at.row, grads.grad_v.at(part.b, t, part.kv_head), s.E, 1.0f);
    }
  }
}
