// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_environment.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace tenon {
namespace {

// If no port is set, it is derived from the job, so that two jobs on a machine differ. The range
// 20000 to 29999 is below the ports that systems assign automatically.
constexpr uint32_t kFirstPort = 20000;
constexpr uint32_t kNumPorts = 10000;

uint16_t port_of_job(std::string_view job) {
  uint32_t hash = 2166136261U;  // FNV-1a: only has to be the same on each rank
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return static_cast<uint16_t>(kFirstPort + hash % kNumPorts);
}

bool is_set(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found != environment.end() && !found->second.empty();
}

// Reads the variables of one launcher, and collects the errors in them.
class Variables {
 public:
  Variables(const Environment& environment, std::string launcher)
      : environment_(environment), launcher_(std::move(launcher)) {}

  bool has(const std::string& name) const { return is_set(environment_, name); }

  std::string text(const std::string& name) {
    if (!has(name)) {
      return "";
    }
    found_.push_back(name + "=" + environment_.at(name));
    return environment_.at(name);
  }

  std::string required_text(const std::string& name) {
    if (!has(name)) {
      missing_.push_back(name);
    }
    return text(name);
  }

  uint32_t number(const std::string& name, uint32_t fallback, uint32_t limit = 1U << 24) {
    const std::string value = text(name);
    return value.empty() ? fallback : parsed(name, value, limit);
  }

  uint32_t required_number(const std::string& name, uint32_t limit = 1U << 24) {
    const std::string value = required_text(name);
    return value.empty() ? 0 : parsed(name, value, limit);
  }

  void wrong(const std::string& what) { wrong_.push_back(what); }

  // Errors  distributed.bad_environment if anything was missing or wrong
  void check() const {
    if (missing_.empty() && wrong_.empty()) {
      return;
    }
    std::string message = "invalid launcher variables of " + launcher_ + ": ";
    message += missing_.empty() ? "" : "missing " + joined(missing_);
    message += missing_.empty() || wrong_.empty() ? "" : "; ";
    message += joined(wrong_);
    message += "; found: " + (found_.empty() ? std::string("nothing") : joined(found_)) +
               "; start the ranks with --launch, torchrun, mpirun or srun, or unset these "
               "variables to train on one rank";
    throw Error("distributed.bad_environment", message);
  }

 private:
  uint32_t parsed(const std::string& name, const std::string& value, uint32_t limit) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number > limit) {
      wrong(formatted("{} is not a number from 0 to {}", name, limit));
      return 0;
    }
    return number;
  }

  const Environment& environment_;
  std::string launcher_;
  std::vector<std::string> found_;
  std::vector<std::string> missing_;
  std::vector<std::string> wrong_;
};

constexpr uint32_t kMaxPort = 65535;

// "[::1]", as in addresses with a port: the resolver knows "::1".
std::string without_brackets(const std::string& address) {
  const bool has_brackets = address.size() > 2 && address.front() == '[' && address.back() == ']';
  return has_brackets ? address.substr(1, address.size() - 2) : address;
}

void check_ranks(Variables& variables, const RankEnvironment& ranks) {
  variables.check();
  if (ranks.rank >= ranks.world_size) {
    variables.wrong(
        formatted("rank {} is not below the world size of {}", ranks.rank, ranks.world_size));
  }
  if (ranks.local_rank >= ranks.local_world_size) {
    variables.wrong(formatted("local rank {} is not below the local world size of {}",
                              ranks.local_rank,
                              ranks.local_world_size));
  }
  if (ranks.local_world_size > ranks.world_size) {
    variables.wrong(formatted("the local world size of {} is above the world size of {}",
                              ranks.local_world_size,
                              ranks.world_size));
  }
  if (ranks.master_port == 0) {
    variables.wrong("MASTER_PORT is 0");
  }
  variables.check();
}

// Reads the address of rank 0, which is this machine if all ranks are on it, and the port. `how`
// says how to set the address.
void read_master(Variables& variables, RankEnvironment& ranks, const std::string& how) {
  ranks.master_addr = without_brackets(variables.text("MASTER_ADDR"));
  if (ranks.master_addr.empty() && ranks.local_world_size == ranks.world_size) {
    ranks.master_addr = "127.0.0.1";
  } else if (ranks.master_addr.empty()) {
    variables.wrong("the machine of rank 0 is unknown (" + how + ")");
  }
  ranks.master_port = static_cast<uint16_t>(
      variables.number("MASTER_PORT", port_of_job(ranks.launcher + " " + ranks.run_id), kMaxPort));
}

constexpr const char* kLaunchVariable = "TENON_LAUNCH";

RankEnvironment read_torch(const Environment& environment) {
  const bool is_launch = environment.count(kLaunchVariable) != 0;
  const bool is_torchrun = !is_launch && environment.count("TORCHELASTIC_RUN_ID") != 0;
  Variables variables(environment,
                      is_launch     ? "--launch"
                      : is_torchrun ? "torchrun"
                                    : "RANK and WORLD_SIZE");
  RankEnvironment ranks;
  ranks.launcher = is_launch ? "launch" : is_torchrun ? "torchrun" : "environment";
  ranks.rank = variables.required_number("RANK");
  ranks.world_size = variables.required_number("WORLD_SIZE");
  ranks.master_addr = without_brackets(variables.required_text("MASTER_ADDR"));
  ranks.master_port = static_cast<uint16_t>(variables.required_number("MASTER_PORT", kMaxPort));
  if (variables.has("LOCAL_RANK") || variables.has("LOCAL_WORLD_SIZE")) {
    ranks.local_rank = variables.required_number("LOCAL_RANK");
    ranks.local_world_size = variables.required_number("LOCAL_WORLD_SIZE");
  }
  if (is_torchrun) {
    ranks.run_id = variables.text("TORCHELASTIC_RUN_ID");
    ranks.restart = variables.number("TORCHELASTIC_RESTART_COUNT", 0);
    ranks.is_store_served = variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  } else {
    ranks.run_id = variables.text("TENON_RUN_ID");
    ranks.restart = is_launch ? variables.number("TENON_RESTART", 0) : 0;
    ranks.run_folder = is_launch ? variables.text("TENON_RUN_FOLDER") : "";
    ranks.launch_options = is_launch ? variables.text("TENON_LAUNCH_OPTIONS") : "";
    ranks.is_store_served = is_launch;
    ranks.threads = variables.number("TENON_THREADS", 0);
  }
  ranks.slot = is_launch ? variables.number("TENON_SLOT", ranks.local_rank) : ranks.local_rank;
  check_ranks(variables, ranks);
  return ranks;
}

RankEnvironment read_open_mpi(const Environment& environment) {
  Variables variables(environment, "mpirun");
  RankEnvironment ranks;
  ranks.launcher = "mpirun";
  ranks.rank = variables.required_number("OMPI_COMM_WORLD_RANK");
  ranks.world_size = variables.required_number("OMPI_COMM_WORLD_SIZE");
  ranks.local_rank = variables.required_number("OMPI_COMM_WORLD_LOCAL_RANK");
  ranks.local_world_size = variables.required_number("OMPI_COMM_WORLD_LOCAL_SIZE");
  // The job's name: equal on all ranks, different for the next mpirun.
  ranks.run_id = variables.has("PMIX_NAMESPACE") ? variables.text("PMIX_NAMESPACE")
                                                 : variables.text("OMPI_MCA_ess_base_jobid");
  read_master(variables, ranks, "pass it with mpirun -x MASTER_ADDR=HOST");
  check_ranks(variables, ranks);
  return ranks;
}

RankEnvironment read_slurm(const Environment& environment) {
  Variables variables(environment, "srun");
  RankEnvironment ranks;
  ranks.launcher = "srun";
  ranks.rank = variables.required_number("SLURM_PROCID");
  ranks.world_size = variables.required_number("SLURM_STEP_NUM_TASKS");
  ranks.local_rank = variables.required_number("SLURM_LOCALID");
  // "2(x3),1": number of tasks on each node; SLURM_NODEID is the index of this node.
  const std::string tasks = variables.required_text("SLURM_STEP_TASKS_PER_NODE");
  const uint32_t node = variables.number("SLURM_NODEID", 0);
  uint32_t seen = 0;
  std::optional<uint32_t> on_this_node;
  for (size_t at = 0; at < tasks.size() && !on_this_node.has_value();) {
    const size_t end = std::min(tasks.find(',', at), tasks.size());
    const std::string part = tasks.substr(at, end - at);
    const size_t times = part.find("(x");
    uint32_t count = 0;
    uint32_t nodes = 1;
    std::from_chars(part.data(), part.data() + std::min(times, part.size()), count);
    if (times != std::string::npos) {
      std::from_chars(part.data() + times + 2, part.data() + part.size(), nodes);
    }
    seen += nodes;
    if (node < seen) {
      on_this_node = count;
    }
    at = end + 1;
  }
  ranks.local_world_size = on_this_node.value_or(0);
  ranks.run_id = variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
  ranks.restart = variables.number("SLURM_RESTART_COUNT", 0);
  ranks.master_addr = without_brackets(variables.text("MASTER_ADDR"));
  if (ranks.master_addr.empty()) {
    const std::string nodes = variables.required_text("SLURM_STEP_NODELIST");
    ranks.master_addr = nodes.empty() ? "" : first_slurm_host(nodes);
  }
  ranks.master_port = static_cast<uint16_t>(
      variables.number("MASTER_PORT", port_of_job("srun " + ranks.run_id), kMaxPort));
  check_ranks(variables, ranks);
  return ranks;
}

// A launcher that is known by its variables alone. Where it has several names for one value, the
// first that is set counts.
struct ForeignLauncher {
  const char* launcher;
  const char* rank;
  std::vector<const char*> sizes;
  std::vector<const char*> local_ranks;
  std::vector<const char*> local_sizes;
  const char* num_machines;  // "" if it does not say
  const char* job;           // equal on all ranks, different for the next job; "" if there is none
};

// The variables of MPICH come last, because launchers with variables of their own set them, too.
const std::vector<ForeignLauncher>& foreign_launchers() {
  static const std::vector<ForeignLauncher> kLaunchers = {{"flux",
                                                           "FLUX_TASK_RANK",
                                                           {"FLUX_JOB_SIZE"},
                                                           {"FLUX_TASK_LOCAL_ID"},
                                                           {},
                                                           "FLUX_JOB_NNODES",
                                                           "FLUX_JOB_ID"},
                                                          {"jsrun",
                                                           "JSM_NAMESPACE_RANK",
                                                           {"JSM_NAMESPACE_SIZE"},
                                                           {"JSM_NAMESPACE_LOCAL_RANK"},
                                                           {"JSM_NAMESPACE_LOCAL_SIZE"},
                                                           "",
                                                           "LSB_JOBID"},
                                                          {"PALS",
                                                           "PALS_RANKID",
                                                           {"PALS_SIZE", "PMI_SIZE"},
                                                           {"PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
                                                           {"PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
                                                           "",
                                                           "PALS_APID"},
                                                          {"MVAPICH",
                                                           "MV2_COMM_WORLD_RANK",
                                                           {"MV2_COMM_WORLD_SIZE"},
                                                           {"MV2_COMM_WORLD_LOCAL_RANK"},
                                                           {"MV2_COMM_WORLD_LOCAL_SIZE"},
                                                           "",
                                                           ""},
                                                          {"MVAPICH",
                                                           "MVP_COMM_WORLD_RANK",
                                                           {"MVP_COMM_WORLD_SIZE"},
                                                           {"MVP_COMM_WORLD_LOCAL_RANK"},
                                                           {"MVP_COMM_WORLD_LOCAL_SIZE"},
                                                           "",
                                                           ""},
                                                          {"mpiexec",
                                                           "PMI_RANK",
                                                           {"PMI_SIZE"},
                                                           {"MPI_LOCALRANKID", "PMI_LOCAL_RANK"},
                                                           {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
                                                           "",
                                                           "PMI_PORT"},
                                                          {"PMIx",
                                                           "PMIX_RANK",
                                                           {"PMIX_SIZE"},
                                                           {"PMIX_LOCAL_RANK"},
                                                           {"PMIX_LOCAL_SIZE"},
                                                           "",
                                                           "PMIX_NAMESPACE"}};
  return kLaunchers;
}

// Several complete runs in one folder, instead of one run, would be the alternative.
[[noreturn]] void refuse_foreign(const std::string& launcher, const std::string& found) {
  throw Error(
      "distributed.bad_environment",
      formatted("this process was started by {} as one of several ({}), but its variables do "
                "not say which ranks run where; set RANK, WORLD_SIZE, LOCAL_RANK, "
                "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process, or start "
                "the ranks with --launch, torchrun, mpirun or srun",
                launcher,
                found));
}

// Returns the first name that is set; "" if none is.
std::string first_set(const Environment& environment, const std::vector<const char*>& names) {
  const auto found = std::ranges::find_if(
      names, [&](const char* const name) { return is_set(environment, name); });
  return found != names.end() ? *found : "";
}

// Reads how many ranks are on this machine, and which of them this is.
// Errors  distributed.bad_environment if the launcher does not say so
void read_local_rank(const Environment& environment,
                     const ForeignLauncher& foreign,
                     Variables& variables,
                     RankEnvironment& ranks) {
  std::string rank = first_set(environment, foreign.local_ranks);
  std::string size = first_set(environment, foreign.local_sizes);
  const uint32_t machines = variables.number(foreign.num_machines, 0);
  if (!rank.empty() && size.empty() && machines > 0 && ranks.world_size % machines == 0) {
    ranks.local_rank = variables.required_number(rank);
    ranks.local_world_size = ranks.world_size / machines;
    return;
  }
  if (rank.empty() || size.empty()) {
    rank = first_set(environment, {"LOCAL_RANK"});
    size = first_set(environment, {"LOCAL_WORLD_SIZE"});
  }
  if (rank.empty() || size.empty()) {
    refuse_foreign(foreign.launcher,
                   formatted("{}={} of {}", foreign.rank, ranks.rank, ranks.world_size));
  }
  ranks.local_rank = variables.required_number(rank);
  ranks.local_world_size = variables.required_number(size);
}

RankEnvironment read_foreign(const Environment& environment, const ForeignLauncher& foreign) {
  Variables variables(environment, foreign.launcher);
  RankEnvironment ranks;
  ranks.launcher = foreign.launcher;
  ranks.rank = variables.required_number(foreign.rank);
  ranks.world_size = variables.required_number(first_set(environment, foreign.sizes));
  variables.check();
  if (ranks.world_size == 1 && ranks.rank == 0) {
    return {};  // a program that was started alone
  }
  read_local_rank(environment, foreign, variables, ranks);
  ranks.run_id = variables.text(foreign.job);
  ranks.slot = ranks.local_rank;
  read_master(variables, ranks, "set MASTER_ADDR for all ranks");
  check_ranks(variables, ranks);
  return ranks;
}

// Errors  distributed.bad_environment for a rank of PMIx whose number of ranks is unknown
void refuse_other_ranks_of_pmix(const Environment& environment) {
  const auto rank = environment.find("PMIX_RANK");
  if (rank != environment.end() && !rank->second.empty() && rank->second != "0") {
    refuse_foreign("PMIx", "PMIX_RANK=" + rank->second);
  }
}

}  // namespace

Environment environment_variables() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

RankEnvironment read_rank_environment(const Environment& environment) {
  const auto has = [&](const char* name) { return is_set(environment, name); };
  if (has(kLaunchVariable) || has("RANK") || has("WORLD_SIZE") || has("TORCHELASTIC_RUN_ID")) {
    return read_torch(environment);
  }
  if (has("OMPI_COMM_WORLD_RANK") || has("OMPI_COMM_WORLD_SIZE")) {
    return read_open_mpi(environment);
  }
  // A process of a job that srun did not start (in an sbatch script) is a single rank.
  if (has("SLURM_STEP_ID") && has("SLURM_PROCID")) {
    return read_slurm(environment);
  }
  for (const ForeignLauncher& foreign : foreign_launchers()) {
    if (is_set(environment, foreign.rank) && !first_set(environment, foreign.sizes).empty()) {
      return read_foreign(environment, foreign);
    }
  }
  refuse_other_ranks_of_pmix(environment);
  return {};
}

bool are_on_one_machine(const RankEnvironment& ranks) {
  const bool is_torchrun = ranks.launcher == "torchrun";
  const bool is_whole = ranks.local_world_size == ranks.world_size;
  // Only rank 0 of a PyTorchJob may have the name "localhost", while others have its address.
  return ranks.master_addr.starts_with("127.") || ranks.master_addr == "::1" ||
         (is_torchrun ? ranks.master_addr == "localhost" : is_whole);
}

void find_secret(RankEnvironment& ranks, const Environment& environment) {
  if (ranks.world_size > 1 || ranks.is_store_served) {
    ranks.secret = find_run_secret(
        environment,
        are_on_one_machine(ranks) ? RankLocality::kOneMachine : RankLocality::kMachines);
  }
}

bool has_own_terminal(const RankEnvironment& ranks) {
  return ranks.launcher == "environment";
}

bool is_store_of_agent(const RankEnvironment& ranks) {
  return ranks.launcher == "torchrun" && ranks.is_store_served;
}

Environment launch_variables(const RankEnvironment& ranks) {
  return {{kLaunchVariable, "1"},
          {"RANK", std::to_string(ranks.rank)},
          {"WORLD_SIZE", std::to_string(ranks.world_size)},
          {"LOCAL_RANK", std::to_string(ranks.local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(ranks.local_world_size)},
          {"MASTER_ADDR", ranks.master_addr},
          {"MASTER_PORT", std::to_string(ranks.master_port)},
          {"TENON_RUN_ID", ranks.run_id},
          {"TENON_RESTART", std::to_string(ranks.restart)},
          {"TENON_SLOT", std::to_string(ranks.slot)},
          {"TENON_THREADS", std::to_string(ranks.threads)},
          {"TENON_RUN_FOLDER", ranks.run_folder},
          {"TENON_LAUNCH_OPTIONS", ranks.launch_options},
          {"TENON_RUN_SECRET", ranks.secret}};
}

std::string first_slurm_host(const std::string& list) {
  const size_t comma = list.find(',');
  const size_t open = list.find('[');
  if (open == std::string::npos || comma < open) {
    return list.substr(0, comma);
  }
  const size_t close = list.find(']', open);
  const size_t end = list.find_first_of("-,]", open);
  if (close == std::string::npos || end == open + 1) {
    throw Error("distributed.bad_environment",
                "SLURM_STEP_NODELIST is not a list of hosts: '" + list + "'");
  }
  // The text after the bracket is part of the name: "rack[1-2]n1".
  const size_t after = std::min(list.find_first_of(",[", close), list.size());
  return list.substr(0, open) + list.substr(open + 1, end - open - 1) +
         list.substr(close + 1, after - close - 1);
}

}  // namespace tenon
