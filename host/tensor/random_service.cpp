// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/random_service.hpp"

#include "host/error/status.hpp"
#include "host/tensor/philox.hpp"

namespace tenon {
namespace {

using Fill = void (*)(uint64_t, uint64_t, uint64_t, std::span<double>) noexcept;

template <Fill kFill>
tenon_status* fill(uint64_t seed, uint64_t stream, uint64_t first, size_t n, double* out) {
  if (out == nullptr && n > 0) {
    return make_status(nullptr, TENON_INVALID, "tensor.bad_argument", "argument 'out' is null");
  }
  kFill(seed, stream, first, {out, n});
  return nullptr;
}

}  // namespace

const tenon_random_api* random_service() noexcept {
  static constexpr tenon_random_api kApi = {
      .struct_size = sizeof(tenon_random_api),
      .bits = random_bits,
      .stream_of = [](const char* name) { return stream_of(name != nullptr ? name : ""); },
      .fill_uniform = fill<fill_uniform>,
      .fill_normal = fill<fill_normal>,
      // Outside the domain there is no element, and no status to report an error: returns i.
      .permute = [](uint64_t seed, uint64_t stream, uint64_t n, uint64_t i) -> uint64_t {
        return i < n ? permute(seed, stream, n, i) : i;
      },
  };
  return &kApi;
}

}  // namespace tenon
