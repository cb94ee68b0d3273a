// SPDX-License-Identifier: Apache-2.0
//
// Updates one element of a row, and reads and rounds narrow values. On CUDA, one thread runs this.
// On a CPU, row_kernels.hpp does the same with vectors; tests compare the two. Included inside a
// namespace, with ROW_INLINE defined, after row_formulas.hpp if elements are updated; so it has no
// include guard.

ROW_INLINE char* row_address(const RowsCall& call, int64_t row) {
  const auto r = static_cast<uint64_t>(row);
  const uint64_t in_block = r & ((uint64_t{1} << call.shift) - 1);
  return static_cast<char*>(call.blocks[r >> call.shift]) + in_block * call.stride;
}

ROW_INLINE uint32_t word_of(float x) {
  union {
    float number;
    uint32_t word;
  } both;
  both.number = x;
  return both.word;
}
ROW_INLINE float number_of(uint32_t word) {
  union {
    uint32_t word;
    float number;
  } both;
  both.word = word;
  return both.number;
}

ROW_INLINE float bf16_to_float(uint16_t bits) {
  return number_of(static_cast<uint32_t>(bits) << 16);
}
ROW_INLINE uint16_t float_to_bf16(float x) {
  const uint32_t word = word_of(x);
  return static_cast<uint16_t>(x != x ? word >> 16 | 0x40u
                                      : (word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
}
ROW_INLINE float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  // Read as fp32, the bit pattern is 2^-112 of the number, subnormals included.
  return number_of(sign | (magnitude >= 0x7C00u
                               ? 0x7F800000u | (magnitude & 0x3FFu) << 13
                               : word_of(number_of(magnitude << 13) * 5.192296858534828e33f)));
}
ROW_INLINE uint16_t float_to_f16(float x) {
  const uint32_t sign = word_of(x) >> 31 << 15;
  const uint32_t word = word_of(x) & 0x7FFFFFFFu;
  // Below 2^-14, adding 0.5 rounds to a multiple of 2^-24; 65520 is halfway to 2^16.
  const uint32_t magnitude = word > 0x7F800000u    ? 0x7E00u
                             : word >= 0x477FF000u ? 0x7C00u
                             : word < 0x38800000u
                                 ? word_of(number_of(word) + 0.5f) - 0x3F000000u
                                 : ((word + 0xFFFu + (word >> 13 & 1u)) - 0x38000000u) >> 13;
  return static_cast<uint16_t>(sign | magnitude);
}

// tenon_cut_bf16 and tenon_cut_f16 of draft/sparse_optimizer.h.
ROW_INLINE uint16_t cut_to_bf16(float x, uint32_t random_bits) {
  const uint32_t word = word_of(x);
  return static_cast<uint16_t>(x != x ? word >> 16 | 0x40u
                                      : (word + (random_bits & 0xFFFFu)) >> 16);
}
ROW_INLINE uint16_t cut_to_f16(float x, uint32_t random_bits) {
  const uint32_t sign = word_of(x) >> 31 << 15;
  const uint32_t word = word_of(x) & 0x7FFFFFFFu;
  if (word < 0x38800000u) {  // below 2^-14: in units of 2^-56
    const auto units = static_cast<uint64_t>(number_of(word) * 72057594037927936.0f);
    return static_cast<uint16_t>(sign | static_cast<uint32_t>((units + random_bits) >> 32));
  }
  const uint32_t moved = word + (random_bits & 0x1FFFu);
  const uint32_t magnitude = word > 0x7F800000u     ? 0x7E00u
                             : moved >= 0x47800000u ? 0x7C00u
                                                    : (moved - 0x38000000u) >> 13;
  return static_cast<uint16_t>(sign | magnitude);
}

// The lowest 32 bits of number `index` of stream `id`, as in tenon.random/1.
// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Philox-4x32-10.
ROW_INLINE uint32_t random_word(uint64_t seed, uint64_t id, uint64_t index) {
  uint32_t x0 = static_cast<uint32_t>(index / 2);
  uint32_t x1 = static_cast<uint32_t>(index / 2 >> 32);
  uint32_t x2 = static_cast<uint32_t>(id);
  uint32_t x3 = static_cast<uint32_t>(id >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x0;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x2;
    x0 = static_cast<uint32_t>(product1 >> 32) ^ x1 ^ key0;
    x1 = static_cast<uint32_t>(product1);
    x2 = static_cast<uint32_t>(product0 >> 32) ^ x3 ^ key1;
    x3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return index % 2 == 0 ? x0 : x2;
}

ROW_INLINE float read_element(const RowsCall& call, const char* row, uint32_t j) {
  if (call.value == RowValue::kF32) {
    return reinterpret_cast<const float*>(row + call.value_offset)[j];
  }
  if (call.master_offset >= 0) {
    return reinterpret_cast<const float*>(row + call.master_offset)[j];
  }
  const uint16_t bits = reinterpret_cast<const uint16_t*>(row + call.value_offset)[j];
  return call.value == RowValue::kBf16 ? bf16_to_float(bits) : f16_to_float(bits);
}

ROW_INLINE void write_element(const RowsCall& call, char* row, int64_t id, uint32_t j, float x) {
  if (call.value == RowValue::kF32) {
    reinterpret_cast<float*>(row + call.value_offset)[j] = x;
    return;
  }
  const bool is_bf16 = call.value == RowValue::kBf16;
  uint16_t bits = 0;
  if (call.master_offset >= 0) {
    reinterpret_cast<float*>(row + call.master_offset)[j] = x;
    bits = is_bf16 ? float_to_bf16(x) : float_to_f16(x);
  } else {
    const uint64_t index = static_cast<uint64_t>(*call.step) * call.dim + j;
    const uint32_t random_bits = random_word(call.seed, static_cast<uint64_t>(id), index);
    bits = is_bf16 ? cut_to_bf16(x, random_bits) : cut_to_f16(x, random_bits);
  }
  reinterpret_cast<uint16_t*>(row + call.value_offset)[j] = bits;
}

// Gradient of element j of row i: sum or mean, plus weight decay.
template <class Formula>
ROW_INLINE float element_grad(
    const RowsCall& call, const Formula& formula, size_t i, uint32_t j, float value) {
  const float factor =
      call.counts_R == nullptr ? 1.0f : 1.0f / static_cast<float>(call.counts_R[i]);
  return formula.whole_grad(value, call.grads_RD[i * call.dim + j] * factor);
}

template <class Formula>
ROW_INLINE float element_square(const RowsCall& call,
                                const Formula& formula,
                                size_t i,
                                uint32_t j) {
  const char* const row = row_address(call, call.rows_R[i]);
  const float grad = element_grad(call, formula, i, j, read_element(call, row, j));
  return grad * grad;
}

template <class Formula>
ROW_INLINE void update_element(
    const RowsCall& call, const Formula& formula, size_t i, uint32_t j, float scale) {
  char* const row = row_address(call, call.rows_R[i]);
  const float value = read_element(call, row, j);
  float slots[kMaxRowSlots];
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    slots[s] = reinterpret_cast<const float*>(row + call.slot_offsets[s])[j];
  }
  const float grad = element_grad(call, formula, i, j, value);
  const float next = formula.next(value, grad, slots, scale);
  for (int s = 0; s < Formula::kNumSlots; ++s) {
    reinterpret_cast<float*>(row + call.slot_offsets[s])[j] = slots[s];
  }
  write_element(call, row, call.ids_R[i], j, next);
}
