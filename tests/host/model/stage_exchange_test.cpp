// SPDX-License-Identifier: Apache-2.0
//
// Messages over groups with real connections; ranks are threads.
#include "host/model/stage_exchange.hpp"

#include "host/distributed/collectives/world.hpp"

#include <ATen/Functions.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own
#include "tests/support/world_ranks.hpp"

namespace tenon {
namespace {

using Kind = StageMessage::Kind;

StageMessage value_of(uint32_t value, uint32_t from, uint32_t to, uint32_t microbatch = 0) {
  return {.kind = Kind::kValue,
          .value = value,
          .from = from,
          .to = to,
          .step = 3,
          .microbatch = microbatch};
}

StageMessage gradient_of(uint32_t value, uint32_t from, uint32_t to, uint32_t microbatch = 0) {
  StageMessage message = value_of(value, from, to, microbatch);
  message.kind = Kind::kGradient;
  return message;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

// Runs `body` on ranks that have the stages of `owners`. A rank leaves when all have ended.
std::vector<std::string> on_stages(
    const std::vector<uint32_t>& owners,
    uint32_t size,
    const std::function<void(uint32_t rank, StageExchange& exchange)>& body) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) {
    ranks.push_back(rank);
  }
  return on_worlds(size, short_limits(), [&](World& world) {
    const auto headers = world.make_group(ranks, "pipeline", at::kCPU);
    const auto tensors = world.make_group(ranks, "messages", at::kCPU);
    StageExchange exchange(*headers, *tensors, owners);
    body(world.rank(), exchange);
    headers->gather_texts("", "the end");
  });
}

const std::vector<std::string> kNothing = {"", ""};

// Tensors of every kind that blocks make.
std::vector<at::Tensor> tensors_of_all_kinds() {
  const at::Tensor numbers = at::arange(24, at::kDouble).mul(0.37).sin();
  return {numbers.view({2, 3, 4}),
          numbers.to(at::kFloat),
          numbers.to(at::kBFloat16).view({4, 6}),
          numbers.gt(0),
          at::arange(5, at::kLong),
          at::scalar_tensor(2.5, at::kDouble),
          at::empty({0, 4}, at::kFloat),
          at::empty({3, 0}, at::kBool),
          numbers.view({2, 3, 4}).transpose(0, 2)};
}

}  // namespace

TEST_CASE("stages send tensors of any shape and dtype", "[model][multi-rank]") {
  const std::vector<at::Tensor> sent = tensors_of_all_kinds();
  std::vector<at::Tensor> received;
  CHECK(on_stages({0, 1}, 2, [&](uint32_t rank, StageExchange& exchange) {
          for (uint32_t i = 0; i < sent.size(); ++i) {
            if (rank == 0) {
              exchange.send(value_of(7, 0, 1, i), sent[i], "v");
            } else {
              received.push_back(exchange.receive(value_of(7, 0, 1, i), "v"));
            }
          }
          exchange.finish();
        }) == kNothing);
  REQUIRE(received.size() == sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    CHECK(same_bits(received[i], sent[i]));
  }
}

TEST_CASE("a tensor with gaps in memory arrives without them", "[model][multi-rank]") {
  const at::Tensor whole = at::arange(12, at::kDouble).view({3, 4});
  std::vector<at::Tensor> received;
  CHECK(on_stages({0, 1}, 2, [&](uint32_t rank, StageExchange& exchange) {
          if (rank == 0) {
            exchange.send(value_of(1, 0, 1), whole.narrow(1, 1, 2), "v");
            exchange.send(value_of(2, 0, 1), at::ones({1}).expand({5}), "w");
          } else {
            received.push_back(exchange.receive(value_of(1, 0, 1), "v"));
            received.push_back(exchange.receive(value_of(2, 0, 1), "w"));
          }
          exchange.finish();
        }) == kNothing);
  REQUIRE(received.size() == 2);
  CHECK(same_bits(received[0], whole.narrow(1, 1, 2).contiguous()));
  CHECK(same_bits(received[1], at::ones({5})));
}

TEST_CASE("messages are received in another order than sent", "[model][multi-rank]") {
  std::vector<double> received;
  bool is_defined = true;
  std::vector<std::vector<bool>> is_here(2);
  CHECK(on_stages({0, 1, 0}, 2, [&](uint32_t rank, StageExchange& exchange) {
          is_here[rank] = {exchange.is_here(0), exchange.is_here(1), exchange.is_here(2)};
          if (rank == 0) {
            exchange.send(value_of(4, 0, 1, 0), at::scalar_tensor(1.0), "v");
            exchange.send(value_of(4, 0, 1, 1), at::scalar_tensor(2.0), "v");
            exchange.send(gradient_of(4, 2, 1, 0), {}, "v");
            exchange.send(gradient_of(5, 2, 1, 0), at::scalar_tensor(3.0), "w");
            StageMessage evaluated = value_of(4, 0, 1, 0);
            evaluated.is_train = false;
            exchange.send(evaluated, at::scalar_tensor(4.0), "v");
            exchange.finish();
            return;
          }
          const auto take = [&](const StageMessage& message) {
            received.push_back(exchange.receive(message, "v").item<double>());
          };
          StageMessage evaluated = value_of(4, 0, 1, 0);
          evaluated.is_train = false;
          take(evaluated);
          take(gradient_of(5, 2, 1, 0));
          take(value_of(4, 0, 1, 1));
          is_defined = exchange.receive(gradient_of(4, 2, 1, 0), "v").defined();
          take(value_of(4, 0, 1, 0));
          exchange.finish();
        }) == kNothing);
  CHECK(received == std::vector<double>{4, 3, 2, 1});
  CHECK_FALSE(is_defined);
  CHECK(is_here == std::vector<std::vector<bool>>{{true, false, true}, {false, true, false}});
}

TEST_CASE("sends do not block", "[model][multi-rank]") {
  // Each rank sends more than the connection holds before it receives anything.
  constexpr int64_t kCount = 3'000'000;
  std::vector<double> sums(2);
  CHECK(on_stages({0, 1}, 2, [&](uint32_t rank, StageExchange& exchange) {
          const uint32_t other = 1 - rank;
          for (uint32_t m = 0; m < 4; ++m) {
            exchange.send(value_of(1, rank, other, m), at::full({kCount}, m + 1.0 + rank), "v");
          }
          for (uint32_t m = 4; m-- > 0;) {
            const at::Tensor value = exchange.receive(value_of(1, other, rank, m), "v");
            sums[rank] += value[kCount - 1].item<double>();
          }
          exchange.finish();
        }) == kNothing);
  CHECK(sums == std::vector<double>{14, 10});
}

TEST_CASE("a stage of a lost rank is named with the value", "[model][multi-rank]") {
  const std::vector<std::string> thrown =
      on_stages({0, 1, 0}, 2, [&](uint32_t rank, StageExchange& exchange) {
        if (rank == 0) {
          exchange.send(value_of(1, 0, 1), at::ones({3}), "hidden");
          exchange.receive(gradient_of(1, 1, 0, 2), "hidden");
        } else {
          exchange.receive(value_of(1, 0, 1), "hidden");
          throw std::runtime_error("lost");
        }
      });
  CAPTURE(thrown[0]);
  CHECK(thrown[1] == "lost");
  const auto has = [&](const std::string& part) {
    return thrown[0].find(part) != std::string::npos;
  };
  CHECK(has("[distributed.failed]"));
  CHECK(has("receive 1 of group \"pipeline 1 to 0\""));
  CHECK(has("(gradient of value 'hidden' of microbatch 2 in step 3, from stage 1 to stage 0)"));
  CHECK(has("the connection to rank 1 was closed"));
}

TEST_CASE("messages that nobody used are forgotten after an error", "[model][multi-rank]") {
  CHECK(on_stages({0, 1}, 2, [&](uint32_t rank, StageExchange& exchange) {
          if (rank == 0) {
            exchange.send(value_of(1, 0, 1), at::ones({3}), "v");
            exchange.send(value_of(2, 0, 1), at::ones({3}), "w");
            exchange.clear();
            exchange.receive(value_of(3, 1, 0), "done");
          } else {
            exchange.receive(value_of(2, 0, 1), "w");
            exchange.clear();
            exchange.send(value_of(3, 1, 0), at::ones({1}), "done");
          }
          exchange.finish();
        }) == kNothing);
}

}  // namespace tenon
