// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/world.hpp"

#include "host/distributed/ranks/store_server.hpp"
#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <numeric>

#include "tests/support/agent_store.hpp"
#include "tests/support/catch.hpp"  // after libtorch, which has a CHECK of its own
#include "tests/support/world_ranks.hpp"

namespace tenon {
namespace {

using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

Texts nothing(uint32_t size) {
  return Texts(size);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<uint32_t> all_ranks(uint32_t size) {
  std::vector<uint32_t> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

// What rank `rank` gives: different on each, not exactly summable, the same whenever it is made.
at::Tensor values_of(uint32_t rank, int64_t count, at::ScalarType dtype) {
  const at::Tensor index = at::arange(count, at::kDouble);
  return at::sin(index * 0.37 + 1.0 + rank).mul(3.0).to(dtype);
}

// The sum of all ranks' values in the order of ranks, each taken in `dtype` and added in `in`.
at::Tensor sum_of_all(uint32_t size, int64_t count, at::ScalarType dtype, at::ScalarType in) {
  at::Tensor sum = values_of(0, count, dtype).to(in);
  for (uint32_t rank = 1; rank < size; ++rank) {
    sum = sum + values_of(rank, count, dtype).to(in);
  }
  return sum;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

TEST_CASE("a world of one rank opens nothing and gives back what it is given", "[distributed]") {
  const auto world = World::join(RankEnvironment(), {});
  CHECK(world->size() == 1);
  CHECK(world->rank() == 0);
  CHECK(world->open_store() == nullptr);
  const uint32_t alone = 0;
  const auto group = world->make_group(std::span(&alone, 1), "shard", at::kCPU);
  CHECK(group->size() == 1);
  at::Tensor part = at::ones({3});
  at::Tensor whole = at::zeros({3});
  group->all_gather(whole, part, "x")->wait();
  CHECK(same_bits(whole, part));
  CHECK(world->control().gather_texts("a", "x") == Texts{"a"});
  CHECK(world->traffic().total() == 0);
  CHECK(world->last_collectives().empty());
  world->end_start();
  world->leave();
}

TEST_CASE("ranks that meet exchange bytes, sums and texts", "[distributed][multi-rank]") {
  const uint32_t size = GENERATE(2u, 3u, 4u);
  CAPTURE(size);
  std::vector<Texts> texts(size);
  Texts from_root(size);
  std::vector<int64_t> sums(size);
  CHECK(on_worlds(size, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          texts[rank] = world.control().gather_texts(std::string(rank, 'x'), "names");
          from_root[rank] = world.control().broadcast_text("of " + std::to_string(rank), 1, "name");
          int64_t value = rank + 1;
          world.control().all_reduce(std::span(&value, 1), Reduce::kSum, "counts");
          sums[rank] = value;
          world.leave();
        }) == nothing(size));
  Texts expected;
  for (uint32_t rank = 0; rank < size; ++rank) {
    expected.emplace_back(rank, 'x');
  }
  CHECK(texts == std::vector<Texts>(size, expected));
  CHECK(from_root == Texts(size, "of 1"));
  CHECK(sums == std::vector<int64_t>(size, size * (size + 1) / 2));
}

TEST_CASE("every collective gives what plain sums and copies give, the same bits on each rank",
          "[distributed][multi-rank]") {
  const uint32_t size = GENERATE(2u, 3u, 4u);
  const auto dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  CAPTURE(size, dtype);
  const std::vector<int64_t> counts{0, 1, 7, 1023, 70'001};
  // By count: all_reduce, all_gather, reduce_scatter, its sum in fp32, broadcast.
  using Results = std::vector<at::Tensor>;
  const auto run = [&] {
    std::vector<std::map<int64_t, Results>> results(size);
    CHECK(on_worlds(size, short_limits(), [&](World& world) {
            const auto ranks = all_ranks(size);
            const auto group = world.make_group(ranks, "shard", at::kCPU);
            const uint32_t rank = world.rank();
            for (const int64_t count : counts) {
              at::Tensor reduced = values_of(rank, count, dtype);
              const at::Tensor part = values_of(rank, count, dtype);
              at::Tensor gathered = at::zeros({count * size}, dtype);
              const at::Tensor whole = values_of(rank, count * size, dtype);
              at::Tensor scattered = at::zeros({count}, dtype);
              at::Tensor wide = at::zeros({count}, dtype == at::kDouble ? at::kDouble : at::kFloat);
              at::Tensor sent = values_of(rank, count, dtype);
              // All under way at once, then waited for in another order.
              std::vector<std::unique_ptr<Work>> works;
              works.push_back(group->all_reduce(reduced, "reduced"));
              works.push_back(group->all_gather(gathered, part, "gathered"));
              works.push_back(group->reduce_scatter(scattered, whole, "scattered"));
              works.push_back(group->reduce_scatter(wide, whole, "wide"));
              works.push_back(group->broadcast(sent, size - 1, "sent"));
              for (const size_t i : {3, 0, 4, 1, 2}) {
                works[i]->wait();
              }
              results[rank][count] = {reduced, gathered, scattered, wide, sent};
            }
            world.leave();
          }) == nothing(size));
    return results;
  };
  const auto results = run();
  const auto again = run();
  for (const int64_t count : counts) {
    CAPTURE(count);
    const at::ScalarType in = dtype == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor sum = sum_of_all(size, count, dtype, in);
    const at::Tensor long_sum = sum_of_all(size, count * size, dtype, in);
    std::vector<at::Tensor> parts;
    for (uint32_t rank = 0; rank < size; ++rank) {
      parts.push_back(values_of(rank, count, dtype));
    }
    const at::Tensor gathered = at::cat(parts);
    for (uint32_t rank = 0; rank < size; ++rank) {
      CAPTURE(rank);
      const Results& mine = results[rank].at(count);
      const double tolerance = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 1e-6 : 1e-2;
      CHECK(at::allclose(mine[0].to(in), sum, tolerance, tolerance));
      CHECK(same_bits(mine[0], results[0].at(count)[0]));
      CHECK(same_bits(mine[1], gathered));
      const at::Tensor my_sum = long_sum.narrow(0, rank * count, count);
      CHECK(same_bits(mine[2], my_sum.to(dtype)));
      CHECK(same_bits(mine[3], my_sum));
      CHECK(same_bits(mine[4], parts.back()));
      for (size_t i = 0; i < mine.size(); ++i) {
        CHECK(same_bits(mine[i], again[rank].at(count)[i]));
      }
    }
  }
}

TEST_CASE("ranks send each other as much as they like", "[distributed][multi-rank]") {
  const uint32_t size = GENERATE(2u, 3u, 4u);
  const bool is_checked = GENERATE(false, true);
  CAPTURE(size, is_checked);
  WorldOptions options = short_limits();
  options.check_collectives = is_checked;
  // Of rank `from` for rank `to`: nothing for some, more than a ring holds for one.
  const auto count = [](uint32_t from, uint32_t to) -> int64_t {
    return from == 1 && to == 0 ? 1'300'000 : (from + 2 * to) % 3 * 5;
  };
  const auto piece = [&](uint32_t from, uint32_t to) {
    return values_of(10 * from + to, count(from, to), at::kFloat);
  };
  std::vector<at::Tensor> received(size);
  std::vector<at::Tensor> wanted(size);
  std::vector<int64_t> sent(size);
  std::vector<int64_t> counted(size);
  CHECK(on_worlds(size, options, [&](World& world) {
          const uint32_t rank = world.rank();
          const auto group = world.make_group(all_ranks(size), "tables", at::kCPU);
          std::vector<int64_t> receive_counts;
          std::vector<int64_t> send_counts;
          std::vector<at::Tensor> to_send;
          std::vector<at::Tensor> to_receive;
          for (uint32_t other = 0; other < size; ++other) {
            receive_counts.push_back(count(other, rank));
            send_counts.push_back(count(rank, other));
            to_receive.push_back(piece(other, rank));
            to_send.push_back(piece(rank, other));
            sent[rank] += other == rank ? 0 : 4 * count(rank, other);
          }
          wanted[rank] = at::cat(to_receive);
          const at::Tensor whole = at::cat(to_send);
          received[rank] = at::zeros_like(wanted[rank]);
          at::Tensor nothing = at::zeros({0});
          const std::vector<int64_t> zeros(size, 0);
          const auto first = group->all_to_all(
              received[rank], receive_counts, whole, send_counts, "rows of tables");
          group->all_to_all(nothing, zeros, nothing, zeros, "nothing")->wait();
          first->wait();
          counted[rank] = world.traffic().all_to_all;
          world.leave();
        }) == nothing(size));
  for (uint32_t rank = 0; rank < size; ++rank) {
    CHECK(same_bits(received[rank], wanted[rank]));
  }
  CHECK(counted == sent);
}

TEST_CASE("two ranks add up a large tensor by halves", "[distributed][multi-rank]") {
  const int64_t count = 4'500'001;  // 18 MB, and one more than two equal parts
  std::vector<at::Tensor> sums(2);
  std::vector<int64_t> sent(2);
  CHECK(on_worlds(2, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          const auto group = world.make_group(all_ranks(2), "replicate", at::kCPU);
          sums[rank] = values_of(rank, count, at::kFloat);
          group->all_reduce(sums[rank], "gradients")->wait();
          sent[rank] = world.traffic().all_reduce;
          world.leave();
        }) == nothing(2));
  CHECK(same_bits(sums[0], sum_of_all(2, count, at::kFloat, at::kFloat)));
  CHECK(same_bits(sums[0], sums[1]));
  CHECK(sent == std::vector<int64_t>(2, count * 4));
}

TEST_CASE("a rank that shares no memory is talked to over the network",
          "[distributed][multi-rank]") {
  const uint16_t port = free_port();
  std::vector<Texts> texts(2);
  std::vector<at::Tensor> sums(2);
  CHECK(on_ranks(2, [&](uint32_t rank) {
          WorldOptions options = short_limits();
          options.share_memory = rank == 0;
          const auto world = World::join(rank_of(rank, 2, port), options);
          texts[rank] = world->control().gather_texts(std::to_string(rank), "names");
          const auto group = world->make_group(all_ranks(2), "replicate", at::kCPU);
          sums[rank] = values_of(rank, 1000, at::kFloat);
          group->all_reduce(sums[rank], "gradients")->wait();
          world->leave();
        }) == nothing(2));
  CHECK(texts == std::vector<Texts>(2, {"0", "1"}));
  CHECK(same_bits(sums[0], sum_of_all(2, 1000, at::kFloat, at::kFloat)));
  CHECK(same_bits(sums[0], sums[1]));
}

TEST_CASE("ranks that send other sizes than are awaited are told so", "[distributed][multi-rank]") {
  WorldOptions options = short_limits();
  options.share_memory = true;
  const Texts thrown = on_worlds(2, options, [&](World& world) {
    const auto group = world.make_group(all_ranks(2), "shard", at::kCPU);
    const int64_t count = world.rank() == 0 ? 10 : 20;
    at::Tensor whole = at::zeros({2 * count});
    group->all_gather(whole, at::zeros({count}), "parameters")->wait();
  });
  CHECK(contains(thrown[0], "received 80 bytes, expected 40"));
  CHECK(contains(thrown[1], "[distributed.failed]"));
}

TEST_CASE("groups of some ranks work side by side", "[distributed][multi-rank]") {
  std::vector<double> sums(4);
  CHECK(on_worlds(4, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          const std::vector<uint32_t> row =
              rank < 2 ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{2, 3};
          const std::vector<uint32_t> column{rank % 2, rank % 2 + 2};
          const auto shard = world.make_group(row, "shard", at::kCPU);
          const auto replicate = world.make_group(column, "replicate", at::kCPU);
          const auto second = world.make_group(row, "shard", at::kCPU);
          at::Tensor a = at::full({5}, 1.0 + rank);
          at::Tensor b = at::full({5}, 10.0 * (1.0 + rank));
          at::Tensor c = at::full({5}, 100.0 * (1.0 + rank));
          const auto first = shard->all_reduce(a, "a");
          const auto other = replicate->all_reduce(b, "b");
          const auto third = second->all_reduce(c, "c");
          third->wait();
          other->wait();
          first->wait();
          sums[rank] = a[0].item<double>() + b[0].item<double>() + c[0].item<double>();
          world.leave();
        }) == nothing(4));
  CHECK(sums == std::vector<double>{343, 363, 747, 767});
}

TEST_CASE("what a rank sends is counted to the byte", "[distributed][multi-rank]") {
  const uint32_t size = GENERATE(2u, 4u);
  CAPTURE(size);
  const int64_t count = 1000;  // of a part, in fp32
  std::vector<Traffic> before(size);
  std::vector<Traffic> after(size);
  std::vector<std::vector<CollectiveRecord>> records(size);
  CHECK(on_worlds(size, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          const auto ranks = all_ranks(size);
          const auto group = world.make_group(ranks, "shard", at::kCPU);
          before[rank] = world.traffic();
          at::Tensor whole = at::ones({count * size});
          at::Tensor part = at::ones({count});
          group->all_reduce(whole, "r")->wait();
          group->all_gather(whole, part, "parameters of block 3")->wait();
          group->reduce_scatter(part, whole, "s")->wait();
          group->broadcast(whole, 0, "b")->wait();
          world.control().gather_texts("abc", "t");
          after[rank] = world.traffic();
          records[rank] = world.last_collectives();
          world.leave();
        }) == nothing(size));
  const int64_t bytes = count * size * 4;
  int64_t broadcast = 0;
  for (uint32_t rank = 0; rank < size; ++rank) {
    CHECK(before[rank].total() == 0);
    CHECK(after[rank].all_reduce == 2 * bytes * (size - 1) / size);
    CHECK(after[rank].all_gather == bytes * (size - 1) / size);
    CHECK(after[rank].reduce_scatter == bytes * (size - 1) / size);
    CHECK(after[rank].control == (8 + 11) * (size - 1));  // a length, then it and three letters
    broadcast += after[rank].broadcast;
    REQUIRE(records[rank].size() == 6);
    const CollectiveRecord& second = records[rank][1];
    CHECK(second.group == "shard");
    CHECK(second.kind == "all_gather");
    CHECK(second.what == "parameters of block 3");
    CHECK(second.number == 2);
    CHECK(second.bytes == bytes);
    CHECK(second.state == CollectiveRecord::State::kDone);
    CHECK(records[rank][4].group == "control");
  }
  CHECK(broadcast == bytes * (size - 1));  // each rank but the root is given it once
}

TEST_CASE("only the last collectives are kept", "[distributed][multi-rank]") {
  std::vector<std::vector<CollectiveRecord>> records(2);
  CHECK(on_worlds(2, short_limits(), [&](World& world) {
          for (int i = 0; i < 70; ++i) {
            world.control().gather_texts("", "again");
          }
          records[world.rank()] = world.last_collectives();
        }) == nothing(2));
  REQUIRE(records[0].size() == 64);
  CHECK(records[0].back().number == 140);
  CHECK(records[0].front().number == 77);
}

TEST_CASE("a rank that ends makes the others fail, not wait", "[distributed][multi-rank]") {
  const auto began = std::chrono::steady_clock::now();
  const Texts thrown = on_worlds(3, short_limits(), [&](World& world) {
    const auto ranks = all_ranks(3);
    const auto group = world.make_group(ranks, "shard", at::kCPU);
    if (world.rank() == 2) {
      return;  // destroys its world without a word
    }
    at::Tensor whole = at::ones({3000});
    group->all_reduce(whole, "gradients of block 7")->wait();
  });
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
  CHECK(thrown[2].empty());
  for (const uint32_t rank : {0, 1}) {
    CHECK_THAT(thrown[rank], Catch::Contains("[distributed.failed]"));
    CHECK_THAT(thrown[rank], Catch::Contains("all_reduce 1 of group \"shard\""));
    CHECK_THAT(thrown[rank], Catch::Contains("gradients of block 7"));
  }
}

TEST_CASE("leaving tells of a rank that is gone, and does not hang", "[distributed][multi-rank]") {
  const Texts thrown = on_worlds(2, short_limits(), [&](World& world) {
    if (world.rank() == 0) {
      world.leave();
    }
  });
  CHECK_THAT(thrown[0], Catch::Contains("[distributed.failed]"));
  CHECK_THAT(thrown[0], Catch::Contains("leave"));
}

TEST_CASE("a rank that does not answer is given up after the timeout of the phase",
          "[distributed][multi-rank]") {
  WorldOptions options = short_limits();
  options.timeout = milliseconds(3000);  // the end of the start must not take this long
  std::promise<void> over;
  const auto is_over = over.get_future().share();
  std::vector<CollectiveRecord> records;
  const Texts thrown = on_worlds(2, options, [&](World& world) {
    world.end_start();
    if (world.rank() == 1) {
      is_over.wait();
      return;
    }
    struct AtEnd {
      std::promise<void>& promise;
      ~AtEnd() { promise.set_value(); }
    } at_end{over};
    try {
      world.control().gather_texts("", "votes of step 9");
    } catch (const std::exception&) {
      records = world.last_collectives();
      throw;
    }
  });
  CHECK_THAT(thrown[0], Catch::Contains("[distributed.failed]"));
  CHECK_THAT(thrown[0], Catch::Contains("votes of step 9"));
  CHECK_THAT(thrown[0], Catch::Contains("after 3."));
  REQUIRE(records.size() == 1);
  CHECK(records[0].state == CollectiveRecord::State::kFailed);
}

TEST_CASE("abort ends a wait on this rank and on the others", "[distributed][multi-rank]") {
  const auto began = std::chrono::steady_clock::now();
  const Texts thrown = on_worlds(3, short_limits(), [&](World& world) {
    const auto ranks = all_ranks(3);
    const auto group = world.make_group(ranks, "shard", at::kCPU);
    at::Tensor whole = at::ones({3000});
    if (world.rank() == 2) {
      // Never begins the collective: its own wait for another one is ended by another thread.
      std::jthread other([&] {
        while (world.last_collectives().empty()) {
          std::this_thread::yield();
        }
        world.abort("rank 2 has no memory left");
      });
      world.control().gather_texts("", "votes");
      return;
    }
    group->all_reduce(whole, "gradients")->wait();
  });
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
  CHECK_THAT(thrown[2], Catch::Contains("was canceled"));
  CHECK_THAT(thrown[2], Catch::Contains("rank 2 has no memory left"));
  for (const uint32_t rank : {0, 1}) {
    CHECK_THAT(thrown[rank], Catch::Contains("[distributed.failed] all_reduce 1"));
  }
}

TEST_CASE("after abort nothing can be begun", "[distributed][multi-rank]") {
  // A rank that aborts while another still joins would be one that cannot be reached.
  std::barrier joined(2);
  const Texts thrown = on_worlds(2, short_limits(), [&](World& world) {
    joined.arrive_and_wait();
    world.abort("the first reason");
    world.abort("the second reason");
    world.control().gather_texts("", "votes");
  });
  for (const std::string& text : thrown) {
    CHECK_THAT(text, Catch::Contains("was not started: the first reason"));
  }
}

TEST_CASE("a port that another program has is an error of rank 0", "[distributed][multi-rank]") {
  const TakenPort taken;
  WorldOptions options;
  options.start_timeout = milliseconds(2000);
  const Texts thrown =
      on_ranks(1, [&](uint32_t) { World::join(rank_of(0, 2, taken.port()), options); });
  CHECK_THAT(thrown[0], Catch::Contains("[distributed.port_taken]"));
  CHECK_THAT(thrown[0], Catch::Contains("127.0.0.1:" + std::to_string(taken.port())));
}

TEST_CASE("a master that is not there, or is something else, is given up",
          "[distributed][multi-rank]") {
  WorldOptions options;
  options.start_timeout = milliseconds(1500);
  const auto began = std::chrono::steady_clock::now();
  SECTION("no program listens") {
    const Texts thrown =
        on_ranks(1, [&](uint32_t) { World::join(rank_of(1, 2, free_port()), options); });
    CHECK_THAT(thrown[0], Catch::Contains("[distributed.unreachable] the master at 127.0.0.1:"));
  }
  SECTION("somebody listens and never answers") {
    const TakenPort taken;
    const Texts thrown =
        on_ranks(1, [&](uint32_t) { World::join(rank_of(1, 2, taken.port()), options); });
    CHECK_THAT(thrown[0], Catch::Contains("[distributed.unreachable]"));
  }
  SECTION("the name is unknown") {
    RankEnvironment environment = rank_of(1, 2, 29500);
    environment.master_addr = "no-such-host.invalid";
    const Texts thrown = on_ranks(1, [&](uint32_t) { World::join(environment, options); });
    CHECK_THAT(thrown[0], Catch::Contains("[distributed.unreachable]"));
    CHECK_THAT(thrown[0], Catch::Contains("no-such-host.invalid"));
  }
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));
}

TEST_CASE("ranks that do not come are named on every rank that came", "[distributed][multi-rank]") {
  WorldOptions options;
  options.start_timeout = milliseconds(1500);
  const uint16_t port = free_port();
  const Texts thrown = on_ranks(2, [&](uint32_t rank) {
    World::join(rank_of(rank * 2, 4, port), options);  // ranks 0 and 2 of 4
  });
  for (const std::string& text : thrown) {
    CHECK_THAT(text,
               Catch::Contains("[distributed.unreachable] ranks 1 and 3 of 4 did not connect"));
    CHECK_THAT(text, Catch::Contains("ranks 0 and 2 did"));
  }
}

TEST_CASE("an interface that is not there is refused with those that are", "[distributed]") {
  WorldOptions options = short_limits();
  options.interface = "eth99";
  const Texts thrown =
      on_ranks(1, [&](uint32_t) { World::join(rank_of(0, 2, free_port()), options); });
  CHECK_THAT(thrown[0], Catch::Contains("[distributed.no_interface]"));
  CHECK_THAT(thrown[0], Catch::Contains("\"eth99\""));
  CHECK_THAT(thrown[0], Catch::Contains("lo"));
}

TEST_CASE("the interface can be named", "[distributed][multi-rank]") {
  WorldOptions options = short_limits();
  options.interface = "lo";
  CHECK(on_worlds(2, options, [&](World& world) { world.leave(); }) == nothing(2));
}

TEST_CASE("the store is shared by all ranks and by threads of their own",
          "[distributed][multi-rank]") {
  std::vector<std::string> winner(2);
  Texts absent(2);
  Texts seen(2);
  std::vector<int64_t> sum(2);
  CHECK(on_worlds(2, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          const auto store = world.open_store();
          absent[rank] = store->find("nobody/set/it").value_or("absent");
          winner[rank] = store->set_once("first", "rank " + std::to_string(rank));
          store->set("of/" + std::to_string(rank), "here");
          sum[rank] = store->add("count", rank + 1);
          world.control().gather_texts("", "all have written");
          seen[rank] = store->find("of/" + std::to_string(1 - rank)).value_or("");
          sum[rank] = store->add("count", 0);
          world.leave();
        }) == nothing(2));
  CHECK(absent == Texts(2, "absent"));
  CHECK(winner[0] == winner[1]);
  CHECK(contains(winner[0], "rank "));
  CHECK(seen == Texts(2, "here"));
  CHECK(sum == std::vector<int64_t>{3, 3});
}

TEST_CASE("a port is free again after all have left, and a restart meets no old keys",
          "[distributed][multi-rank]") {
  const uint16_t port = free_port();
  for (uint32_t restart = 0; restart < 3; ++restart) {
    CHECK(on_ranks(2, [&](uint32_t rank) {
            RankEnvironment environment = rank_of(rank, 2, port);
            environment.restart = restart;
            const auto world = World::join(environment, short_limits());
            world->control().gather_texts("", "hello");
            world->leave();
          }) == nothing(2));
  }
}

TEST_CASE("ranks that are started again can read what was before, where the store is kept",
          "[distributed][multi-rank]") {
  const StoreServer server;
  std::vector<std::string> found(2);
  for (uint32_t restart = 0; restart < 2; ++restart) {
    CHECK(on_ranks(2, [&](uint32_t rank) {
            RankEnvironment environment = rank_of(rank, 2, server.port());
            environment.is_store_served = true;
            environment.restart = restart;
            const auto world = World::join(environment, short_limits());
            if (restart == 0 && rank == 0) {
              world->open_store()->set("run/folder", "runs/x");
            } else if (restart == 1) {
              found[rank] = world->open_store()->find("run/folder").value_or("") +
                            world->open_earlier_store(0)->find("run/folder").value_or("");
            }
            world->leave();
          }) == nothing(2));
  }
  CHECK(found == std::vector<std::string>(2, "runs/x"));
}

TEST_CASE("ranks of torchrun agree on their start, whatever their agents have counted",
          "[distributed][multi-rank]") {
  const AgentStore agent;
  const std::string secret = GENERATE(std::string(), std::string(64, 'a'));
  const auto of_torchrun = [&](uint32_t rank, uint32_t size, uint32_t count) {
    RankEnvironment environment = agent.rank_of(rank, size, secret);
    environment.restart = count;
    return environment;
  };
  // A machine comes or goes: no agent counts that. Rank 1 alone is lost: only its agent does.
  const std::vector<Texts> counts = {{"0", "0", "0"}, {"0", "0"}, {"0"}, {"0", "1"}, {"0", "1"}};
  for (uint32_t start = 0; start < counts.size(); ++start) {
    const auto size = static_cast<uint32_t>(counts[start].size());
    Texts found(size);
    std::vector<uint32_t> restarts(size);
    CHECK(on_ranks(size, [&](uint32_t rank) {
            const auto count = static_cast<uint32_t>(std::stoul(counts[start][rank]));
            const auto world = World::join(of_torchrun(rank, size, count), short_limits());
            restarts[rank] = world->restart();
            if (rank == 0) {
              const auto store = world->open_store();
              found[rank] = store->find("what").value_or("nothing");
              store->set("what", "of start " + std::to_string(start));
            }
            world->control().gather_texts("", "hello");
            if (start > 0) {
              found[rank] += world->open_earlier_store(start - 1)->find("what").value_or("nothing");
            }
            world->leave();
          }) == nothing(size));
    CHECK(restarts == std::vector<uint32_t>(size, start));
    Texts expected(size, start > 0 ? "of start " + std::to_string(start - 1) : "");
    expected[0] = "nothing" + expected[0];
    CHECK(found == expected);
  }
}

// Why a rank that joins alone gives up. The limit grows while connecting alone takes longer, as it
// can on a busy machine.
std::string message_of_lonely_join(const RankEnvironment& environment) {
  WorldOptions options = short_limits();
  for (options.start_timeout = milliseconds(2000);; options.start_timeout *= 2) {
    try {
      World::join(environment, options);
      return "";
    } catch (const Error& error) {
      const std::string message = error.what();
      if (!contains(message, "did not answer") || options.start_timeout > milliseconds(30000)) {
        return message;
      }
    }
  }
}

TEST_CASE("what a rank has left that was lost while ranks met confuses none",
          "[distributed][multi-rank]") {
  const AgentStore agent;
  const auto of_torchrun = [&](uint32_t rank) { return agent.rank_of(rank, 2); };
  CHECK_THAT(message_of_lonely_join(of_torchrun(1)),
             Catch::Contains("rank 0 of 2 did not connect to the launcher's store"));
  CHECK_THAT(message_of_lonely_join(of_torchrun(0)), Catch::Contains("rank 1 of 2"));
  CHECK(on_ranks(2, [&](uint32_t rank) {
          const auto world = World::join(of_torchrun(rank), short_limits());
          world->control().gather_texts("", "hello");
          world->leave();
        }) == nothing(2));
}

// Sets the variable that asks for a bad network, for as long as it lives.
class BadNetwork {
 public:
  explicit BadNetwork(const char* text) { setenv("TENON_TEST_COLLECTIVES", text, 1); }
  ~BadNetwork() { unsetenv("TENON_TEST_COLLECTIVES"); }
  BadNetwork(const BadNetwork&) = delete;
  BadNetwork& operator=(const BadNetwork&) = delete;
};

TEST_CASE("what is sent late is late together, and the caller does not wait",
          "[distributed][multi-rank]") {
  const uint32_t size = GENERATE(2u, 3u);
  const BadNetwork bad("delay_ms=500");
  std::vector<int> num_done_at_once(size);
  std::vector<double> seconds(size);
  std::vector<double> sums(size);
  CHECK(on_worlds(size, short_limits(), [&](World& world) {
          const uint32_t rank = world.rank();
          const auto ranks = all_ranks(size);
          const auto group = world.make_group(ranks, "shard", at::kCPU);
          std::vector<at::Tensor> tensors;
          std::vector<std::unique_ptr<Work>> works;
          world.control().gather_texts("", "all are there");
          const auto began = std::chrono::steady_clock::now();
          for (int i = 0; i < 16; ++i) {
            tensors.push_back(at::full({1000}, 1.0 + rank + i));
          }
          for (at::Tensor& tensor : tensors) {
            works.push_back(group->all_reduce(tensor, "gradients"));
          }
          for (const auto& work : works) {
            num_done_at_once[rank] += work->is_done() ? 1 : 0;
          }
          for (const auto& work : works) {
            work->wait();
          }
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
          seconds[rank] = took.count();
          sums[rank] = tensors[15][999].item<double>();
          world.leave();
        }) == nothing(size));
  for (uint32_t rank = 0; rank < size; ++rank) {
    CHECK(num_done_at_once[rank] == 0);
    // One delay for each exchange of a collective, and not one for each collective.
    CHECK(seconds[rank] >= 0.5);
    CHECK(seconds[rank] < 16 * 0.5);
    CHECK(sums[rank] == (size == 2 ? 33 : 51));
  }
}

TEST_CASE("a rank that is cut off is named by those that hear nothing of it",
          "[distributed][multi-rank]") {
  const BadNetwork bad("drop_after=4,rank=1");
  WorldOptions options = short_limits();
  options.timeout = milliseconds(400);
  const auto began = std::chrono::steady_clock::now();
  const Texts thrown = on_worlds(3, options, [&](World& world) {
    world.end_start();
    for (int i = 0; i < 10; ++i) {
      world.control().gather_texts("", "votes of step " + std::to_string(i));
    }
  });
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  for (const uint32_t rank : {0, 2}) {
    CHECK_THAT(thrown[rank], Catch::Contains("gather 3 of group \"control\" (votes of step 1"));
    CHECK_THAT(thrown[rank], Catch::Contains("rank 1"));
  }
  CHECK_THAT(thrown[1], Catch::Contains("no answer from ranks 0 and 2"));
}

TEST_CASE("a wait on a cut-off network ends with abort", "[distributed][multi-rank]") {
  const BadNetwork bad("drop_after=0");
  const Texts thrown = on_worlds(2, short_limits(), [&](World& world) {
    std::jthread other([&] {
      while (world.last_collectives().empty()) {
        std::this_thread::yield();
      }
      world.abort("the test is over");
    });
    world.control().gather_texts("", "votes");
  });
  for (const std::string& text : thrown) {
    CHECK_THAT(text, Catch::Contains("the test is over"));
  }
}

TEST_CASE("what asks for a bad network must be readable", "[distributed]") {
  const BadNetwork bad(
      GENERATE("delay_ms", "delay_ms=x", "speed=3", "rank=1,", "delay_ms=5;rank=1"));
  const Texts thrown = on_worlds(2, short_limits(), [&](World&) {});
  CHECK_THAT(thrown[0], Catch::Contains("[distributed.bad_environment] TENON_TEST_COLLECTIVES="));
}

TEST_CASE("the checking mode names two ranks that begin different collectives",
          "[distributed][multi-rank]") {
  WorldOptions options = short_limits();
  options.check_collectives = true;
  const std::string what = GENERATE("kind", "size", "dtype", "purpose", "none");
  CAPTURE(what);
  const Texts thrown = on_worlds(3, options, [&](World& world) {
    const auto ranks = all_ranks(3);
    const auto group = world.make_group(ranks, "shard", at::kCPU);
    const bool is_other = world.rank() == 2 && what != "none";
    at::Tensor whole = at::ones({is_other && what == "size" ? 12 : 9},
                                is_other && what == "dtype" ? at::kDouble : at::kFloat);
    const std::string purpose = is_other && what == "purpose" ? "block 2" : "block 1";
    if (is_other && what == "kind") {
      group->broadcast(whole, 0, purpose)->wait();
    } else {
      group->all_reduce(whole, purpose)->wait();
    }
    world.leave();
  });
  if (what == "none") {
    CHECK(thrown == nothing(3));
    return;
  }
  for (const std::string& text : thrown) {
    CHECK_THAT(text, Catch::Contains("[distributed.mismatch]"));
    CHECK_THAT(
        text,
        Catch::Contains("rank 0 begins all_reduce 1 of group \"shard\" (block 1) (9 of Float)"));
    CHECK_THAT(text,
               Catch::Contains(what == "kind"    ? "rank 2 begins broadcast 1"
                               : what == "size"  ? "(block 1) (12 of Float)"
                               : what == "dtype" ? "(block 1) (9 of Double)"
                                                 : "(block 2) (9 of Float)"));
  }
}

TEST_CASE("several ranks on GPUs need a module with NCCL", "[distributed][multi-rank]") {
  // No GPU was opened in this process, so no module is loaded.
  const Texts thrown = on_worlds(2, short_limits(), [&](World& world) {
    const auto ranks = all_ranks(2);
    world.make_group(ranks, "shard", c10::Device(at::kCUDA, 0));
  });
  for (const std::string& text : thrown) {
    CHECK_THAT(text, Catch::Contains("[device.unavailable]"));
    CHECK_THAT(text, Catch::Contains("NCCL"));
  }
}

}  // namespace
}  // namespace tenon
