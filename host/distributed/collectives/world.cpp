// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/world.hpp"

#include "host/device/gpu_module.hpp"
#include "host/distributed/collectives/collective_check.hpp"
#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/faulty_backend.hpp"
#include "host/distributed/collectives/gloo_backend.hpp"
#include "host/distributed/collectives/memory_backend.hpp"
#include "host/distributed/collectives/peer_exchange.hpp"
#include "host/distributed/collectives/peer_group.hpp"
#include "host/distributed/collectives/peer_proof.hpp"
#include "host/distributed/collectives/stream_group.hpp"
#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/bounded_store.hpp"
#include "host/distributed/ranks/elastic_round.hpp"
#include "host/distributed/ranks/network_address.hpp"
#include "host/distributed/ranks/open_files.hpp"
#include "host/distributed/ranks/quiet_c10d.hpp"
#include "host/distributed/ranks/rank_store.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"
#include "host/text/rank_list.hpp"
#include "host/text/seconds_text.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

namespace tenon {
namespace {

using std::chrono::milliseconds;

// How long ranks wait for the last message of other ranks when a run ends normally.
constexpr std::chrono::seconds kFarewell{3};
constexpr char kNccl[] = "nccl";
constexpr char kHasLeft[] = "this rank has left";

milliseconds left_until(AwakeClock::time_point end) {
  return std::max(milliseconds(1),
                  std::chrono::duration_cast<milliseconds>(end - AwakeClock::now()));
}

// Each torchrun agent counts restarts separately, so keys exclude its count. If no agent holds the
// store, rank 0 opens a new store for each start, and such keys suffice.
StoreOf keys_of(const RankEnvironment& environment) {
  return environment.launcher == "torchrun" && !environment.is_store_served ? StoreOf::kJob
                                                                            : StoreOf::kStart;
}

class LoneWorld final : public World {
 public:
  LoneWorld(const RankEnvironment& environment, const WorldOptions& options)
      : environment_(environment), limit_(options.start_timeout) {}

  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  Group& control() override { return control_; }
  uint32_t restart() const override { return environment_.restart; }
  std::unique_ptr<Group> make_group(std::span<const uint32_t>,
                                    std::string_view,
                                    c10::Device) override {
    return std::make_unique<LocalGroup>();
  }
  std::unique_ptr<Store> open_store() override { return open_earlier_store(environment_.restart); }
  std::unique_ptr<Store> open_earlier_store(uint32_t restart) override {
    if (!environment_.is_store_served) {
      return nullptr;
    }
    RankEnvironment of = environment_;
    of.restart = restart;
    return make_bounded_store(open_rank_store(of, StoreRole::kClient, limit_),
                              [limit = limit_] { return limit; });
  }
  void reconnect() override {}
  void end_start() override {}
  void abort(const std::string&) override {}
  Traffic traffic() const override { return {}; }
  std::vector<CollectiveRecord> last_collectives() const override { return {}; }
  void leave() override {}

 private:
  const RankEnvironment environment_;
  const milliseconds limit_;
  LocalGroup control_;
};

// How to reach another rank.
struct Whereabouts {
  std::string address;
  std::string neighbourhood;  // of its memory; "" if memory is not shared
};

// Publishes how to reach this rank, and waits until all ranks have done so. Returns the entries of
// all ranks, by rank.
std::vector<Whereabouts> meet(c10d::Store& store,
                              const RankEnvironment& environment,
                              const Whereabouts& own,
                              milliseconds limit,
                              AwakeClock::time_point end) {
  const auto key_of = [](uint32_t rank) { return formatted("rank/{}", rank); };
  std::vector<Whereabouts> all(environment.world_size);
  std::string lost;
  try {
    store.set(key_of(environment.rank), own.address + "\n" + own.neighbourhood);
    for (;;) {
      std::vector<std::string> missing;
      for (uint32_t rank = 0; rank < environment.world_size; ++rank) {
        if (all[rank].address.empty() && store.check({key_of(rank)})) {
          const std::string text = store.get_to_str(key_of(rank));
          const size_t line = std::min(text.find('\n'), text.size());
          all[rank] = {text.substr(0, line), text.substr(std::min(line + 1, text.size()))};
        }
        if (all[rank].address.empty()) {
          missing.push_back(key_of(rank));
        }
      }
      if (missing.empty()) {
        return all;
      }
      if (AwakeClock::now() >= end) {
        break;
      }
      try {
        store.wait(missing, std::min(left_until(end), milliseconds(1000)));
      } catch (const Error&) {
        throw;
      } catch (const std::exception& error) {
        // Either ranks are still missing, or the store is lost: the next check shows which.
        lost = what_without_backtrace(error.what());
      }
    }
    lost.clear();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    lost = what_without_backtrace(error.what());
  }
  std::vector<uint32_t> came;
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < environment.world_size; ++rank) {
    (all[rank].address.empty() && rank != environment.rank ? missing : came).push_back(rank);
  }
  throw Error("distributed.unreachable",
              formatted("{} of {} did not connect within {}; {} did{}; check the logs of the "
                        "missing ranks, and that all ranks have the same MASTER_ADDR and "
                        "MASTER_PORT (limit: parallel.start_timeout_seconds)",
                        rank_list(missing),
                        environment.world_size,
                        seconds_text(limit),
                        rank_list(came),
                        lost.empty() ? "" : formatted(", then the store was lost ({})", lost)));
}

// Waits until all `size` ranks of a group have connected. Otherwise a rank that connects early, and
// then fails or leaves at once, would look unreachable to the others.
void await_connected(c10d::Store& store, size_t size, milliseconds timeout) {
  const std::string last = "all connected";
  if (store.add("connected", 1) == static_cast<int64_t>(size)) {
    store.set(last, "yes");
    return;
  }
  store.wait({last}, timeout);
}

// Calls `make`, and reports its failure as distributed.unreachable.
template <class Make>
auto reaching(Make&& make) {
  try {
    return make();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error("distributed.unreachable",
                "rendezvous succeeded, but the ranks cannot connect to each other: " +
                    std::string(what_without_backtrace(error.what())) +
                    "; check for a firewall between them, or set parallel.interface");
  }
}

class ConnectedWorld final : public World {
 public:
  ConnectedWorld(const RankEnvironment& environment, const WorldOptions& options)
      : environment_(environment),
        options_(options),
        log_(environment.rank),
        faults_(read_network_faults(environment.rank)) {
    log_.set_limit(options.start_timeout);
    const auto end = AwakeClock::now() + options.start_timeout;
    if (!options.interface.empty()) {
      check_network_interface(options.interface);
    }
    allow_connections(rank(), size());
    const QuietC10d quiet;
    const bool is_server = environment.rank == 0 && !environment.is_store_served;
    address_ = local_address_towards(environment.master_addr, environment.master_port, end);
    store_ = open_rank_store(environment,
                             is_server ? StoreRole::kServer : StoreRole::kClient,
                             options.start_timeout,
                             keys_of(environment));
    const Whereabouts own{address_, options.share_memory ? memory_neighbourhood() : ""};
    whereabouts_ = meet(*store_, environment, own, options.start_timeout, end);
    // The master's own name may resolve to loopback on its machine, which other ranks cannot reach.
    if (is_loopback(address_)) {
      const auto far = std::ranges::find_if_not(whereabouts_, is_loopback, &Whereabouts::address);
      if (far != whereabouts_.end()) {
        address_ = local_address_towards(far->address, environment.master_port, end);
      }
    }
    connect_control(left_until(end));
  }

  ~ConnectedWorld() override {
    // Destroying a backend waits for its unfinished operations.
    abort(kHasLeft);
    control_.reset();
    backends_.clear();
  }
  ConnectedWorld(const ConnectedWorld&) = delete;
  ConnectedWorld& operator=(const ConnectedWorld&) = delete;

  uint32_t rank() const override { return environment_.rank; }
  uint32_t size() const override { return environment_.world_size; }
  Group& control() override { return *control_; }
  uint32_t restart() const override { return environment_.restart; }

  std::unique_ptr<Group> make_group(std::span<const uint32_t> ranks,
                                    std::string_view name,
                                    c10::Device device) override {
    if (ranks.size() == 1) {
      return std::make_unique<LocalGroup>();
    }
    const std::string text(name);
    if (!device.is_cpu()) {
      c10d::Backend& backend = connect_nccl(ranks, text);
      return make_stream_group(log_, backend, connect_check(ranks, text), ranks, text, device);
    }
    return make_peer_group(log_,
                           connect(ranks, text, MemoryRoom::kForTensors, log_.limit()),
                           connect_check(ranks, text),
                           text);
  }

  std::unique_ptr<Store> open_store() override {
    return open_store_of(environment_, keys_of(environment_));
  }

  std::unique_ptr<Store> open_earlier_store(uint32_t restart) override {
    RankEnvironment earlier = environment_;
    earlier.restart = restart;
    return open_store_of(earlier, StoreOf::kStart);
  }

  void reconnect() override {
    abort("the groups are made again");
    control_.reset();
    {
      const std::lock_guard lock(mutex_);
      backends_.clear();
    }
    num_groups_.clear();
    ++num_reconnects_;
    log_.restart();
    connect_control(log_.limit());
  }

  void end_start() override {
    log_.set_limit(options_.timeout);
    const std::lock_guard lock(mutex_);
    for (const auto& backend : backends_) {
      if (backend->getBackendName() == kNccl) {
        backend->setTimeout(options_.timeout);  // for NCCL's watchdog
      }
    }
  }

  void abort(const std::string& reason) override {
    log_.abort(reason);
    abort_backends();
  }

  Traffic traffic() const override { return log_.traffic(); }
  std::vector<CollectiveRecord> last_collectives() const override { return log_.last(); }

  void leave() override {
    if (store_ == nullptr) {
      return;
    }
    const std::byte nothing{};
    try {
      control_->start_gather(std::span(&nothing, 1), "leave")->wait();
      // Closing a connection while the other side still writes loses data. So ranks close
      // connections after all have read everything, and the store after all have left it.
      const bool holds_store = rank() == 0 && !environment_.is_store_served;
      const auto farewell = make_bounded_store(store_, [] { return kFarewell; });
      wait_for_all(*farewell, "left", Await::kYes);
      log_.abort(kHasLeft);
      abort_backends();
      wait_for_all(*farewell, "gone", holds_store ? Await::kYes : Await::kNo);
    } catch (const Error&) {
      close();
      throw;
    }
    close();
  }

 private:
  std::unique_ptr<Store> open_store_of(const RankEnvironment& environment, StoreOf of) {
    const auto limit = [this] { return log_.limit(); };
    auto store = make_bounded_store(
        open_rank_store(environment, StoreRole::kClient, log_.limit(), of), limit);
    return faults_ != nullptr ? make_faulty_store(std::move(store), faults_, limit)
                              : std::move(store);
  }

  void connect_control(milliseconds timeout) {
    std::vector<uint32_t> all(size());
    std::iota(all.begin(), all.end(), 0U);
    control_ = make_peer_group(log_,
                               connect(all, "control", MemoryRoom::kForWords, timeout),
                               connect_check(all, "control"),
                               "control");
  }

  enum class Await { kYes, kNo };

  // Reports that this rank has reached `key`. With kYes, waits at most kFarewell for the others.
  void wait_for_all(Store& store, const std::string& key, Await await) {
    const auto end = AwakeClock::now() + kFarewell;
    for (int64_t now = store.add(key, 1);
         await == Await::kYes && now < size() && AwakeClock::now() < end;
         now = store.add(key, 0)) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  void abort_backends() {
    const std::lock_guard lock(mutex_);
    for (const auto& backend : backends_) {
      backend->abort();
    }
  }

  void close() {
    abort(kHasLeft);
    store_.reset();
  }

  // The store in which the ranks of a new group meet, and the number of this rank in the group.
  struct Rendezvous {
    c10::intrusive_ptr<c10d::Store> store;
    uint32_t rank = 0;
    std::string name;  // no other group of this start has it
  };

  Rendezvous rendezvous_of(std::span<const uint32_t> ranks, const std::string& name) {
    std::string members;
    for (const uint32_t rank : ranks) {
      members += formatted("{} ", rank);
    }
    // Counted for each set of members, so that groups of other ranks do not matter.
    const std::string key = formatted(
        "group/{}/{}/{}/{}", num_reconnects_, name, members, ++num_groups_[name + members]);
    return {.store = c10::make_intrusive<c10d::PrefixStore>(key, store_),
            .rank = static_cast<uint32_t>(std::ranges::find(ranks, rank()) - ranks.begin()),
            .name = formatted("{} {}", environment_.restart, key)};
  }

  std::unique_ptr<PeerExchange> connect(std::span<const uint32_t> ranks,
                                        const std::string& name,
                                        MemoryRoom room,
                                        milliseconds timeout) {
    const Rendezvous rendezvous = rendezvous_of(ranks, name);
    const auto size = static_cast<uint32_t>(ranks.size());
    auto backend = reaching([&] {
      c10::intrusive_ptr<c10d::Backend> made;
      if (are_neighbours(ranks)) {
        made = make_memory_backend(*rendezvous.store, rendezvous.rank, size, room, timeout);
      }
      if (made == nullptr) {
        if (device_ == nullptr) {  // ranks that share memory need no port
          device_ = open_gloo_device(options_.interface, address_);
        }
        made = make_gloo_backend(device_, rendezvous.store, rendezvous.rank, size, timeout);
        await_connected(*rendezvous.store, size, timeout);
        PeerExchange unproved(*made, ranks);
        prove_peers(unproved,
                    run_key(environment_.secret, environment_.run_id, "peers"),
                    rendezvous.name,
                    AwakeClock::now() + timeout);
        return made;
      }
      await_connected(*rendezvous.store, size, timeout);
      return made;
    });
    if (faults_ != nullptr) {
      backend = make_faulty_backend(std::move(backend), faults_);
    }
    const std::lock_guard lock(mutex_);
    backends_.push_back(std::move(backend));
    return std::make_unique<PeerExchange>(*backends_.back(), ranks);
  }

  // Returns true if all `ranks` may share memory with each other.
  bool are_neighbours(std::span<const uint32_t> ranks) const {
    const std::string& own = whereabouts_[rank()].neighbourhood;
    return !own.empty() && std::ranges::all_of(ranks, [&](uint32_t other) {
      return whereabouts_[other].neighbourhood == own;
    });
  }

  c10d::Backend& connect_nccl(std::span<const uint32_t> ranks, const std::string& name) {
    const GpuModule* const module = loaded_gpu_module();
    if (module == nullptr || module->make_nccl == nullptr) {
      throw Error("device.unavailable",
                  "several ranks on GPUs need NCCL, but the CUDA module was built without its "
                  "header; run `./dev deps --cuda` and build again, or pass --device cpu");
    }
    const Rendezvous rendezvous = rendezvous_of(ranks, name);
    auto backend = reaching([&] {
      return module->make_nccl(
          rendezvous.store, rendezvous.rank, static_cast<uint32_t>(ranks.size()), log_.limit());
    });
    const std::lock_guard lock(mutex_);
    backends_.push_back(std::move(backend));
    return *backends_.back();
  }

  std::unique_ptr<CollectiveCheck> connect_check(std::span<const uint32_t> ranks,
                                                 const std::string& name) {
    return options_.check_collectives
               ? std::make_unique<CollectiveCheck>(
                     connect(ranks, name + " check", MemoryRoom::kForWords, log_.limit()))
               : nullptr;
  }

  const RankEnvironment environment_;
  const WorldOptions options_;
  CollectiveLog log_;
  const std::shared_ptr<NetworkFaults> faults_;  // shared by the backends
  c10::intrusive_ptr<c10d::Store> store_;
  std::vector<Whereabouts> whereabouts_;  // by rank
  std::string address_;                   // at which other ranks reach this one
  std::shared_ptr<GlooDevice> device_;    // shared by the backends; null until one needs it
  std::mutex mutex_;                      // guards backends_
  std::vector<c10::intrusive_ptr<c10d::Backend>> backends_;
  std::map<std::string, int> num_groups_;
  int num_reconnects_ = 0;
  std::unique_ptr<Group> control_;
};

// Sets the start number on which all ranks agree, if a torchrun agent holds the store.
RankEnvironment resolved(RankEnvironment environment, const WorldOptions& options) {
  if (environment.launcher == "torchrun" && environment.is_store_served) {
    const auto end = AwakeClock::now() + options.start_timeout;
    const auto store =
        open_rank_store(environment, StoreRole::kClient, options.start_timeout, StoreOf::kJob);
    environment.restart = agree_on_round(*store, environment.rank, environment.world_size, end);
  }
  return environment;
}

}  // namespace

std::unique_ptr<World> World::join(const RankEnvironment& environment,
                                   const WorldOptions& options) {
  const RankEnvironment known = resolved(environment, options);
  if (known.world_size == 1) {
    return std::make_unique<LoneWorld>(known, options);
  }
  return std::make_unique<ConnectedWorld>(known, options);
}

}  // namespace tenon
