// SPDX-License-Identifier: Apache-2.0
//
// The two passes of rows.hpp over one row; included only by each_machine.hpp.

template <class T>
RowStats stats_of_row(const T* x, int64_t n) {
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
  Floats sums[4] = {};
  for (i = 0; i + 4 * kLanes <= whole; i += 4 * kLanes) {
    for (int64_t k = 0; k < 4; ++k) {
      sums[k] += exp_of(load(x + i + k * kLanes) - m);
    }
  }
  for (; i < whole; i += kLanes) {
    sums[0] += exp_of(load(x + i) - m);
  }
  if (i < n) {
    sums[1] += exp_of(load_part(x + i, n - i, lowest) - m);
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

template <class T>
void gradient_of_row(const T* x, int64_t n, int64_t label, const RowSlopes& s, T* gradient) {
  const auto m = static_cast<float>(s.largest);
  const auto slope = static_cast<float>(s.slope);
  const auto spread = static_cast<float>(s.spread);
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    store(gradient + i, exp_of(load(x + i) - m) * slope - spread);
  }
  if (whole < n) {
    const Floats last = load_part(x + whole, n - whole, m);
    store_part(gradient + whole, exp_of(last - m) * slope - spread, n - whole);
  }
  // Recomputes the label's element, so that the result is rounded to T once.
  const int64_t first = label - label % kLanes;
  const int64_t num = n - first < kLanes ? n - first : kLanes;
  Floats lanes = exp_of(load_part(x + first, num, m) - m) * slope - spread;
  lanes[label % kLanes] -= static_cast<float>(s.at_label);
  store_part(gradient + first, lanes, num);
}

inline constexpr RowMath<float> kFloatRows{
    stats_of_row<float>, sum_of_row<float>, gradient_of_row<float>};
inline constexpr RowMath<Bf16> kBf16Rows{
    stats_of_row<Bf16>, sum_of_row<Bf16>, gradient_of_row<Bf16>};
