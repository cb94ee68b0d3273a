// SPDX-License-Identifier: Apache-2.0
//
// The two passes of a softmax cross entropy over one row of n logits: statistics, then the
// gradient. T is float or Bf16. Included inside the namespaces of each_machine.hpp, after
// softmax_rows.hpp.

template <class T>
SoftmaxStats stats_of_row(const T* x, int64_t n) {
  const float lowest = -__builtin_inff();
  const int64_t whole = n - n % kLanes;
  Floats largest = splat(lowest);
  int64_t i = 0;
  for (; i < whole; i += kLanes) {
    largest = larger(load(x + i), largest);
  }
  if (i < n) {
    largest = larger(load_part(x + i, n - i, lowest), largest);
  }
  const float m = largest_of(largest);
  const float shift = m == lowest ? 0.0f : m;  // -inf minus -inf is not a number
  Floats sums[4] = {};
  for (i = 0; i + 4 * kLanes <= whole; i += 4 * kLanes) {
    for (int64_t k = 0; k < 4; ++k) {
      sums[k] += exp_of(load(x + i + k * kLanes) - shift);
    }
  }
  for (; i < whole; i += kLanes) {
    sums[0] += exp_of(load(x + i) - shift);
  }
  if (i < n) {
    sums[1] += exp_of(load_part(x + i, n - i, lowest) - shift);
  }
  return {m, sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]))};
}

template <class T>
double sum_of_row(const T* x, int64_t n) {
  const int64_t whole = n - n % kLanes;
  double sum = 0;
  for (int64_t i = 0; i < whole; i += kLanes) {
    sum += sum_of(load(x + i));
  }
  return whole < n ? sum + sum_of(load_part(x + whole, n - whole, 0.0f)) : sum;
}

// `gradient` may be x. A label that is not in [0, n) is in another part of the row.
template <class T>
void gradient_of_row(const T* x, int64_t n, int64_t label, const SoftmaxSlopes& s, T* gradient) {
  const auto m = static_cast<float>(s.largest);
  const auto slope = static_cast<float>(s.slope);
  const auto spread = static_cast<float>(s.spread);
  // The label's vector is computed apart, so that its element is rounded to T once.
  const bool has_label = label >= 0 && label < n;
  const int64_t first = has_label ? label - label % kLanes : 0;
  const int64_t num = n - first < kLanes ? n - first : kLanes;
  Floats lanes = exp_of(load_part(x + first, num, m) - m) * slope - spread;
  if (has_label) {
    lanes[label % kLanes] -= static_cast<float>(s.at_label);
  }
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    store(gradient + i, exp_of(load(x + i) - m) * slope - spread);
  }
  if (whole < n) {
    const Floats last = load_part(x + whole, n - whole, m);
    store_part(gradient + whole, exp_of(last - m) * slope - spread, n - whole);
  }
  if (has_label) {
    store_part(gradient + first, lanes, num);
  }
}
