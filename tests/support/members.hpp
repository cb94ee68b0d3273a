// SPDX-License-Identifier: Apache-2.0
//
// How much of a long test runs. `./dev test` takes a few members of each kind; `./dev test
// --release` takes all (docs/dev/release-tests.md). Cases that run only there have the tag
// [.release]. Cases that call members_of() have the tag [members], and run in both.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tenon {

// Whether a test runs all members of its lists: TENON_TEST_MEMBERS is "all".
bool runs_all_members();

// The members that this run of a test takes: all of them, or at most `few`. Those are spread evenly
// over the list, the first one included, in the same order.
template <class T>
std::vector<T> members_of(std::vector<T> all, std::size_t few) {
  if (runs_all_members() || all.size() <= few) {
    return all;
  }
  std::vector<T> taken;
  for (std::size_t i = 0; i < few; ++i) {
    taken.push_back(std::move(all[i * all.size() / few]));
  }
  return taken;
}

}  // namespace tenon
