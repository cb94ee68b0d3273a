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

inline void swiglu(const float* gate_up, float* y, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows; ++row, gate_up += 2 * width, y += width) {
    const float* up = gate_up + width;
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats gate = load(gate_up + i);
      store(y + i, gate * sigmoid_of(gate) * load(up + i));
    }
    if (rest > 0) {
      const Floats gate = load_part(gate_up + whole, rest, 0.0f);
      store_part(y + whole, gate * sigmoid_of(gate) * load_part(up + whole, rest, 0.0f), rest);
    }
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

inline void swiglu_grad(
    const float* gate_up, const float* grad_y, float* out, int64_t rows, int64_t width) {
  const int64_t whole = width - width % kLanes;
  const int64_t rest = width - whole;
  for (int64_t row = 0; row < rows;
       ++row, gate_up += 2 * width, grad_y += width, out += 2 * width) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      const SwigluGrad grad =
          swiglu_grad_of(load(gate_up + i), load(gate_up + width + i), load(grad_y + i));
      store(out + i, grad.gate);
      store(out + width + i, grad.up);
    }
    if (rest > 0) {
      const SwigluGrad grad = swiglu_grad_of(load_part(gate_up + whole, rest, 0.0f),
                                             load_part(gate_up + width + whole, rest, 0.0f),
                                             load_part(grad_y + whole, rest, 0.0f));
      store_part(out + whole, grad.gate, rest);
      store_part(out + width + whole, grad.up, rest);
    }
  }
}
