// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_group.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {

TEST_CASE("ranks join the parts of a tensor along any axis", "[model]") {
  for (const int64_t positions : {1, 2, 5, 6}) {
    for (const int64_t axis : {0, 1, 2}) {
      std::vector<int64_t> shape = {2, 3, 4};
      shape[static_cast<size_t>(axis)] = positions;
      int64_t size = 1;
      for (const int64_t n : shape) {
        size *= n;
      }
      const at::Tensor whole = at::arange(size, at::kDouble).view(shape);
      std::vector<int> is_right(3);  // by rank: Catch asserts on one thread
      run_ranks({.shard = 1, .context = 3}, 3, [&](RankGroups& ranks) {
        SequenceGroup group(ranks.context(), ContextBy::kHeads);
        Batch batch;
        batch.positions =
            BatchPositions{.range = {}, .whole = positions, .sequences = {}, .position_ids = {}};
        const SequenceParts parts = group.parts_of(batch);
        const at::Tensor part = group.part(whole, axis, parts);
        const at::Tensor joined = group.whole(part, axis, parts, "a test");
        const at::Tensor sum = group.sum(part.sum(), "a test");
        is_right[group.rank()] = joined.equal(whole) &&
                                 sum.item<double>() == whole.sum().item<double>() &&
                                 group.is_first() == (group.rank() == 0);
      });
      CHECK(is_right == std::vector<int>{1, 1, 1});
    }
  }
}

}  // namespace tenon
