// SPDX-License-Identifier: Apache-2.0
//
// Implements adamw_8bit_blocks.hpp for one instruction set; included only by each_machine.hpp.

using Codes8 __attribute__((vector_size(SIMD_LANES), aligned(1), may_alias)) = uint8_t;

SIMD_INLINE Floats as_floats(Ints x) {
  return __builtin_convertvector(x, Floats);
}

// table[index], lane by lane, for indices in [0, 16).
SIMD_INLINE Floats looked_up(const float* table, Ints index) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  return __builtin_shuffle(load(table), index);
#elif TENON_SIMD_X86 && SIMD_LANES == 8
  return __builtin_shuffle(load(table), load(table + 8), index);
#else
  Floats x = {};
  for (int64_t i = 0; i < kLanes; ++i) {
    x[i] = table[index[i]];
  }
  return x;
#endif
}

// The entry of a magnitude: 1 + floor(log2(f)), and 0 for 0.
SIMD_INLINE Floats value_of(const DynamicMap& map, Floats magnitude) {
  const Ints octave = (reinterpret_cast<Ints>(magnitude) >> 23) - 126;
  const Ints is_zero = octave < 0;
  const Ints entry = is_zero ? Ints{} : octave;
  return magnitude * looked_up(map.scale, entry) + looked_up(map.offset, entry);
}

SIMD_INLINE Ints magnitude_of(const DynamicMap& map, Floats x) {
  Ints entry = {};
  for (int i = 0; i < 8; ++i) {
    entry -= x >= map.starts[i];  // a lane of a true comparison is -1
  }
  const Floats f = x * looked_up(map.inverse, entry) + looked_up(map.shift, entry);
  const Floats most = looked_up(map.most, entry);
  return __builtin_convertvector(f < most ? f : most, Ints);
}

SIMD_INLINE Floats magnitude_bits(Floats x) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7FFFFFFF);
}

SIMD_INLINE Floats read_signed(const DynamicMap& map, const uint8_t* codes) {
  const Ints code = __builtin_convertvector(*reinterpret_cast<const Codes8*>(codes), Ints) - 127;
  const Floats f = as_floats(code);
  const Floats value = value_of(map, magnitude_bits(f));
  const Ints sign = reinterpret_cast<Ints>(f) & static_cast<int32_t>(0x80000000);
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) | sign);
}

SIMD_INLINE void write_signed(const DynamicMap& map, Floats x, uint8_t* codes) {
  const Ints f = magnitude_of(map, magnitude_bits(x));
  const Ints is_negative = x < 0.0f;
  const Ints is_top = f > 127;
  const Ints below = 127 - (is_top ? Ints{} + 127 : f);  // -1 has no code
  const Ints code = is_negative ? below : f + 127;
  *reinterpret_cast<Codes8*>(codes) = __builtin_convertvector(code, Codes8);
}

SIMD_INLINE Floats read_unsigned(const DynamicMap& map, const uint8_t* codes) {
  const Ints code = __builtin_convertvector(*reinterpret_cast<const Codes8*>(codes), Ints) + 1;
  return value_of(map, as_floats(code));
}

SIMD_INLINE void write_unsigned(const DynamicMap& map, Floats x, uint8_t* codes) {
  const Ints code = magnitude_of(map, x) - 1;
  *reinterpret_cast<Codes8*>(codes) = __builtin_convertvector(code, Codes8);
}

// Old state of a vector of elements in, new state out; updates the parameters.
template <class T>
SIMD_INLINE void step_lanes(T* parameter,
                            const T* grad,
                            Floats& mean,
                            Floats& square,
                            const Adam8Numbers& numbers) {
  const Floats g = load(grad);
  mean = mean + (g - mean) * numbers.mean_share;
  square = square + (g * g - square) * numbers.square_share;
  const Floats direction = mean / (root_of(square) * numbers.root + numbers.eps);
  store(parameter, load(parameter) * numbers.keep - direction * numbers.rate);
}

// Updates one block of at most kMostInBlock elements; means and squares are scratch.
template <class T>
inline void step_block(T* parameter,
                       const T* grad,
                       uint8_t* mean_codes,
                       float* mean_scale,
                       uint8_t* square_codes,
                       float* square_scale,
                       int64_t n,
                       const Adam8Numbers& numbers,
                       const DynamicMap& signed_map,
                       const DynamicMap& unsigned_map,
                       float* means,
                       float* squares) {
  const int64_t whole = n - n % kLanes;
  const float old_mean_scale = *mean_scale;
  const float old_square_scale = *square_scale;
  Floats largest_mean = {};
  Floats largest_square = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    Floats mean = read_signed(signed_map, mean_codes + i) * old_mean_scale;
    Floats square = read_unsigned(unsigned_map, square_codes + i) * old_square_scale;
    step_lanes(parameter + i, grad + i, mean, square, numbers);
    store(means + i, mean);
    store(squares + i, square);
    largest_mean = larger(magnitude_bits(mean), largest_mean);
    largest_square = larger(square, largest_square);
  }
  const int64_t rest = n - whole;
  if (rest > 0) {  // the last lanes hold zeros, which an update leaves zero
    T part_parameter[kLanes] = {};
    T part_grad[kLanes] = {};
    uint8_t part_means[kLanes] = {};
    uint8_t part_squares[kLanes] = {};
    for (int64_t i = 0; i < kLanes; ++i) {
      part_means[i] = i < rest ? mean_codes[whole + i] : 127;
      part_squares[i] = i < rest ? square_codes[whole + i] : 0;
      if (i < rest) {
        part_parameter[i] = parameter[whole + i];
        part_grad[i] = grad[whole + i];
      }
    }
    Floats mean = read_signed(signed_map, part_means) * old_mean_scale;
    Floats square = read_unsigned(unsigned_map, part_squares) * old_square_scale;
    step_lanes(part_parameter, part_grad, mean, square, numbers);
    for (int64_t i = 0; i < rest; ++i) {
      parameter[whole + i] = part_parameter[i];
    }
    store(means + whole, mean);
    store(squares + whole, square);
    largest_mean = larger(magnitude_bits(mean), largest_mean);
    largest_square = larger(square, largest_square);
  }
  const float top_mean = largest_of(largest_mean);
  const float top_square = largest_of(largest_square);
  *mean_scale = top_mean > kSmallestScale ? top_mean : kSmallestScale;
  *square_scale = top_square > kSmallestScale ? top_square : kSmallestScale;
  const float mean_factor = 1.0f / *mean_scale;
  const float square_factor = 1.0f / *square_scale;
  for (int64_t i = 0; i < whole; i += kLanes) {
    write_signed(signed_map, load(means + i) * mean_factor, mean_codes + i);
    write_unsigned(unsigned_map, load(squares + i) * square_factor, square_codes + i);
  }
  if (rest > 0) {
    uint8_t part_means[kLanes];
    uint8_t part_squares[kLanes];
    write_signed(signed_map, load(means + whole) * mean_factor, part_means);
    write_unsigned(unsigned_map, load(squares + whole) * square_factor, part_squares);
    for (int64_t i = 0; i < rest; ++i) {
      mean_codes[whole + i] = part_means[i];
      square_codes[whole + i] = part_squares[i];
    }
  }
}

template <class T>
inline void step_blocks(const Adam8Piece& piece,
                        const Adam8Numbers& numbers,
                        int64_t first,
                        int64_t last,
                        const DynamicMap& signed_map,
                        const DynamicMap& unsigned_map) {
  float means[kMostInBlock + kLanes];
  float squares[kMostInBlock + kLanes];
  for (int64_t b = first; b < last; ++b) {
    const int64_t begin = b * piece.block;
    const int64_t n = piece.n - begin < piece.block ? piece.n - begin : piece.block;
    step_block(static_cast<T*>(piece.parameter) + begin,
               static_cast<const T*>(piece.grad) + begin,
               piece.mean_codes + begin,
               piece.mean_scales + b,
               piece.square_codes + begin,
               piece.square_scales + b,
               n,
               numbers,
               signed_map,
               unsigned_map,
               means,
               squares);
  }
}

inline void adam8_blocks(const Adam8Piece& piece,
                         const Adam8Numbers& numbers,
                         int64_t first,
                         int64_t last,
                         const DynamicMap& signed_map,
                         const DynamicMap& unsigned_map) {
  if (piece.is_narrow) {
    step_blocks<Bf16>(piece, numbers, first, last, signed_map, unsigned_map);
  } else {
    step_blocks<float>(piece, numbers, first, last, signed_map, unsigned_map);
  }
}
