// SPDX-License-Identifier: Apache-2.0
//
// The part of a text file that a dataset uses: two options, fractions of all tokens or samples.
#ifndef TENON_DATASETS_TEXT_PART_HPP
#define TENON_DATASETS_TEXT_PART_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/options.hpp>

#include <cstdint>
#include <string>

struct TextPart {
  double from = 0.0;
  double to = 1.0;

  // Errors  TENON_INVALID if the part is empty
  void check() const {
    TENON_CHECK(from < to, "`from` (", from, ") must be less than `to` (", to, ")");
  }
  // Of `total` units, the part has [first(total), end(total)). Adjacent parts share a boundary.
  int64_t first(int64_t total) const { return share(from, total); }
  int64_t end(int64_t total) const { return share(to, total); }

 private:
  static int64_t share(double part, int64_t total) {
    return static_cast<int64_t>(part * static_cast<double>(total));
  }
};

// Binds `from` and `to`; `unit` is what the fractions are of: "tokens".
template <class O>
void bind_text_part(tenon::OptionBinder<O>& binder, const std::string& unit) {
  const std::string of = " of the part to use, as a fraction of all " + unit;
  binder.field("from", &O::from).min(0).max(1).doc("start" + of);
  binder.field("to", &O::to).min(0).max(1).doc("end" + of);
}

#endif
