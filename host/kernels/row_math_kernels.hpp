// SPDX-License-Identifier: Apache-2.0
//
// Implements row_math.hpp for one instruction set; included only by each_machine.hpp.

inline void norm(const NormRows& at, int64_t rows, int64_t width, float eps) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = at.x + row * width;
    float* y = at.y + row * width;
    Floats sums = {};
    if (at.delta != nullptr) {
      const float* delta = at.delta + row * width;
      float* h = at.h + row * width;
      for (int64_t i = 0; i < whole; i += kLanes) {
        const Floats sum = load(x + i) + load(delta + i);
        store(h + i, sum);
        sums += sum * sum;
      }
      if (rest > 0) {
        const Floats sum = load_part(x + whole, rest, 0.0f) + load_part(delta + whole, rest, 0.0f);
        store_part(h + whole, sum, rest);
        sums += sum * sum;
      }
      x = h;
    } else {
      for (int64_t i = 0; i < whole; i += kLanes) {
        sums += load(x + i) * load(x + i);
      }
      if (rest > 0) {
        const Floats last = load_part(x + whole, rest, 0.0f);
        sums += last * last;
      }
    }
    const float r = 1.0f / std::sqrt(sum_of(sums) / static_cast<float>(width) + eps);
    at.scales[row] = r;
    for (int64_t i = 0; i < whole; i += kLanes) {
      store(y + i, load(x + i) * r * load(at.w + i));
    }
    for (int64_t i = whole; i < width; ++i) {
      y[i] = x[i] * r * at.w[i];
    }
  }
}

// With a = g * w: dx = r * (a - x * r^2 * mean(a * x)); dw += g * x * r.
inline void norm_grad(const NormGradRows& at, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = at.h + row * width;
    const float* g = at.grad_y + row * width;
    const float* residual = at.grad_h == nullptr ? nullptr : at.grad_h + row * width;
    float* dh = at.dh + row * width;
    const float r = at.scales[row];
    Floats sums = {};
    for (int64_t i = 0; i < whole; i += kLanes) {
      sums += load(g + i) * load(at.w + i) * load(x + i);
    }
    if (rest > 0) {
      sums += load_part(g + whole, rest, 0.0f) * load_part(at.w + whole, rest, 0.0f) *
              load_part(x + whole, rest, 0.0f);
    }
    const float back = r * r * r * sum_of(sums) / static_cast<float>(width);
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats scaled = load(g + i) * r;
      const Floats at_x = load(x + i);
      Floats grad = scaled * load(at.w + i) - at_x * back;
      if (residual != nullptr) {
        grad += load(residual + i);
      }
      store(dh + i, grad);
      store(at.dw + i, load(at.dw + i) + scaled * at_x);
    }
    for (int64_t i = whole; i < width; ++i) {
      const float grad = g[i] * r * at.w[i] - x[i] * back;
      dh[i] = residual != nullptr ? grad + residual[i] : grad;
      at.dw[i] += g[i] * r * x[i];
    }
  }
}

SIMD_INLINE Floats sigmoid_of(Floats x) {
  return 1.0f / (1.0f + exp_of(-x));
}

inline void swiglu(SwigluRows at, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats gate = load(at.gate + i);
      store(at.y + i, gate * sigmoid_of(gate) * load(at.up + i));
    }
    if (rest > 0) {
      const Floats gate = load_part(at.gate + whole, rest, 0.0f);
      const Floats up = load_part(at.up + whole, rest, 0.0f);
      store_part(at.y + whole, gate * sigmoid_of(gate) * up, rest);
    }
    at.gate += at.stride;
    at.up += at.stride;
    at.y += width;
  }
}

// With s = sigmoid(gate): dup = g * gate * s; dgate = g * up * s * (1 + gate * (1 - s)).
struct SwigluGrad {
  Floats gate;
  Floats up;
};
SIMD_INLINE SwigluGrad swiglu_grad_of(Floats gate, Floats up, Floats g) {
  const Floats s = sigmoid_of(gate);
  return {g * up * (s * (1.0f + gate * (1.0f - s))), g * (gate * s)};
}

inline void swiglu_grad(SwigluGradRows at, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      const SwigluGrad grad =
          swiglu_grad_of(load(at.gate + i), load(at.up + i), load(at.grad_y + i));
      store(at.grad_gate + i, grad.gate);
      store(at.grad_up + i, grad.up);
    }
    if (rest > 0) {
      const SwigluGrad grad = swiglu_grad_of(load_part(at.gate + whole, rest, 0.0f),
                                             load_part(at.up + whole, rest, 0.0f),
                                             load_part(at.grad_y + whole, rest, 0.0f));
      store_part(at.grad_gate + whole, grad.gate, rest);
      store_part(at.grad_up + whole, grad.up, rest);
    }
    at.gate += at.stride;
    at.up += at.stride;
    at.grad_y += width;
    at.grad_gate += at.stride;
    at.grad_up += at.stride;
  }
}

// The last, partial vector of a row is done by the same code as the others: `n` is kLanes or what
// is left. Without rest, load_any is a plain load.
SIMD_INLINE Floats load_any(const float* from, int64_t n) {
  return n == kLanes ? load(from) : load_part(from, n, 0.0f);
}
SIMD_INLINE void store_any(float* to, Floats x, int64_t n) {
  if (n == kLanes) {
    store(to, x);
  } else {
    store_part(to, x, n);
  }
}

// The first `n` lanes of x; the others are 0.
SIMD_INLINE Floats only_first(Floats x, int64_t n) {
  for (int64_t i = n; i < kLanes; ++i) {
    x[i] = 0.0f;
  }
  return x;
}

SIMD_INLINE float mean_of_row(const float* x, int64_t width) {
  const int64_t whole = width - width % kLanes;
  Floats sums[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= whole; i += 2 * kLanes) {
    sums[0] += load(x + i);
    sums[1] += load(x + i + kLanes);
  }
  for (; i < width; i += kLanes) {
    sums[0] += load_any(x + i, width - i < kLanes ? width - i : kLanes);
  }
  return sum_of(sums[0] + sums[1]) / static_cast<float>(width);
}

// The biased variance.
SIMD_INLINE float variance_of_row(const float* x, int64_t width, float mean) {
  const int64_t whole = width - width % kLanes;
  Floats sums[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= whole; i += 2 * kLanes) {
    const Floats first = load(x + i) - mean;
    const Floats second = load(x + i + kLanes) - mean;
    sums[0] += first * first;
    sums[1] += second * second;
  }
  for (; i < whole; i += kLanes) {
    const Floats offset = load(x + i) - mean;
    sums[0] += offset * offset;
  }
  if (i < width) {
    const Floats offset = only_first(load_part(x + i, width - i, 0.0f) - mean, width - i);
    sums[1] += offset * offset;
  }
  return sum_of(sums[0] + sums[1]) / static_cast<float>(width);
}

SIMD_INLINE void layer_norm_vector(
    const LayerNormRows& at, const float* x, float* y, int64_t i, int64_t n, float mean, float r) {
  Floats out = (load_any(x + i, n) - mean) * r;
  if (at.w != nullptr) {
    out = out * load_any(at.w + i, n);
  }
  if (at.b != nullptr) {
    out = out + load_any(at.b + i, n);
  }
  store_any(y + i, out, n);
}

inline void layer_norm_of_rows(const LayerNormRows& at, int64_t rows, int64_t width, float eps) {
  const int64_t whole = width - width % kLanes;
  for (int64_t row = 0; row < rows; ++row) {
    const float* x = at.x + row * width;
    float* y = at.y + row * width;
    const float mean = mean_of_row(x, width);
    const float r = 1.0f / std::sqrt(variance_of_row(x, width, mean) + eps);
    at.means[row] = mean;
    at.scales[row] = r;
    for (int64_t i = 0; i < whole; i += kLanes) {
      layer_norm_vector(at, x, y, i, kLanes, mean, r);
    }
    if (whole < width) {
      layer_norm_vector(at, x, y, whole, width - whole, mean, r);
    }
  }
}

// With u = (x - mean) * r and a = g * w: dx = r * (a - mean(a) - u * mean(a * u)); dw += g * u; db
// += g.
struct LayerNormSums {
  Floats a;
  Floats au;
};

SIMD_INLINE void add_layer_norm_sums(LayerNormSums& sums,
                                     const float* x,
                                     const float* g,
                                     const float* w,
                                     int64_t i,
                                     int64_t n,
                                     float mean,
                                     float r) {
  Floats a = load_any(g + i, n);  // 0 after the row's end, so that the products are 0 too
  if (w != nullptr) {
    a = a * load_any(w + i, n);
  }
  sums.a += a;
  sums.au += a * ((load_any(x + i, n) - mean) * r);
}

SIMD_INLINE void layer_norm_grad_vector(const LayerNormGradRows& at,
                                        int64_t offset,
                                        int64_t i,
                                        int64_t n,
                                        float mean,
                                        float r,
                                        float mean_a,
                                        float mean_au) {
  const Floats g = load_any(at.grad_y + offset + i, n);
  const Floats u = (load_any(at.x + offset + i, n) - mean) * r;
  const Floats a = at.w == nullptr ? g : g * load_any(at.w + i, n);
  store_any(at.dx + offset + i, (a - mean_a - u * mean_au) * r, n);
  if (at.dw != nullptr) {
    store_any(at.dw + i, load_any(at.dw + i, n) + g * u, n);
  }
  if (at.db != nullptr) {
    store_any(at.db + i, load_any(at.db + i, n) + g, n);
  }
}

inline void layer_norm_grad_of_rows(const LayerNormGradRows& at, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t offset = row * width;
    const float* x = at.x + offset;
    const float* g = at.grad_y + offset;
    const float mean = at.means[row];
    const float r = at.scales[row];
    LayerNormSums sums = {};
    for (int64_t i = 0; i < whole; i += kLanes) {
      add_layer_norm_sums(sums, x, g, at.w, i, kLanes, mean, r);
    }
    if (whole < width) {
      add_layer_norm_sums(sums, x, g, at.w, whole, width - whole, mean, r);
    }
    const float mean_a = sum_of(sums.a) / static_cast<float>(width);
    const float mean_au = sum_of(sums.au) / static_cast<float>(width);
    for (int64_t i = 0; i < whole; i += kLanes) {
      layer_norm_grad_vector(at, offset, i, kLanes, mean, r, mean_a, mean_au);
    }
    if (whole < width) {
      layer_norm_grad_vector(at, offset, whole, width - whole, mean, r, mean_a, mean_au);
    }
  }
}

inline void rope_of_heads(const RopeHeads& at, int64_t heads, int64_t half, float sign) {
  for (int64_t head = 0; head < heads; ++head) {
    const float* x = at.x + head * at.x_stride;
    float* y = at.y + head * at.y_stride;
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i < kLanes ? half - i : kLanes;
      const Floats a = load_any(x + i, n);
      const Floats b = load_any(x + half + i, n);
      const Floats cos = load_any(at.cos + i, n);
      const Floats sin = load_any(at.sin + i, n) * sign;
      store_any(y + i, a * cos - b * sin, n);
      store_any(y + half + i, b * cos + a * sin, n);
    }
  }
}

// A column of a few vectors at a time stays in registers.
inline void sum_of_selected_rows(
    const float* from, const int64_t* rows, int64_t num, int64_t width, float* out) {
  constexpr int64_t kVectors = 4;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= width; i += kVectors * kLanes) {
    Floats sums[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) {
      sums[v] = load(from + rows[0] * width + i + v * kLanes);
    }
    for (int64_t k = 1; k < num; ++k) {
      const float* row = from + rows[k] * width + i;
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[v] += load(row + v * kLanes);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      store(out + i + v * kLanes, sums[v]);
    }
  }
  for (; i < width; i += kLanes) {
    const int64_t n = width - i < kLanes ? width - i : kLanes;
    Floats sum = load_any(from + rows[0] * width + i, n);
    for (int64_t k = 1; k < num; ++k) {
      sum += load_any(from + rows[k] * width + i, n);
    }
    store_any(out + i, sum, n);
  }
}
