// SPDX-License-Identifier: Apache-2.0
//
// Implements attention_heads.hpp for one instruction set; included only by each_machine.hpp. Rows
// of scratch matrices are zero-padded to whole vectors, and their number to whole tiles.

// Size of the result tile that a product keeps in registers: rows and vectors.
inline constexpr int64_t kTileRows = kLanes == 16 ? 8 : 4;
inline constexpr int64_t kTileVectors = 2;

template <int64_t kVectors>
SIMD_INLINE void tile_product(const float* a,
                              int64_t a_row,
                              int64_t a_depth,
                              const float* b,
                              int64_t b_depth,
                              float* c,
                              int64_t c_row,
                              int64_t depth,
                              bool adds) {
  Floats sums[kTileRows][kVectors] = {};
  if (adds) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[i][v] = load(c + i * c_row + v * kLanes);
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Floats row[kVectors];
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      row[v] = load(b + k * b_depth + v * kLanes);
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < kTileRows; ++i) {
      const Floats factor = splat(a[i * a_row + k * a_depth]);
#pragma GCC unroll 2
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[i][v] += factor * row[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 2
    for (int64_t v = 0; v < kVectors; ++v) {
      store(c + i * c_row + v * kLanes, sums[i][v]);
    }
  }
}

// c[i][j] = or += sum over k of a[i * a_row + k * a_depth] * b[k * b_depth + j]. `rows` is whole
// tiles, `columns` whole vectors.
inline void product(const float* a,
                    int64_t a_row,
                    int64_t a_depth,
                    const float* b,
                    int64_t b_depth,
                    float* c,
                    int64_t c_row,
                    int64_t rows,
                    int64_t columns,
                    int64_t depth,
                    bool adds) {
  for (int64_t j = 0; j < columns;) {
    const bool is_wide = columns - j >= kTileVectors * kLanes;
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const float* const a_tile = a + i * a_row;
      float* const c_tile = c + i * c_row + j;
      if (is_wide) {
        tile_product<kTileVectors>(
            a_tile, a_row, a_depth, b + j, b_depth, c_tile, c_row, depth, adds);
      } else {
        tile_product<1>(a_tile, a_row, a_depth, b + j, b_depth, c_tile, c_row, depth, adds);
      }
    }
    j += is_wide ? kTileVectors * kLanes : kLanes;
  }
}

// Rotates a head by its position: (a, b) -> (a cos - b sin, b cos + a sin), times `scale`. `sign`
// -1 inverts the rotation.
SIMD_INLINE void rotate_head(const float* __restrict in,
                             float* __restrict out,
                             const float* __restrict cos,
                             const float* __restrict sin,
                             int64_t half,
                             float scale,
                             float sign) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = in[i];
    const float b = in[half + i];
    const float s = sin[i] * sign;
    out[i] = (a * cos[i] - b * s) * scale;
    out[half + i] = (b * cos[i] + a * s) * scale;
  }
}

// A loop: a head is too short for memcpy to be faster.
SIMD_INLINE void copy_row(const float* from, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(to + i, load(from + i));
  }
  if (i < n) {
    store_part(to + i, load_part(from + i, n - i, 0.0f), n - i);
  }
}

// to[i][t] = from[t][i] for kTileRows rows of `from`.
SIMD_INLINE void transpose_rows(const float* __restrict from,
                                int64_t from_row,
                                float* __restrict to,
                                int64_t to_row,
                                int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t t = 0; t < kTileRows; ++t) {
      to[i * to_row + t] = from[t * from_row + i];
    }
  }
}

inline void transpose(const float* from, float* to, int64_t rows, int64_t from_row, int64_t n) {
  for (int64_t t = 0; t < rows; t += kTileRows) {
    transpose_rows(from + t * from_row, from_row, to + t, rows, n);
  }
}

// Locations in the tensors and in scratch memory, for one group of heads.
struct Group {
  Group(const AttentionInput& input, int64_t index, float* scratch)
      : in(input),
        s(input.sizes),
        b(index / s.K),
        head(index % s.K),
        shared(s.H / s.K),
        half(s.E / 2),
        row((s.H + 2 * s.K) * s.E),
        width((s.E + kLanes - 1) / kLanes * kLanes),
        length((s.T + kLanes - 1) / kLanes * kLanes),
        scale(1.0f / std::sqrt(static_cast<float>(s.E))) {
    float* next = scratch;
    q = take(next, kAttentionRows * width);
    out = take(next, kAttentionRows * width);
    scores = take(next, kAttentionRows * length);
    k = take(next, length * width);
    k_turned = take(next, width * length);
    v = take(next, length * width);
    grad_out = take(next, kAttentionRows * width);
    grad_scores = take(next, kAttentionRows * length);
    grad_k = take(next, length * width);
    grad_v = take(next, length * width);
  }

  static float* take(float*& next, int64_t n) {
    float* const taken = next;
    next += n;
    return taken;
  }
  const float* cos(int64_t t) const { return in.table + t * half; }
  const float* sin(int64_t t) const { return in.table + (s.T + t) * half; }
  // Offsets in qkv, y and sums.
  int64_t at_q(int64_t t, int64_t h) const { return (b * s.T + t) * row + h * s.E; }
  int64_t at_k(int64_t t) const { return at_q(t, s.H + head); }
  int64_t at_v(int64_t t) const { return at_q(t, s.H + s.K + head); }
  int64_t at_y(int64_t t, int64_t h) const { return ((b * s.T + t) * s.H + h) * s.E; }
  int64_t at_sum(int64_t t, int64_t h) const { return (b * s.H + h) * s.T + t; }

  const AttentionInput& in;
  const AttentionSizes& s;
  int64_t b;
  int64_t head;    // index of the key and value head
  int64_t shared;  // query heads per key head
  int64_t half;
  int64_t row;
  int64_t width;   // E, padded
  int64_t length;  // T, padded
  float scale;     // of scores; applied to queries
  float* q;
  float* out;
  float* scores;
  float* k;
  float* k_turned;
  float* v;  // transposed in backward
  float* grad_out;
  float* grad_scores;
  float* grad_k;
  float* grad_v;
};

// A block of queries.
struct Block {
  int64_t h;       // query head
  int64_t first;   // position of its first row
  int64_t rows;    // without padding
  int64_t padded;  // whole tiles
  int64_t keys;    // visible keys, padded to whole vectors
};

inline Block block_at(const Group& g, int64_t h, int64_t first) {
  const int64_t rows = g.s.T - first < kAttentionRows ? g.s.T - first : kAttentionRows;
  return {h,
          first,
          rows,
          (rows + kTileRows - 1) / kTileRows * kTileRows,
          (first + rows + kLanes - 1) / kLanes * kLanes};
}

inline void take_keys(const Group& g) {
  for (int64_t t = 0; t < g.s.T; ++t) {
    rotate_head(g.in.qkv + g.at_k(t), g.k + t * g.width, g.cos(t), g.sin(t), g.half, 1.0f, 1.0f);
  }
  transpose(g.k, g.k_turned, g.length, g.width, g.s.E);
}

inline void take_values(const Group& g, float* to) {
  for (int64_t t = 0; t < g.s.T; ++t) {
    const float* const from = g.in.qkv + g.at_v(t);
    copy_row(from, to + t * g.width, g.s.E);
  }
}

// Scores of a block's queries. Scores of masked positions are undefined.
inline void make_scores(const Group& g, const Block& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t t = block.first + r;
    rotate_head(g.in.qkv + g.at_q(t, block.h),
                g.q + r * g.width,
                g.cos(t),
                g.sin(t),
                g.half,
                g.scale,
                1.0f);
  }
  product(g.q,
          g.width,
          1,
          g.k_turned,
          g.length,
          g.scores,
          g.length,
          block.padded,
          block.keys,
          g.s.E,
          false);
}

// Converts the scores of a row with `seen` visible keys to unnormalized weights. Returns the
// largest score and the sum of the weights.
struct RowWeights {
  float largest;
  float sum;
};

inline RowWeights weigh_row(float* scores, int64_t seen, int64_t keys) {
  const int64_t end = (seen + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + seen, scores + end, -__builtin_inff());
  Floats largest = load(scores);
  for (int64_t i = kLanes; i < end; i += kLanes) {
    largest = larger(load(scores + i), largest);
  }
  const float m = largest_of(largest);
  Floats sum = {};
  for (int64_t i = 0; i < end; i += kLanes) {
    const Floats weights = exp_of(load(scores + i) - m);
    store(scores + i, weights);
    sum += weights;
  }
  std::fill(scores + end, scores + keys, 0.0f);
  return {m, sum_of(sum)};
}

inline void run_forward(
    const AttentionInput& in, int64_t index, float* y, float* sums, float* scratch) {
  const Group g(in, index, scratch);
  take_keys(g);
  take_values(g, g.v);
  for (int64_t h = g.head * g.shared; h < (g.head + 1) * g.shared; ++h) {
    for (int64_t first = 0; first < g.s.T; first += kAttentionRows) {
      const Block block = block_at(g, h, first);
      make_scores(g, block);
      float factors[kAttentionRows];
      for (int64_t r = 0; r < block.rows; ++r) {
        const RowWeights row = weigh_row(g.scores + r * g.length, first + r + 1, block.keys);
        factors[r] = 1.0f / row.sum;
        sums[g.at_sum(first + r, h)] = row.largest + std::log(row.sum);
      }
      product(g.scores,
              g.length,
              1,
              g.v,
              g.width,
              g.out,
              g.width,
              block.padded,
              g.width,
              block.keys,
              false);
      for (int64_t r = 0; r < block.rows; ++r) {
        float* const to = y + g.at_y(first + r, h);
        for (int64_t e = 0; e < g.s.E; ++e) {
          to[e] = g.out[r * g.width + e] * factors[r];
        }
      }
    }
  }
}

// Per row: recomputes weights from scores and their sum, then the gradient of the scores: dscore =
// weight * (dweight - sum(weight * dweight)). It is exactly zero for a row with one visible key.
inline void weigh_row_backward(
    float* scores, float* grad_scores, int64_t seen, int64_t keys, float sum) {
  const int64_t end = (seen + kLanes - 1) / kLanes * kLanes;
  std::fill(scores + seen, scores + end, -__builtin_inff());
  Floats inner = {};
  for (int64_t i = 0; i < end; i += kLanes) {
    const Floats weights = exp_of(load(scores + i) - sum);
    store(scores + i, weights);
    inner += weights * load(grad_scores + i);
  }
  const float all = sum_of(inner);
  for (int64_t i = 0; i < end; i += kLanes) {
    store(grad_scores + i, load(scores + i) * (load(grad_scores + i) - all));
  }
  std::fill(scores + end, scores + keys, 0.0f);
  std::fill(grad_scores + end, grad_scores + keys, 0.0f);
}

// Adds the block's part of the gradients of keys and values, and writes that of its queries.
inline void run_block_backward(
    const Group& g, const Block& block, const float* sums, const float* grad_y, float* grad_qkv) {
  make_scores(g, block);
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* const from = grad_y + g.at_y(block.first + r, block.h);
    copy_row(from, g.grad_out + r * g.width, g.s.E);
  }
  product(g.grad_out,
          g.width,
          1,
          g.v,
          g.length,
          g.grad_scores,
          g.length,
          block.padded,
          block.keys,
          g.s.E,
          false);
  for (int64_t r = 0; r < block.rows; ++r) {
    weigh_row_backward(g.scores + r * g.length,
                       g.grad_scores + r * g.length,
                       block.first + r + 1,
                       block.keys,
                       sums[g.at_sum(block.first + r, block.h)]);
  }
  product(g.scores,
          1,
          g.length,
          g.grad_out,
          g.width,
          g.grad_v,
          g.width,
          block.keys,
          g.width,
          block.rows,
          true);
  product(g.grad_scores,
          1,
          g.length,
          g.q,
          g.width,
          g.grad_k,
          g.width,
          block.keys,
          g.width,
          block.rows,
          true);
  product(g.grad_scores,
          g.length,
          1,
          g.k,
          g.width,
          g.out,
          g.width,
          block.padded,
          g.width,
          block.keys,
          false);
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t t = block.first + r;
    rotate_head(g.out + r * g.width,
                grad_qkv + g.at_q(t, block.h),
                g.cos(t),
                g.sin(t),
                g.half,
                g.scale,
                -1.0f);
  }
}

inline void run_backward(const AttentionInput& in,
                         int64_t index,
                         const float* sums,
                         const float* grad_y,
                         float* grad_qkv,
                         float* scratch) {
  const Group g(in, index, scratch);
  take_keys(g);
  take_values(g, g.grad_v);
  transpose(g.grad_v, g.v, g.length, g.width, g.s.E);
  std::fill(g.grad_k, g.grad_k + g.length * g.width, 0.0f);
  std::fill(g.grad_v, g.grad_v + g.length * g.width, 0.0f);
  for (int64_t h = g.head * g.shared; h < (g.head + 1) * g.shared; ++h) {
    for (int64_t first = 0; first < g.s.T; first += kAttentionRows) {
      run_block_backward(g, block_at(g, h, first), sums, grad_y, grad_qkv);
    }
  }
  for (int64_t t = 0; t < g.s.T; ++t) {
    rotate_head(
        g.grad_k + t * g.width, grad_qkv + g.at_k(t), g.cos(t), g.sin(t), g.half, 1.0f, -1.0f);
    const float* const from = g.grad_v + t * g.width;
    copy_row(from, grad_qkv + g.at_v(t), g.s.E);
  }
}

inline int64_t scratch_floats(const AttentionSizes& s) {
  const int64_t width = (s.E + kLanes - 1) / kLanes * kLanes;
  const int64_t length = (s.T + kLanes - 1) / kLanes * kLanes;
  return 3 * kAttentionRows * width + 2 * kAttentionRows * length + 5 * width * length;
}
