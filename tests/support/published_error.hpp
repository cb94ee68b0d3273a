// SPDX-License-Identifier: Apache-2.0
//
// The numbers of an error that another program had. docs/ranks.md lists them.
#pragma once

#include "tests/support/catch.hpp"

namespace tenon {

struct PublishedError {
  double right;
  double ours;
  double error;  // what the error gives
};

// The numbers in the table of the docs, with four digits.
struct ListedNumbers {
  double ours;
  double error;
};

// Checks that ours is the right number, that the error gives another one, and that the docs list
// both.
inline void check_published(const PublishedError& found,
                            const ListedNumbers& listed,
                            double bound = 1e-10) {
  CAPTURE(found.right, found.ours, found.error);
  CHECK(found.ours == Approx(found.right).epsilon(bound));
  CHECK(found.error != Approx(found.right).epsilon(5e-3));
  CHECK(found.ours == Approx(listed.ours).epsilon(1e-3));
  CHECK(found.error == Approx(listed.error).epsilon(1e-3));
}

}  // namespace tenon
