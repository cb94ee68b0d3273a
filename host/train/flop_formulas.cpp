// SPDX-License-Identifier: Apache-2.0
#include "host/train/flop_formulas.hpp"

namespace tenon {

const std::array<FlopFormula, 3>& flop_formulas() {
  static const std::array<FlopFormula, 3> formulas = {
      {{"palm",
        [](const ModelSize& m) { return 6 * m.parameters; },
        [](const ModelSize& m) { return 12 * m.heads; }},
       {"titan",
        [](const ModelSize& m) { return 6 * (m.parameters - m.embedding); },
        [](const ModelSize& m) { return 12 * m.heads; }},
       {"modalities",
        [](const ModelSize& m) { return 6 * m.trainable; },
        [](const ModelSize& m) { return 12 * m.hidden; }}}};
  return formulas;
}

}  // namespace tenon
