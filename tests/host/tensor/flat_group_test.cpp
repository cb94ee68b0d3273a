// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/flat_group.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

FlatGroup make_group() {
  return FlatGroup("block",
                   at::kFloat,
                   at::kCPU,
                   {{.id = 0, .partition = 1, .trainable = true, .shape = {3}},
                    {.id = 1, .partition = 0, .trainable = true, .shape = {2, 5}},
                    {.id = 3, .partition = 0, .trainable = true, .shape = {}}});
}

}  // namespace

TEST_CASE("parameters lie by partition on 64-byte boundaries", "[tensor]") {
  const FlatGroup group = make_group();
  std::vector<uint32_t> order;
  for (const FlatEntry& entry : group.entries()) {
    order.push_back(entry.parameter.id);
    CHECK(entry.offset * 4 % 64 == 0);
  }
  CHECK(order == std::vector<uint32_t>{1, 3, 0});
  CHECK(group.data().numel() == 48);
  CHECK(group.grad().numel() == 48);
  const auto ranges = group.ranges();
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].partition == 0);
  CHECK(ranges[0].begin == 0);
  CHECK(ranges[0].end == 32);
  CHECK(ranges[1].partition == 1);
  CHECK(ranges[1].end == 48);
}

TEST_CASE("gradients add up, gaps stay zero, and clearing forgets what was touched", "[tensor]") {
  FlatGroup group = make_group();
  CHECK_FALSE(group.any_has_grad());
  group.add_grad(0, at::ones({2, 5}));
  group.add_grad(0, at::ones({2, 5}));
  CHECK(group.entries()[0].has_grad);
  CHECK_FALSE(group.entries()[1].has_grad);
  CHECK(at::equal(group.grad_view(0), at::full({2, 5}, 2.0)));
  CHECK(group.grad().sum().item<float>() == 20);
  group.clear_grads();
  CHECK_FALSE(group.any_has_grad());
  group.resolve_grads();
  CHECK(group.grad().abs().sum().item<float>() == 0);
}

TEST_CASE("a gradient of an earlier step is overwritten, or gone where none came", "[tensor]") {
  FlatGroup group = make_group();
  group.add_grad(0, at::full({2, 5}, 3.0));
  group.add_grad(2, at::full({3}, 3.0));
  group.resolve_grads();
  group.clear_grads();
  group.clear_grads();  // of a step without any gradient
  group.add_grad(2, at::ones({3}));
  group.resolve_grads();
  CHECK(at::equal(group.grad_view(2), at::ones({3})));
  CHECK_FALSE(group.entries()[0].has_grad);
  CHECK(group.grad().sum().item<float>() == 3);
}

TEST_CASE("gradients of every layout, dtype and size are taken over alike", "[tensor]") {
  for (const int64_t rows : {3, 300}) {  // below and above what is copied at once
    FlatGroup group("block", at::kFloat, at::kCPU, {{.id = 0, .shape = {rows, 200}}});
    const at::Tensor grad = at::arange(rows * 200, at::kFloat).view({rows, 200});
    for (const at::Tensor& same :
         {grad, grad.t().contiguous().t(), grad.to(at::kDouble), grad.neg()._neg_view()}) {
      group.add_grad(0, same);
      CHECK(at::equal(group.grad_view(0), grad));
      group.clear_grads();
    }
  }
}

TEST_CASE("views share the buffer's memory", "[tensor]") {
  FlatGroup group = make_group();
  group.data_view(2).fill_(7);
  CHECK(group.data()[32].item<float>() == 7);
  CHECK(group.data().sum().item<float>() == 21);
}

TEST_CASE("what blocks see is a rounded copy where it is narrower than what is stored",
          "[tensor]") {
  FlatGroup group("block",
                  at::kFloat,
                  at::kCPU,
                  {{.id = 0, .shape = {3}}, {.id = 1, .shape = {40}}},
                  at::kBFloat16);
  REQUIRE(group.has_copy());
  CHECK(group.entries()[1].offset * 2 % 64 == 0);  // also in the narrow buffer
  const at::Tensor seen = group.unsharded_view(0);
  CHECK(seen.scalar_type() == at::kBFloat16);
  group.data_view(0).fill_(1.001);
  CHECK(seen[0].item<float>() == 0);
  group.publish();
  CHECK(seen[0].item<float>() == 1);  // 1.001, rounded
  CHECK(group.data_view(0)[0].item<float>() == 1.001F);
  group.add_grad(0, at::full({3}, 0.5, at::kBFloat16));
  CHECK(group.grad_view(0).scalar_type() == at::kFloat);

  FlatGroup same("block", at::kFloat, at::kCPU, {{.id = 0, .shape = {3}}}, at::kFloat);
  CHECK_FALSE(same.has_copy());
  CHECK(same.unsharded_view(0).is_alias_of(same.data()));
}

TEST_CASE("a frozen group has no gradients and no ranges", "[tensor]") {
  FlatGroup group("block", at::kFloat, at::kCPU, {{.id = 0, .trainable = false, .shape = {4}}});
  CHECK_FALSE(group.is_trainable());
  CHECK(group.data().numel() == 16);
  CHECK(group.grad().numel() == 0);
  CHECK(group.ranges().empty());
}

TEST_CASE("slices start on 64-byte boundaries and cover each parameter once", "[tensor]") {
  for (const int64_t num_slices : {1, 2, 3, 7}) {
    std::vector<int64_t> seen(3, 0);
    std::vector<int64_t> in_ranges(2, 0);
    for (int64_t slice = 0; slice < num_slices; ++slice) {
      const FlatGroup group("block",
                            at::kFloat,
                            at::kCPU,
                            {{.id = 0, .partition = 1, .shape = {50}},
                             {.id = 1, .partition = 0, .shape = {2, 5}},
                             {.id = 2, .partition = 0, .shape = {}}},
                            std::nullopt,
                            {.num_slices = num_slices, .slice = slice});
      CHECK(group.numel() == flat_ends({10, 1, 50}, at::kFloat, at::kFloat, num_slices).back());
      CHECK(group.slice_numel() * 4 % 64 == 0);
      CHECK(group.data().numel() == group.slice_numel());
      for (size_t e = 0; e < 3; ++e) {
        const FlatPart& part = group.part(e);
        CHECK((part.length() == 0 || part.piece.first() == seen[e]));  // in order, without a hole
        seen[e] += part.length();
        CHECK(group.grad_view(e).numel() == part.length());
      }
      for (const FlatRange& range : group.ranges()) {
        in_ranges[range.partition] += range.end - range.begin;
      }
    }
    CHECK(seen == std::vector<int64_t>{10, 1, 50});
    CHECK(in_ranges[0] == 32);
    CHECK(in_ranges[1] == flat_ends({10, 1, 50}, at::kFloat, at::kFloat, num_slices).back() - 32);
  }
}

TEST_CASE("the chunk depends on the parameters alone, and slices start at its multiples",
          "[tensor]") {
  const auto chunk_of = [](const std::vector<int64_t>& numels, int64_t block = 1) {
    return flat_chunk(numels, at::kFloat, at::kFloat, block);
  };
  CHECK(chunk_of({2047}) == 32);  // 2048 with its gap
  CHECK(chunk_of({2000}) == 16);
  CHECK(chunk_of({1000, 1000, 90}) == 32);
  CHECK(chunk_of({65'536}) == 1024);
  CHECK(chunk_of({1 << 24}) == 1024);
  for (const int64_t numel : {1, 100, 3000, 10'000, 100'000}) {
    for (const int64_t block : {1, 48, 256}) {
      const std::vector<int64_t> numels = {numel, 7, numel};
      const int64_t chunk = chunk_of(numels, block);
      const auto alone = flat_ends(numels, at::kFloat, at::kFloat, 1, block);
      CHECK((chunk == 16 || chunk * 64 <= alone.back()));
      CHECK((chunk == 1024 || chunk * 128 > alone.back()));
      for (const int64_t num_slices : {2, 3, 5, 7}) {
        const auto ends = flat_ends(numels, at::kFloat, at::kFloat, num_slices, block);
        CHECK(std::equal(ends.begin(), ends.end() - 1, alone.begin()));
        CHECK(ends.back() >= alone.back());
        CHECK(ends.back() % (num_slices * chunk) == 0);
        CHECK(ends.back() % (num_slices * block) == 0);
        CHECK(ends.back() - alone.back() < num_slices * std::lcm(std::lcm(block, 16), chunk));
      }
    }
  }
  const FlatGroup group("block",
                        at::kFloat,
                        at::kCPU,
                        {{.id = 0, .shape = {50, 50}}},
                        std::nullopt,
                        {.num_slices = 3});
  CHECK(group.chunk() == 32);
  CHECK(group.slice_numel() == 864);  // 2512, rounded up to a multiple of 96, over 3
}

TEST_CASE("a whole that is not kept has memory only while it is needed, under views that stay",
          "[tensor]") {
  FlatGroup group(
      "block",
      at::kFloat,
      at::kCPU,
      {{.id = 0, .shape = {20}}, {.id = 1, .shape = {20}}},
      at::kBFloat16,
      {.num_slices = 2, .slice = 1, .keeps_gradients = false, .keeps_parameters = false});
  const at::Tensor view = group.unsharded_view(1).variable_data();
  CHECK_FALSE(group.has_whole());
  CHECK(view.storage().nbytes() == 0);
  group.data().fill_(1.001);
  CHECK(group.slice_to_gather().scalar_type() == at::kBFloat16);
  group.acquire_whole();
  group.unsharded_slice().copy_(group.slice_to_gather());
  CHECK(view[19].item<float>() == 1);  // rounded
  group.release_whole();
  CHECK(view.storage().nbytes() == 0);

  CHECK(group.whole_grad().storage().nbytes() == 0);
  group.add_grad(1, at::ones({20}));
  group.add_grad(1, at::ones({20}));
  group.resolve_grads();
  CHECK(group.whole_grad().sum().item<float>() == 40);  // zero in gaps and elsewhere
  group.add_to_slice(group.whole_grad().narrow(0, 32, 32));
  group.release_grads();
  CHECK(group.whole_grad().storage().nbytes() == 0);
  group.add_grad(0, at::ones({20}));  // of the next microbatch
  group.resolve_grads();
  CHECK(group.whole_grad().sum().item<float>() == 20);
  group.add_to_slice(group.whole_grad().narrow(0, 32, 32));
  CHECK(group.grad().sum().item<float>() == 40);
  group.clear_grads();
  group.resolve_slice();  // of a step without gradients
  CHECK(group.grad().abs().sum().item<float>() == 0);
}

TEST_CASE("a group has boxes of parameters, and its slices flat ranges of them", "[tensor]") {
  const std::vector<int64_t> shape = {4, 10, 3};
  const auto parameters = std::vector<FlatParameter>{
      {.id = 0, .shape = {2}},
      {.id = 1, .shape = shape, .box = Box{.start = {1, 4, 0}, .size = {3, 5, 3}}}};
  FlatGroup whole("block", at::kFloat, at::kCPU, parameters);
  CHECK(whole.entries()[1].numel == 45);
  CHECK(whole.unsharded_view(1).sizes() == at::IntArrayRef({3, 5, 3}));
  CHECK(whole.data_view(1).sizes() == at::IntArrayRef({3, 5, 3}));
  CHECK(whole.part(1).piece == TensorPiece(shape, *parameters[1].box));
  whole.add_grad(1, at::ones({3, 5, 3}));
  CHECK(whole.grad_view(1).equal(at::ones({3, 5, 3})));

  for (const int64_t num_slices : {2, 3}) {
    int64_t seen = 0;
    for (int64_t slice = 0; slice < num_slices; ++slice) {
      FlatGroup group("block",
                      at::kFloat,
                      at::kCPU,
                      parameters,
                      std::nullopt,
                      {.num_slices = num_slices, .slice = slice});
      const FlatPart& part = group.part(1);
      CHECK(part.piece.shape() == shape);
      CHECK(part.piece.box() == parameters[1].box);
      CHECK((part.length() == 0 || part.piece.first() == seen));
      seen += part.length();
      CHECK(group.data_view(1).sizes() == at::IntArrayRef({part.length()}));
    }
    CHECK(seen == 45);
  }
}

TEST_CASE("blocks see a part of what a group has, and add to its place in the gradient",
          "[tensor]") {
  const std::vector<int64_t> shape = {6, 4};
  const at::Tensor values = at::arange(24, at::kFloat).view(shape);
  const std::vector<Box> boxes = {{.start = {2, 0}, .size = {2, 4}},  // consecutive
                                  {.start = {0, 1}, .size = {6, 2}},
                                  box_of_ranges(shape, 0, {{0, 2}, {5, 1}})};
  for (const Box& box : boxes) {
    FlatGroup group("block",
                    at::kFloat,
                    at::kCPU,
                    {{.id = 0, .shape = {5}}, {.id = 1, .shape = shape, .seen_box = box}});
    INFO(box_text(box));
    const at::Tensor seen = group.block_view(1).variable_data();
    CHECK(seen.is_contiguous());
    CHECK(seen.is_alias_of(group.seen()) == (box == boxes[0]));
    group.data_view(1).copy_(values);
    group.publish();
    CHECK(seen.equal(part_of(values, box)));
    CHECK(group.block_view(0).sizes() == at::IntArrayRef({5}));

    at::Tensor expected = at::zeros(shape);
    for (const int step : {1, 2}) {
      const at::Tensor grad = at::full(box.size, step);
      group.add_grad(1, grad);
      group.add_grad(1, grad);
      put_part(expected, box, 2 * grad);
      CHECK(group.grad_view(1).equal(expected));
      group.clear_grads();
    }
  }
}

TEST_CASE("copies of parts have memory while the whole has, and follow each gather", "[tensor]") {
  const std::vector<int64_t> shape = {6, 4};
  const Box box{.start = {0, 1}, .size = {6, 2}};
  const at::Tensor values = at::arange(24, at::kFloat).view(shape);
  FlatGroup group(
      "block",
      at::kFloat,
      at::kCPU,
      {{.id = 0, .shape = shape, .seen_box = box}},
      at::kBFloat16,
      {.num_slices = 2, .slice = 0, .keeps_gradients = false, .keeps_parameters = false});
  const at::Tensor seen = group.block_view(0).variable_data();
  CHECK(seen.storage().nbytes() == 0);
  for (const float factor : {1.0F, 2.0F}) {
    group.acquire_whole();
    group.unsharded_view(0).copy_(values * factor);
    group.fill_copies();
    CHECK(seen.equal(part_of(values * factor, box).to(at::kBFloat16)));
    group.release_whole();
    CHECK(seen.storage().nbytes() == 0);
  }
  group.add_grad(0, at::ones(box.size));
  group.resolve_grads();
  CHECK(group.whole_grad().sum().item<float>() == 12);
  CHECK(part_of(group.whole_grad().narrow(0, 0, 24).view(shape), box).equal(at::ones(box.size)));
}

TEST_CASE("a group that is elsewhere has the layout of the others, and no element", "[tensor]") {
  const std::vector<FlatParameter> parameters = {
      {.id = 0, .partition = 1, .shape = {3}, .name = "a"},
      {.id = 1, .shape = {2, 5}, .name = "b"},
      {.id = 2, .shape = {64, 5}, .name = "c", .box = Box{.start = {0, 2}, .size = {64, 2}}},
      {.id = 3, .shape = {6, 4}, .name = "d", .seen_box = Box{.start = {0, 1}, .size = {6, 2}}}};
  for (const int64_t slices : {1, 3}) {
    for (const bool keeps : {true, false}) {
      for (const bool is_trainable : {true, false}) {
        CAPTURE(slices, keeps, is_trainable);
        std::vector<FlatParameter> all = parameters;
        for (FlatParameter& parameter : all) {
          parameter.trainable = is_trainable;
        }
        FlatSharing sharing{.num_slices = slices,
                            .slice = slices - 1,
                            .keeps_gradients = keeps,
                            .keeps_parameters = keeps};
        const FlatGroup here("block", at::kFloat, at::kCPU, all, at::kBFloat16, sharing);
        sharing.is_elsewhere = true;
        FlatGroup group("block", at::kFloat, at::kCPU, all, at::kBFloat16, sharing);
        CHECK(group.numel() == here.numel());
        CHECK(group.chunk() == here.chunk());
        CHECK(group.dtype() == at::kFloat);
        CHECK(group.is_trainable() == is_trainable);
        CHECK(group.slice_numel() == 0);
        CHECK(group.ranges().empty());
        REQUIRE(group.entries().size() == here.entries().size());
        for (size_t e = 0; e < here.entries().size(); ++e) {
          CHECK(group.entries()[e].parameter.id == here.entries()[e].parameter.id);
          CHECK(group.entries()[e].offset == here.entries()[e].offset);
          CHECK(group.entries()[e].numel == here.entries()[e].numel);
          CHECK(group.part(e).length() == 0);
          CHECK(group.part(e).piece.shape() == here.part(e).piece.shape());
          CHECK(group.data_view(e).numel() == 0);
          CHECK(group.data_view(e).scalar_type() == at::kFloat);
          CHECK_FALSE(group.block_view(e).defined());
          CHECK_FALSE(group.unsharded_view(e).defined());
          if (is_trainable) {
            CHECK(group.grad_view(e).numel() == 0);
          }
        }
        // What a step does to all groups.
        group.entries()[0].has_grad = true;
        group.publish();
        group.resolve_grads();
        group.resolve_slice();
        group.expect_sums();
        group.release_grads();
        group.release_whole();
        CHECK_FALSE(group.has_whole());
        CHECK_FALSE(group.has_copy());
        CHECK(group.any_has_grad());
        group.clear_grads();
        CHECK_FALSE(group.any_has_grad());
        for (const at::Tensor* const memory :
             {&group.data(), &group.grad(), &group.seen(), &group.whole_grad()}) {
          CHECK(memory->storage().nbytes() == 0);
        }
      }
    }
  }
}

}  // namespace tenon
