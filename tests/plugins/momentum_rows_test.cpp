// SPDX-License-Identifier: Apache-2.0
//
// The example of docs/plugin-guide/sparse-optimizer.md, and with it the wrapper that it is written
// with.
#include "host/tensor/philox.hpp"

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/row_rig.hpp"

namespace {

using tenon::RowRig;

tenon::SparseOptimizerProxy make_momentum_rows(const char* options = "{}") {
  return tenon::SparseOptimizerProxy(
      tenon::make_component("sparse_optimizer", "momentum_rows", options));
}

// By libtorch.
float to_bf16_and_back(float x) {
  return static_cast<float>(c10::BFloat16(x));
}

}  // namespace

TEST_CASE("the sparse optimizer of the guide follows its formula, on touched rows alone",
          "[plugins]") {
  const auto optimizer = make_momentum_rows(R"({"momentum": 0.5})");
  CHECK(optimizer.info().runs_on_cpu);
  RowRig rig(optimizer, {});
  rig.set_value(3, {1, 2, 3, 4});
  const auto without_grad = rig.row_bytes(2);
  rig.update({{3, {1, 0, -1, 2}}}, 0.25);
  rig.update({{6, {4, 4, 4, 4}}, {3, {1, 1, 1, 1}}}, 0.5);
  CHECK(rig.value(3) == std::vector<float>{0.0f, 1.5f, 3.0f, 2.5f});
  CHECK(rig.slot(0, 3) == std::vector<float>{1.5f, 1.0f, 0.5f, 2.0f});
  CHECK(rig.value(6) == std::vector<float>{-2, -2, -2, -2});
  CHECK(rig.row_bytes(2) == without_grad);
  const auto before = rig.bytes();
  const float found_inf = 1;
  rig.update({{3, {1, 1, 1, 1}}}, 0.5, &found_inf);
  CHECK(rig.bytes() == before);
}

TEST_CASE("the wrapper rounds narrow values by the documented bits", "[plugins]") {
  const auto optimizer = make_momentum_rows();
  CHECK(optimizer.info().narrow == TENON_NARROW_STOCHASTIC);
  for (const uint32_t dtype : {TENON_BF16, TENON_F16}) {
    RowRig rig(optimizer, {.value_dtype = dtype});
    rig.set_step(6);
    rig.update({{5, {-0.7f, 1e-6f, 3.3f, 1.0f}}}, 1.0);
    for (uint64_t j = 0; j < 4; ++j) {
      const auto bits = static_cast<uint32_t>(
          tenon::random_bits(77, static_cast<uint64_t>(RowRig::id_of(5)), 7 * 4 + j));
      const uint32_t word = std::bit_cast<uint32_t>(-rig.slot(0, 5)[j]);
      CHECK(rig.narrow_bits(5)[j] ==
            (dtype == TENON_BF16 ? tenon_cut_bf16(word, bits) : tenon_cut_f16(word, bits)));
    }
  }
}

TEST_CASE("the wrapper rounds narrow values from their masters to nearest", "[plugins]") {
  const auto optimizer = make_momentum_rows(R"({"keep_master": true})");
  CHECK(optimizer.info().narrow == TENON_NARROW_MASTER);
  RowRig rig(optimizer, {.value_dtype = TENON_BF16});
  for (int i = 0; i < 100; ++i) {
    rig.set_slot(0, 1, {0, 0, 0, 0});
    rig.update({{1, {-0x1p-10f, 0, 0, 0x1p-12f}}}, 1.0);
  }
  CHECK(rig.master(1)[0] == 100 * 0x1p-10f);
  CHECK(rig.value(1)[0] == to_bf16_and_back(100 * 0x1p-10f));
  CHECK(rig.value(1)[3] == to_bf16_and_back(-100 * 0x1p-12f));
}
