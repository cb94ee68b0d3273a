// SPDX-License-Identifier: Apache-2.0
//
// Another user of the machine, who tries all that the ports of a run offer. If the test runs as
// root, the stranger is the user nobody; otherwise it is this user, without the secret of the run.
#include "host/trust/secrets/psk_channel.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/agent_store.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/raw_connection.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;
constexpr int kStoppedOnRequest = 75;          // as if nobody had disturbed the run
constexpr const char* kLoopback = "0100007F";  // 127.0.0.1, as /proc/net/tcp has it

std::string long_recipe(const std::string& patch = "{}") {
  nlohmann::json recipe = nlohmann::json::parse(small_recipe(R"({
    "train": {"steps": 100000000, "log_every": 100, "global_batch_size": 8},
    "parallel": {"timeout_seconds": 60}})"));
  recipe.merge_patch(nlohmann::json::parse(patch));
  return recipe.dump();
}

struct OpenPort {
  std::string address;
  uint16_t port = 0;
  bool operator<(const OpenPort& other) const {
    return std::tie(address, port) < std::tie(other.address, other.port);
  }
};

// The ports at which these processes listen.
std::set<OpenPort> open_ports(const std::vector<pid_t>& processes) {
  std::set<std::string> sockets;
  for (const pid_t process : processes) {
    std::error_code gone;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
      sockets.insert(fs::read_symlink(entry.path(), gone).string());
    }
  }
  std::set<OpenPort> ports;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
      const bool is_listening = word.size() > 9 && word[3] == "0A";
      if (is_listening && sockets.contains("socket:[" + word[9] + "]")) {
        const size_t colon = word[1].find(':');
        ports.insert({word[1].substr(0, colon),
                      static_cast<uint16_t>(std::stoul(word[1].substr(colon + 1), nullptr, 16))});
      }
    }
  }
  return ports;
}

constexpr std::chrono::milliseconds kPatience(50);

// A request to c10d's store: a kind, and texts with their sizes.
std::string c10d_request(char kind, const std::vector<std::string>& texts) {
  std::string request(1, kind);
  for (const std::string& text : texts) {
    const uint64_t size = text.size();
    request.append(reinterpret_cast<const char*>(&size), sizeof(size));
    request += text;
  }
  return request;
}

// Tries all that is known against one port. Returns the number of tries that got more than an alert
// of TLS, which has 7 bytes.
int attack(uint16_t port) {
  const std::string hello("\0\xce\xf7\x85\x3c", 5);
  std::vector<std::string> tries = {"GET / HTTP/1.0\r\n\r\n",
                                    std::string(1 << 20, '\xff'),
                                    std::string(64, '\0'),
                                    hello + c10d_request(1, {"tenon//0/failure/first", "{}"}),
                                    hello + c10d_request(1, {"tenon//0/run/folder", "/tmp"}),
                                    hello + c10d_request(1, {"junk", std::string(4 << 20, 'x')}),
                                    hello + c10d_request(3, {"tenon//0/run/folder"}),
                                    hello + c10d_request(7, {})};
  for (char kind = 0; kind < 24; ++kind) {  // list_keys is among them
    tries.push_back(hello + std::string(1, kind));
  }
  RunKey key{};
  for (const char* const purpose : {"store", "peers"}) {  // without the secret, but as a rank
    key = run_key("", "", purpose);
    PskChannel channel(PskChannel::Role::kClient, key);
    channel.start();
    tries.push_back(channel.take_outgoing());
  }
  int num_answered = 0;
  for (const std::string& text : tries) {
    num_answered += RawConnection(port, kPatience).answer_to(text).size() > 7 ? 1 : 0;
  }
  std::vector<std::unique_ptr<RawConnection>> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(std::make_unique<RawConnection>(port, kPatience));
  }
  return num_answered;
}

// Runs `attack` on each port as another user. Returns the number of tries that were answered.
int attack_as_stranger(const std::set<OpenPort>& ports) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) {
      ::_exit(250);
    }
    int num_answered = 0;
    for (const OpenPort& open : ports) {
      num_answered += attack(open.port);
    }
    ::_exit(std::min(num_answered, 200));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

std::string files_of(const fs::path& folder) {
  std::string all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    all += entry.is_regular_file() ? file_text(entry.path()) : "";
  }
  return all;
}

std::string proc_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  return file_text(folder + "/environ") + file_text(folder + "/cmdline");
}

std::map<std::string, std::string> by_hand(uint32_t rank, uint16_t port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"LOCAL_RANK", std::to_string(rank)},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

bool has_trained(const fs::path& run) {
  return fs::exists(run / "metrics.jsonl") && fs::file_size(run / "metrics.jsonl") > 0;
}

// The only rank of an agent's job, whose store names the folder `victim`.
SubprocessResult run_under_agent(const AgentStore& agent,
                                 const fs::path& scratch,
                                 const std::string& home) {
  const fs::path recipe = scratch / "recipe.json";
  std::ofstream(recipe) << small_recipe();
  return run_host({"--recipe", recipe.string()},
                  {.working_dir = scratch.string(),
                   .environment = {{"TORCHELASTIC_RUN_ID", "job"},
                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                   {"RANK", "0"},
                                   {"WORLD_SIZE", "1"},
                                   {"LOCAL_RANK", "0"},
                                   {"LOCAL_WORLD_SIZE", "1"},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", std::to_string(agent.port())},
                                   {"HOME", home},
                                   {"XDG_CONFIG_HOME", ""}}});
}

}  // namespace

TEST_CASE("a stranger neither reads nor ends a run of --launch", "[faults][ranks]") {
  const ScratchFolder scratch;
  const fs::path run_dir = scratch.path() / "run";
  const bool shares_memory = GENERATE(true, false);
  StartedRun run(
      scratch.write("recipe.json",
                    long_recipe(shares_memory ? "{}" : R"({"parallel": {"share_memory": false}})")),
      run_dir,
      {"--launch", "2"});
  wait_until([&] { return has_trained(run_dir); });
  const std::set<OpenPort> ports = open_ports(run.processes());
  // The launcher's store, and ports of ranks that do not share memory.
  CHECK(ports.size() == (shares_memory ? 1 : 3));
  for (const OpenPort& open : ports) {
    CHECK(open.address == kLoopback);
  }
  CHECK(attack_as_stranger(ports) == 0);
  CHECK_FALSE(run.has_ended());
  run.signal(SIGTERM);
  CHECK(run.wait() == kStoppedOnRequest);
  const std::string log = file_text(run_dir / "log.txt") + run.err();
  CHECK(log.find("frame #") == std::string::npos);  // of a backtrace
  CHECK(log.find("[distributed.") == std::string::npos);
}

TEST_CASE("a stranger neither reads nor ends ranks that were started by hand",
          "[faults][ranks][.release]") {
  const ScratchFolder scratch;
  const fs::path run_dir = scratch.path() / "run";
  const fs::path recipe = scratch.write("recipe.json", long_recipe());
  const uint16_t port = free_loopback_port();
  const std::string secret(64, 'a');
  std::vector<std::unique_ptr<StartedRun>> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    auto environment = by_hand(rank, port);
    environment["TENON_RUN_SECRET"] = secret;
    ranks.push_back(
        std::make_unique<StartedRun>(recipe, run_dir, std::vector<std::string>(), environment));
  }
  wait_until([&] { return has_trained(run_dir); });
  const std::set<OpenPort> ports = open_ports({ranks[0]->process(), ranks[1]->process()});
  REQUIRE(ports.size() == 1);
  CHECK(ports.begin()->address == kLoopback);
  CHECK(ports.begin()->port == port);
  CHECK(attack_as_stranger(ports) == 0);
  // The secret is nowhere but in the memory of the ranks.
  for (const auto& rank : ranks) {
    CHECK(proc_of(rank->process()).find(secret) == std::string::npos);
    CHECK_FALSE(rank->has_ended());
  }
  ranks[1]->signal(SIGTERM);
  for (const auto& rank : ranks) {
    CHECK(rank->wait() == kStoppedOnRequest);
    CHECK((rank->out() + rank->err()).find(secret) == std::string::npos);
  }
  CHECK(files_of(run_dir).find(secret) == std::string::npos);
  CHECK_THAT(file_text(run_dir / "log.txt"),
             Catch::Contains("refused a connection to the store of the ranks from 127.0.0.1"));
}

TEST_CASE("ranks with different secrets end with an error, and none is blamed", "[faults][ranks]") {
  const ScratchFolder scratch;
  const fs::path run_dir = scratch.path() / "run";
  const fs::path recipe =
      scratch.write("recipe.json", long_recipe(R"({"parallel": {"start_timeout_seconds": 5}})"));
  const uint16_t port = free_loopback_port();
  std::vector<std::unique_ptr<StartedRun>> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    auto environment = by_hand(rank, port);
    environment["TENON_RUN_SECRET"] = std::string(64, rank == 0 ? 'a' : 'b');
    ranks.push_back(std::make_unique<StartedRun>(recipe,
                                                 scratch.path() / ("run-" + std::to_string(rank)),
                                                 std::vector<std::string>(),
                                                 environment));
  }
  CHECK(ranks[1]->wait() == 5);
  CHECK_THAT(ranks[1]->err(), Catch::Contains("[distributed.unauthenticated]"));
  CHECK(ranks[0]->wait() == 5);
  CHECK_THAT(ranks[0]->err(), Catch::Contains("[distributed.unreachable] rank 1 of 2"));
}

TEST_CASE("a restart never adopts a run folder that a stranger names",
          "[faults][ranks][.release]") {
  const ScratchFolder scratch;
  const fs::path victim = scratch.path() / "victim";
  REQUIRE(run_host(scratch.write("victim.json", small_recipe()), victim).exit_code == 0);
  scratch.write("victim/thesis.csv", "years of work");
  const auto files = [&] { return files_of(victim); };
  const std::string before = files();
  const AgentStore agent;  // as it was left by a start that named another run's folder
  agent.keys().set("tenon/job/round/number", std::string("1"));
  agent.keys().set("tenon/job/0/run/folder", victim.string());
  SECTION("with the user's secret, what a stranger wrote is not seen") {
    const SubprocessResult result = run_under_agent(agent, scratch.path(), scratch.path().string());
    INFO(result.err);
    CHECK(result.exit_code == 0);
  }
  SECTION("without a secret, a restart needs the name of the folder") {
    const SubprocessResult result = run_under_agent(agent, scratch.path(), "");
    CHECK(result.exit_code == 5);
    CHECK_THAT(result.err,
               Catch::Contains("[distributed.unauthenticated] the ranks were restarted") &&
                   Catch::Contains("pass --run-dir"));
  }
  CHECK(files() == before);
}

}  // namespace tenon
