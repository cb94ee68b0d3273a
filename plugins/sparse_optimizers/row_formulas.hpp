// SPDX-License-Identifier: Apache-2.0
//
// Formulas of the sparse optimizers, for one element of a row or a vector of elements: F is float
// or Floats. Included inside a namespace that has `root_of(F)`, `scalar_root_of`, `double_root_of`
// and `power_of`, with ROW_INLINE defined: once per instruction set (row_kernels.hpp) and once for
// scalars (row_elements.hpp), as CUDA uses. So it has no include guard.
//
// A formula is constructed in fp64 from settings, learning rate and step, once per update. Members:
//     Settings         constructor argument, next to learning rate and step
//     kNumSlots        state slots with one number per element
//     kHasRowSlot      whether a state slot has one number per row, updated before the elements
//     whole_grad()     the gradient plus weight decay
//     next_scale()     with a row slot: advances it by the mean square of the gradients,
//                      and returns the factor of the row
//     next()           the new value; advances the slots

// L2 weight decay, added to the gradient.
struct L2Decay {
  float decay;

  ROW_INLINE explicit L2Decay(double weight_decay) : decay(static_cast<float>(weight_decay)) {}

  template <class F>
  ROW_INLINE F whole_grad(F value, F grad) const {
    return grad + value * decay;
  }
};

// Gradient descent. Source: Robbins and Monro, A Stochastic Approximation Method (1951).
struct SgdFormula : L2Decay {
  using Settings = SgdSettings;
  static constexpr int kNumSlots = 0;
  static constexpr bool kHasRowSlot = false;
  float rate;

  ROW_INLINE SgdFormula(const SgdSettings& settings, double lr, int64_t)
      : L2Decay(settings.weight_decay), rate(static_cast<float>(lr)) {}

  template <class F>
  ROW_INLINE F next(F value, F grad, F*, float) const {
    return value - grad * rate;
  }
};

// The same with momentum. Source: Sutskever, Martens, Dahl, Hinton, On the Importance of
// Initialization and Momentum in Deep Learning (ICML 2013), in the form that PyTorch documents.
struct MomentumFormula : L2Decay {
  using Settings = SgdSettings;
  static constexpr int kNumSlots = 1;
  static constexpr bool kHasRowSlot = false;
  float rate;
  float kept;
  float ahead;  // weight of the next momentum (Nesterov)

  ROW_INLINE MomentumFormula(const SgdSettings& settings, double lr, int64_t)
      : L2Decay(settings.weight_decay),
        rate(static_cast<float>(lr)),
        kept(static_cast<float>(settings.momentum)),
        ahead(settings.nesterov ? 1.0f : 0.0f) {}

  template <class F>
  ROW_INLINE F next(F value, F grad, F* slots, float) const {
    slots[0] = slots[0] * kept + grad;
    const F direction = ahead != 0.0f ? grad + slots[0] * kept : slots[0];
    return value - direction * rate;
  }
};

// Learning rate of both Adagrads, which decays with the table's updates.
struct AdagradRate : L2Decay {
  using Settings = AdagradSettings;
  float rate;
  float eps;

  ROW_INLINE AdagradRate(const AdagradSettings& settings, double lr, int64_t step)
      : L2Decay(settings.weight_decay),
        rate(static_cast<float>(lr / (1.0 + static_cast<double>(step - 1) * settings.lr_decay))),
        eps(static_cast<float>(settings.eps)) {}
};

// Source: Duchi, Hazan, Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
// Optimization (JMLR 2011), in the form that PyTorch documents for its Adagrad.
struct AdagradFormula : AdagradRate {
  static constexpr int kNumSlots = 1;
  static constexpr bool kHasRowSlot = false;

  ROW_INLINE AdagradFormula(const AdagradSettings& settings, double lr, int64_t step)
      : AdagradRate(settings, lr, step) {}

  template <class F>
  ROW_INLINE F next(F value, F grad, F* slots, float) const {
    slots[0] = slots[0] + grad * grad;
    return value - grad * rate / (root_of(slots[0]) + eps);
  }
};

// One sum per row: of mean squared gradients over its elements. Source: Mudigere et al.,
// Software-Hardware Co-design for Fast and Scalable Training of Deep Learning Recommendation Models
// (ISCA 2022), section 4.1.4; after Gupta, Bengio, Weston, Training Highly Multiclass Classifiers
// (JMLR 2014).
struct RowwiseAdagradFormula : AdagradRate {
  static constexpr int kNumSlots = 0;
  static constexpr bool kHasRowSlot = true;

  ROW_INLINE RowwiseAdagradFormula(const AdagradSettings& settings, double lr, int64_t step)
      : AdagradRate(settings, lr, step) {}

  ROW_INLINE float next_scale(float mean_square, float* sum) const {
    *sum += mean_square;
    return rate / (scalar_root_of(*sum) + eps);
  }
  template <class F>
  ROW_INLINE F next(F value, F grad, F*, float scale) const {
    return value - grad * scale;
  }
};

// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization (ICLR 2015), algorithm 1 in the
// order of section 2's end, where eps is added to the root of the uncorrected mean square; with
// `correct_eps`, as in the algorithm itself. The decoupled decay: Loshchilov and Hutter, Decoupled
// Weight Decay Regularization (ICLR 2019), algorithm 2.
struct AdamFormula : L2Decay {
  using Settings = AdamSettings;
  static constexpr int kNumSlots = 2;
  static constexpr bool kHasRowSlot = false;
  float step_size;
  float share;  // fraction of the value to remove; more precise than the fraction to keep
  float beta1_rest;
  float beta2_rest;
  float eps;

  ROW_INLINE AdamFormula(const AdamSettings& settings, double lr, int64_t step)
      : L2Decay(settings.weight_decay),
        share(static_cast<float>(settings.decoupled_decay * (settings.decay_by_rate ? lr : 1.0))),
        beta1_rest(static_cast<float>(1.0 - settings.beta1)),
        beta2_rest(static_cast<float>(1.0 - settings.beta2)) {
    const double correction1 = 1.0 - power_of(settings.beta1, step);
    const double correction2 = double_root_of(1.0 - power_of(settings.beta2, step));
    step_size = static_cast<float>(lr * correction2 / correction1);
    eps = static_cast<float>(settings.correct_eps ? settings.eps * correction2 : settings.eps);
  }

  template <class F>
  ROW_INLINE F next(F value, F grad, F* slots, float) const {
    slots[0] = slots[0] + (grad - slots[0]) * beta1_rest;
    slots[1] = slots[1] + (grad * grad - slots[1]) * beta2_rest;
    return value - (value * share + slots[0] * step_size / (root_of(slots[1]) + eps));
  }
};

// FTRL-Proximal. A learning rate of 0 changes nothing. Source: McMahan et al., Ad Click Prediction:
// a View from the Trenches (KDD 2013), algorithm 1; alpha is the learning rate.
struct FtrlFormula {
  using Settings = FtrlSettings;
  static constexpr int kNumSlots = 2;  // z, n
  static constexpr bool kHasRowSlot = false;
  float l1;
  float l2;
  float beta;
  float inverse_rate;
  bool is_still;

  ROW_INLINE FtrlFormula(const FtrlSettings& settings, double lr, int64_t)
      : l1(static_cast<float>(settings.l1)),
        l2(static_cast<float>(settings.l2)),
        beta(static_cast<float>(settings.beta)),
        inverse_rate(lr == 0.0 ? 0.0f : static_cast<float>(1.0 / lr)),
        is_still(lr == 0.0) {}

  template <class F>
  ROW_INLINE F whole_grad(F, F grad) const {
    return grad;
  }
  template <class F>
  ROW_INLINE F next(F value, F grad, F* slots, float) const {
    if (is_still) {
      return value;
    }
    const F zero{};
    const F square = grad * grad;
    const F root_before = root_of(slots[1]);
    slots[1] = slots[1] + square;
    const F root = root_of(slots[1]);
    // Difference of the roots, computed without cancellation.
    const F roots = root + root_before;
    const F rise = roots > zero ? square / roots : square;
    slots[0] = slots[0] + grad - rise * inverse_rate * value;
    const F z = slots[0];
    const F size = z < zero ? -z : z;
    const F pull = z < zero ? zero - l1 : zero + l1;
    const F moved = (pull - z) / ((root + beta) * inverse_rate + l2);
    return size <= zero + l1 ? zero : moved;
  }
};

// Source: Chen et al., Symbolic Discovery of Optimization Algorithms (NeurIPS 2023), algorithm 2.
struct LionFormula {
  using Settings = LionSettings;
  static constexpr int kNumSlots = 1;
  static constexpr bool kHasRowSlot = false;
  float rate;
  float share;
  float beta1_rest;
  float beta2_rest;

  ROW_INLINE LionFormula(const LionSettings& settings, double lr, int64_t)
      : rate(static_cast<float>(lr)),
        share(static_cast<float>(lr * settings.weight_decay)),
        beta1_rest(static_cast<float>(1.0 - settings.beta1)),
        beta2_rest(static_cast<float>(1.0 - settings.beta2)) {}

  template <class F>
  ROW_INLINE F whole_grad(F, F grad) const {
    return grad;
  }
  template <class F>
  ROW_INLINE F next(F value, F grad, F* slots, float) const {
    const F zero{};
    const F one = zero + 1.0f;
    const F mixed = slots[0] + (grad - slots[0]) * beta1_rest;
    slots[0] = slots[0] + (grad - slots[0]) * beta2_rest;
    const F not_up = mixed < zero ? -one : mixed;  // 0 and NaN stay unchanged
    const F sign = mixed > zero ? one : not_up;
    return value - (value * share + sign * rate);
  }
};
