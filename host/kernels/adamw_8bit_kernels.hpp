// SPDX-License-Identifier: Apache-2.0
//
// Implements adamw_8bit_blocks.hpp for one instruction set; included only by each_machine.hpp.

using Codes8 __attribute__((vector_size(SIMD_LANES), aligned(1), may_alias)) = uint8_t;

// gcc 12 converts between bytes and integers lane by lane.
SIMD_INLINE Ints load_codes(const uint8_t* from) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  return reinterpret_cast<Ints>(_mm512_maskz_cvtepu8_epi32(
      kAllLanes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif TENON_SIMD_X86 && SIMD_LANES == 8
  return reinterpret_cast<Ints>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  return __builtin_convertvector(*reinterpret_cast<const Codes8*>(from), Ints);
#endif
}
SIMD_INLINE void store_codes(uint8_t* to, Ints codes) {
#if TENON_SIMD_X86 && SIMD_LANES == 8
  const __m256i wide = reinterpret_cast<__m256i>(codes);
  const __m128i halves =
      _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(halves, halves));
#else
  *reinterpret_cast<Codes8*>(to) = __builtin_convertvector(codes, Codes8);
#endif
}

SIMD_INLINE Ints load_ints(const int32_t* from) {
  return *reinterpret_cast<const Ints*>(from);
}

SIMD_INLINE Floats as_floats(Ints x) {
  return __builtin_convertvector(x, Floats);
}

// table[index % 16], lane by lane.
SIMD_INLINE Floats looked_up(const float* table, Ints index) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  return __builtin_shuffle(load(table), index);
#elif TENON_SIMD_X86 && SIMD_LANES == 8
  return __builtin_shuffle(load(table), load(table + 8), index);
#else
  Floats x = {};
  for (int64_t i = 0; i < kLanes; ++i) {
    x[i] = table[index[i] & 15];
  }
  return x;
#endif
}

SIMD_INLINE Ints exponent_of(Floats x) {
  return reinterpret_cast<Ints>(reinterpret_cast<Words>(x) >> 23);
}

// The number of starts that x, in [0, 1], reaches.
SIMD_INLINE Ints entry_of(const DynamicMap& map, Floats x) {
#if TENON_SIMD_X86 && SIMD_LANES == 16
  // At most one start lies in an octave.
  const Ints exponent = exponent_of(x);
  const Ints is_tiny = exponent < 96;
  const Ints octave = (is_tiny ? Ints{} + 96 : exponent);
  const Floats start =
      __builtin_shuffle(load(map.octave_start), load(map.octave_start + 16), octave);
  const Ints below =
      __builtin_shuffle(load_ints(map.octave_entry), load_ints(map.octave_entry + 16), octave);
  return below - (x >= start);  // a lane of a true comparison is -1
#else
  Ints entry = {};
  for (int i = 0; i < 8; ++i) {
    entry -= x >= map.starts[i];
  }
  return entry;
#endif
}

SIMD_INLINE Ints magnitude_of(const DynamicMap& map, Floats x) {
  const Ints entry = entry_of(map, x);
  const Floats f = x * looked_up(map.inverse, entry) + looked_up(map.shift, entry);
  const Floats most = looked_up(map.most, entry);
  return __builtin_convertvector(f < most ? f : most, Ints);
}

SIMD_INLINE Floats without_sign(Floats x) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7FFFFFFF);
}

// A map's values times the scale of a block.
struct ScaledMap {
  alignas(64) float scale[16];
  alignas(64) float offset[16];
};

SIMD_INLINE void scale_map(const DynamicMap& map, float by, ScaledMap& to) {
  for (int64_t i = 0; i < 16; i += kLanes) {
    store(to.scale + i, load(map.scale + i) * by);
    store(to.offset + i, load(map.offset + i) * by);
  }
}

// `number` is 2 f + 1 with signs, f + 1 without.
SIMD_INLINE Floats value_of(const ScaledMap& map, Ints number) {
  const Floats x = as_floats(number);
  const Ints octave = exponent_of(x);
  return x * looked_up(map.scale, octave) + looked_up(map.offset, octave);
}

SIMD_INLINE Floats read_signed(const ScaledMap& map, const uint8_t* codes) {
  const Ints code = load_codes(codes) - 127;
  const Ints is_negative = code < 0;
  const Ints size = is_negative ? -code : code;
  const Floats value = value_of(map, size + size + 1);
  return is_negative ? -value : value;
}

SIMD_INLINE void write_signed(const DynamicMap& map, Floats x, uint8_t* codes) {
  const Ints f = magnitude_of(map, without_sign(x));
  const Ints is_negative = x < 0.0f;
  const Ints is_top = f > 127;
  const Ints below = is_top ? Ints{} : 127 - f;  // -1 has no code
  store_codes(codes, is_negative ? below : f + 127);
}

SIMD_INLINE Floats read_unsigned(const ScaledMap& map, const uint8_t* codes) {
  return value_of(map, load_codes(codes) + 1);
}

SIMD_INLINE void write_unsigned(const DynamicMap& map, Floats x, uint8_t* codes) {
  store_codes(codes, magnitude_of(map, x));
}

// Old state of a vector of elements in, new state out; updates the parameters.
template <class T>
SIMD_INLINE void step_lanes(
    T* parameter, const T* grad, Floats& mean, Floats& square, const Adam8Numbers& numbers) {
  const Floats g = load(grad);
  mean = mean + (g - mean) * numbers.mean_share;
  square = square + (g * g - square) * numbers.square_share;
  const Floats direction = mean / (root_of(square) * numbers.root + numbers.eps);
  store(parameter, load(parameter) * numbers.keep - direction * numbers.rate);
}

inline float scale_for(float largest) {
  return largest > kSmallestScale ? largest : kSmallestScale;
}

// Rounds the state of one block to codes.
inline void write_block(uint8_t* mean_codes,
                        float mean_scale,
                        uint8_t* square_codes,
                        float square_scale,
                        int64_t n,
                        const DynamicMap& signed_map,
                        const DynamicMap& unsigned_map,
                        const float* means,
                        const float* squares) {
  const int64_t whole = n - n % kLanes;
  const float mean_factor = 1.0f / mean_scale;
  const float square_factor = 1.0f / square_scale;
  for (int64_t i = 0; i < whole; i += kLanes) {
    write_signed(signed_map, load(means + i) * mean_factor, mean_codes + i);
    write_unsigned(unsigned_map, load(squares + i) * square_factor, square_codes + i);
  }
  if (whole < n) {
    uint8_t part_means[kLanes];
    uint8_t part_squares[kLanes];
    write_signed(signed_map, load(means + whole) * mean_factor, part_means);
    write_unsigned(unsigned_map, load(squares + whole) * square_factor, part_squares);
    for (int64_t i = whole; i < n; ++i) {
      mean_codes[i] = part_means[i - whole];
      square_codes[i] = part_squares[i - whole];
    }
  }
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
  ScaledMap old_means;
  ScaledMap old_squares;
  scale_map(signed_map, *mean_scale, old_means);
  scale_map(unsigned_map, *square_scale, old_squares);
  Floats largest_mean = {};
  Floats largest_square = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    Floats mean = read_signed(old_means, mean_codes + i);
    Floats square = read_unsigned(old_squares, square_codes + i);
    step_lanes(parameter + i, grad + i, mean, square, numbers);
    store(means + i, mean);
    store(squares + i, square);
    largest_mean = larger(without_sign(mean), largest_mean);
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
    Floats mean = read_signed(old_means, part_means);
    Floats square = read_unsigned(old_squares, part_squares);
    step_lanes(part_parameter, part_grad, mean, square, numbers);
    for (int64_t i = 0; i < rest; ++i) {
      parameter[whole + i] = part_parameter[i];
    }
    store(means + whole, mean);
    store(squares + whole, square);
    largest_mean = larger(without_sign(mean), largest_mean);
    largest_square = larger(square, largest_square);
  }
  *mean_scale = scale_for(largest_of(largest_mean));
  *square_scale = scale_for(largest_of(largest_square));
  write_block(mean_codes,
              *mean_scale,
              square_codes,
              *square_scale,
              n,
              signed_map,
              unsigned_map,
              means,
              squares);
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
