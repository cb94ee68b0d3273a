// SPDX-License-Identifier: Apache-2.0
//
// The plugins that tests of the host lean on (tests/support/plugins).
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/plugin/hook_proxy.hpp"
#include "host/plugin/loss_proxy.hpp"

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/fake_run.hpp"
#include "tests/plugins/loss_call.hpp"
#include "tests/plugins/made_component.hpp"

namespace {

tenon::DatasetProxy make_source(const std::string& type, const std::string& options) {
  return tenon::DatasetProxy(tenon::make_component("dataset", type, options));
}

std::vector<int64_t> ids_of(const tenon::Batch& batch) {
  if (batch.samples == 0) {
    return {};
  }
  const at::Tensor& ids = *batch.find("sample_id");
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
}

std::vector<int64_t> read(tenon::DatasetProxy& source,
                          const tenon::Window* window,
                          const std::vector<int64_t>& indices) {
  tenon::BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
  source.read(window, indices, builder.writer());
  return ids_of(builder.finish());
}

struct Piece {
  std::vector<int64_t> ids;
  bool is_end;
  std::string position;
};

Piece next(tenon::DatasetProxy& source, const tenon::Window* window, uint32_t shard, int64_t n) {
  tenon::BatchBuilder builder(source, n);
  const bool is_end = source.next(window, shard, n, builder.writer());
  const tenon::Batch batch = builder.finish();
  return {ids_of(batch), is_end, builder.position().value_or("none")};
}

}  // namespace

TEST_CASE("the windows dataset gives the windows of its recipe, every epoch", "[plugins]") {
  auto source = make_source("windows", R"({"windows": [{"label": "a", "size": 3},
      {"label": "b", "size": 0}, {"label": "c", "size": 2, "skip": true}]})");
  CHECK(source.info().has_windows);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    source.reset(epoch);
    const auto a = source.next_window();
    REQUIRE(a);
    CHECK(a->label() == "a");
    CHECK(a->size() == 3);
    CHECK(source.size(&*a) == 3);
    CHECK(read(source, &*a, {2, 0}) == std::vector<int64_t>{2, 0});
    CHECK(source.next_window()->size() == 0);
    const auto c = source.next_window();
    CHECK(c->is_skipped());
    CHECK(read(source, &*c, {1}) == std::vector<int64_t>{4});
    CHECK_FALSE(source.next_window());
  }
}

TEST_CASE("the windows dataset without a list is one of plain samples", "[plugins]") {
  auto source = make_source("windows", R"({"samples": 5, "dim": 2, "num_classes": 2})");
  CHECK_FALSE(source.info().has_windows);
  CHECK(source.size(nullptr) == 5);
  tenon::BatchBuilder builder(source, 2);
  const std::vector<int64_t> indices = {3, 4};
  source.read(nullptr, indices, builder.writer());
  const tenon::Batch batch = builder.finish();
  CHECK(ids_of(batch) == indices);
  CHECK((*batch.find("x"))[0][1].item<double>() == Approx(std::sin(0.8)));
  CHECK((*batch.find("y"))[0].item<double>() ==
        Approx((std::sin(0.4) + std::sin(0.8)) / 2).epsilon(1e-6));
  CHECK((*batch.find("labels"))[0].item<int64_t>() == 1);
}

TEST_CASE("the windows dataset fails at the sample it is told", "[plugins]") {
  auto source = make_source("windows", R"({"fail_at_sample": 3})");
  CHECK(read(source, nullptr, {2, 4}).size() == 2);
  CHECK_THAT(tenon::error_of([&] {
               read(source, nullptr, {2, 3});
             }),
             tenon::contains_text("sample 3 cannot be read"));
}

TEST_CASE("the counter stream counts in each shard, and goes on from a position", "[plugins]") {
  auto source = make_source("counter_stream", R"({"shard_sizes": [5, 2]})");
  CHECK(source.info().num_shards == 2);
  source.reset(0);
  const Piece first = next(source, nullptr, 0, 3);
  CHECK(first.ids == std::vector<int64_t>{0, 1, 2});
  CHECK_FALSE(first.is_end);
  CHECK(first.position == "3");
  const Piece second = next(source, nullptr, 0, 3);
  CHECK(second.ids == std::vector<int64_t>{3, 4});
  CHECK(second.is_end);
  CHECK(next(source, nullptr, 1, 2).ids == std::vector<int64_t>{1000000, 1000001});
  CHECK(next(source, nullptr, 1, 2).ids.empty());
  source.seek(nullptr, 0, first.position);
  CHECK(next(source, nullptr, 0, 3).ids == second.ids);
  source.seek(nullptr, 0, std::nullopt);
  CHECK(next(source, nullptr, 0, 1).ids == std::vector<int64_t>{0});
}

TEST_CASE("the counter stream counts on through its windows", "[plugins]") {
  auto source = make_source("counter_stream", R"({"shard_sizes": [2], "windows": 2})");
  source.reset(0);
  const auto first = source.next_window();
  CHECK(next(source, &*first, 0, 4).ids == std::vector<int64_t>{0, 1});
  const auto second = source.next_window();
  CHECK(second->size() == -1);
  source.seek(&*second, 0, std::nullopt);
  const Piece piece = next(source, &*second, 0, 4);
  CHECK(piece.ids == std::vector<int64_t>{2, 3});
  CHECK(piece.is_end);
  CHECK_FALSE(source.next_window());
}

TEST_CASE("request_at makes the requests of its recipe and no others", "[plugins]") {
  const tenon::HookProxy hook(tenon::make_component("hook", "request_at", R"({"requests": [
      {"event": "before_step", "step": 2, "request": "skip_update"},
      {"event": "after_step", "step": 2, "request": "stop"}]})"));
  CHECK(hook.info().events ==
        (TENON_EVENT_BIT(TENON_EVENT_BEFORE_STEP) | TENON_EVENT_BIT(TENON_EVENT_AFTER_STEP)));
  tenon::FakeRun run;
  for (uint64_t step = 1; step <= 3; ++step) {
    run.fire(hook, TENON_EVENT_BEFORE_STEP, step);
    run.fire(hook, TENON_EVENT_AFTER_STEP, step);
  }
  REQUIRE(run.requests.size() == 2);
  CHECK(run.requests[0].requests == TENON_REQUEST_SKIP_UPDATE);
  CHECK(run.requests[1].requests == TENON_REQUEST_STOP);
  CHECK(run.requests[1].reason == "request_at: after_step of step 2");
}

TEST_CASE("fail_at fails at its event, in each of the ways", "[plugins]") {
  for (const auto& [how, said] : {std::pair<std::string, std::string>{"error", "asked to fail"},
                                  {"exception", "asked to fail"},
                                  {"foreign", "no std::exception"}}) {
    CAPTURE(how);
    const tenon::HookProxy hook(tenon::make_component(
        "hook", "fail_at", R"({"event": "after_data", "step": 2, "how": ")" + how + R"("})"));
    tenon::FakeRun run;
    run.fire(hook, TENON_EVENT_AFTER_DATA, 1);
    CHECK_THAT(tenon::error_of([&] { run.fire(hook, TENON_EVENT_AFTER_DATA, 2); }),
               tenon::contains_text(said));
  }
}

TEST_CASE("a loss in plain C gives sum, count and gradient", "[plugins]") {
  const tenon::LossProxy loss(tenon::make_component("loss", "plain_loss", R"({"scale": 2})"));
  CHECK(loss.has_backward());
  const at::Tensor logits = at::tensor({1.0f, 2.0f, 4.0f}).reshape({3, 1});
  const at::Tensor y = at::tensor({1.0f, 1.0f, 1.0f});
  const tenon::LossResult result = tenon::call_loss(loss, {logits, y}, 0.5);
  CHECK(result.sum.item<double>() == 10.0);
  CHECK(result.count == 3.0);
  CHECK(result.grads[0].sizes() == logits.sizes());
  CHECK(at::equal(result.grads[0].reshape({-1}), at::tensor({0.0f, 1.0f, 3.0f})));
  CHECK_FALSE(result.grads[1].defined());
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(loss, {logits, at::zeros({2})});
             }),
             tenon::contains_text("different numbers of elements"));
  CHECK_THAT(tenon::error_of([&] {
               tenon::call_loss(loss, {logits.to(at::kDouble), y});
             }),
             tenon::contains_text("must be contiguous f32"));
}
