// SPDX-License-Identifier: Apache-2.0
//
// The environments are those that torchrun 2.11, Kubernetes' training operator, Open MPI 4.1 and
// Slurm 22.05 give to a process, cut to what concerns ranks.
#include "host/distributed/ranks/rank_environment.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// Rank 3 of 4: torchrun --nnodes 2 --nproc-per-node 2.
const Environment kTorchrun = {{"GROUP_RANK", "1"},
                               {"GROUP_WORLD_SIZE", "2"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "29500"},
                               {"OMP_NUM_THREADS", "1"},
                               {"RANK", "3"},
                               {"ROLE_NAME", "default"},
                               {"ROLE_RANK", "3"},
                               {"ROLE_WORLD_SIZE", "4"},
                               {"TORCHELASTIC_MAX_RESTARTS", "3"},
                               {"TORCHELASTIC_RESTART_COUNT", "1"},
                               {"TORCHELASTIC_RUN_ID", "none"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"WORLD_SIZE", "4"}};
// torchrun --standalone --nproc-per-node 2: the elastic rendezvous, in which the agent holds the
// store.
const Environment kElastic = {{"GROUP_RANK", "0"},
                              {"GROUP_WORLD_SIZE", "1"},
                              {"LOCAL_RANK", "0"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "localhost"},
                              {"MASTER_PORT", "43173"},
                              {"OMP_NUM_THREADS", "1"},
                              {"RANK", "0"},
                              {"ROLE_NAME", "default"},
                              {"ROLE_RANK", "0"},
                              {"ROLE_WORLD_SIZE", "2"},
                              {"TORCHELASTIC_MAX_RESTARTS", "0"},
                              {"TORCHELASTIC_RESTART_COUNT", "0"},
                              {"TORCHELASTIC_RUN_ID", "ffbfa148-4039-4c8d-ba9e-911bcef0258e"},
                              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                              {"WORLD_SIZE", "2"}};
// Rank 5 of 7: a step of four nodes, of which this is the third.
const Environment kSlurm = {{"SLURMD_NODENAME", "gpu05"},
                            {"SLURM_JOBID", "42"},
                            {"SLURM_JOB_ID", "42"},
                            {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NNODES", "4"},
                            {"SLURM_NODEID", "2"},
                            {"SLURM_NTASKS", "7"},
                            {"SLURM_PROCID", "5"},
                            {"SLURM_STEPID", "0"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_STEP_LAUNCHER_PORT", "45667"},
                            {"SLURM_STEP_NODELIST", "gpu[03-06]"},
                            {"SLURM_STEP_NUM_NODES", "4"},
                            {"SLURM_STEP_NUM_TASKS", "7"},
                            {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                            {"SLURM_TASKS_PER_NODE", "2(x3),1"}};
// srun --ntasks 2 on one node.
const Environment kSlurmOnOne = {{"SLURMD_NODENAME", "vm"},
                                 {"SLURM_JOB_ID", "1"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_NNODES", "1"},
                                 {"SLURM_NODEID", "0"},
                                 {"SLURM_NTASKS", "2"},
                                 {"SLURM_PROCID", "1"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_STEP_NODELIST", "vm"},
                                 {"SLURM_STEP_NUM_TASKS", "2"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                 {"SLURM_TASKS_PER_NODE", "2"}};
const Environment kOpenMpi = {{"OMPI_COMMAND", "host"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                              {"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_MCA_ess_base_jobid", "116260865"},
                              {"PMIX_NAMESPACE", "116260865"},
                              {"PMIX_RANK", "1"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) {
    environment[name] = value;
  }
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

std::string refusal(const Environment& environment) {
  try {
    read_rank_environment(environment);
  } catch (const Error& error) {
    CHECK(std::string(error.id()) == "distributed.bad_environment");
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a process that nobody started as a rank is the only one", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment({{"HOME", "/root"}});
  CHECK(ranks.launcher.empty());
  CHECK(ranks.world_size == 1);
  CHECK(read_rank_environment({{"RANK", ""}, {"WORLD_SIZE", ""}}).launcher.empty());
}

TEST_CASE("torchrun's variables are read, its store and restarts too", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment(kTorchrun);
  CHECK(ranks.launcher == "torchrun");
  CHECK(ranks.rank == 3);
  CHECK(ranks.world_size == 4);
  CHECK(ranks.local_rank == 1);
  CHECK(ranks.local_world_size == 2);
  CHECK(ranks.master_addr == "127.0.0.1");
  CHECK(ranks.master_port == 29500);
  CHECK(ranks.is_store_served);
  CHECK(ranks.restart == 1);
}

TEST_CASE("an elastic torchrun's ranks meet at its store", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment(kElastic);
  CHECK(ranks.launcher == "torchrun");
  CHECK(ranks.rank == 0);
  CHECK(ranks.world_size == 2);
  CHECK(ranks.local_world_size == 2);
  CHECK(ranks.master_addr == "localhost");
  CHECK(ranks.master_port == 43173);
  CHECK(ranks.is_store_served);
  CHECK(ranks.restart == 0);
  CHECK(ranks.run_id == "ffbfa148-4039-4c8d-ba9e-911bcef0258e");
  CHECK_FALSE(read_rank_environment(with(kElastic, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))
                  .is_store_served);
}

TEST_CASE("what --launch says is read as it was said", "[distributed]") {
  RankEnvironment said;
  said.rank = 1;
  said.world_size = 3;
  said.local_rank = 1;
  said.local_world_size = 3;
  said.master_addr = "127.0.0.1";
  said.master_port = 4711;
  said.run_id = "0123456789abcdef";
  said.threads = 4;
  said.restart = 2;
  said.launch_options = "--launch 3 --max-restarts 2";
  for (const Environment& around : {Environment{}, kTorchrun, kElastic, kSlurm, kOpenMpi}) {
    const RankEnvironment ranks = read_rank_environment(with(around, launch_variables(said)));
    CHECK(ranks.launcher == "launch");
    CHECK(ranks.is_store_served);
    CHECK(ranks.threads == 4);
    CHECK(ranks.restart == 2);
    CHECK(launch_variables(ranks) == launch_variables(said));
  }
  CHECK_THAT(refusal({{"TENON_LAUNCH", "1"}}), contains_text("of --launch: missing RANK"));
}

TEST_CASE("a PyTorchJob of Kubernetes has no local ranks", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment({{"RANK", "1"},
                                                       {"WORLD_SIZE", "2"},
                                                       {"MASTER_ADDR", "job-master-0"},
                                                       {"MASTER_PORT", "23456"},
                                                       {"PET_NNODES", "2"}});
  CHECK(ranks.launcher == "environment");
  CHECK(ranks.rank == 1);
  CHECK(ranks.local_rank == 0);
  CHECK(ranks.local_world_size == 1);
  CHECK_FALSE(ranks.is_store_served);
}

TEST_CASE("ranks of mpirun on one machine meet on it, at a port of their job", "[distributed]") {
  const RankEnvironment first = read_rank_environment(kOpenMpi);
  CHECK(first.launcher == "mpirun");
  CHECK(first.master_addr == "127.0.0.1");
  CHECK(first.master_port >= 20000);
  CHECK(first.master_port < 30000);
  const RankEnvironment other =
      read_rank_environment(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}}));
  CHECK(other.master_port == first.master_port);
  const RankEnvironment next_job =
      read_rank_environment(with(kOpenMpi, {{"PMIX_NAMESPACE", "116260866"}}));
  CHECK(next_job.master_port != first.master_port);
}

TEST_CASE("ranks of mpirun on several machines must be told where to meet", "[distributed]") {
  const Environment spread = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  CHECK_THAT(refusal(spread), contains_text("mpirun -x MASTER_ADDR=HOST"));
  CHECK(read_rank_environment(with(spread, {{"MASTER_ADDR", "node1"}})).master_addr == "node1");
}

TEST_CASE("srun's ranks meet on the first node of the step", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment(kSlurm);
  CHECK(ranks.launcher == "srun");
  CHECK(ranks.rank == 5);
  CHECK(ranks.world_size == 7);
  CHECK(ranks.local_world_size == 2);
  CHECK(ranks.master_addr == "gpu03");
  CHECK(ranks.run_id == "42.0");
  const RankEnvironment last = read_rank_environment(
      with(kSlurm, {{"SLURM_NODEID", "3"}, {"SLURM_PROCID", "6"}, {"SLURM_LOCALID", "0"}}));
  CHECK(last.local_world_size == 1);
  CHECK(last.master_port == ranks.master_port);
}

TEST_CASE("srun's ranks on one machine meet under its name", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment(kSlurmOnOne);
  CHECK(ranks.rank == 1);
  CHECK(ranks.local_rank == 1);
  CHECK(ranks.world_size == 2);
  CHECK(ranks.local_world_size == 2);
  CHECK(ranks.master_addr == "vm");
  CHECK(ranks.run_id == "1.0");
  const RankEnvironment given = read_rank_environment(
      with(kSlurmOnOne, {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}}));
  CHECK(given.master_addr == "127.0.0.1");
  CHECK(given.master_port == 4711);
}

TEST_CASE("the script of an sbatch job is one process", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment({{"SLURM_JOB_ID", "1"},
                                                       {"SLURM_LOCALID", "0"},
                                                       {"SLURM_NTASKS", "2"},
                                                       {"SLURM_PROCID", "0"}});
  CHECK(ranks.launcher.empty());
  CHECK(ranks.world_size == 1);
}

TEST_CASE("torchrun and mpirun come before the Slurm job that they run in", "[distributed]") {
  CHECK(read_rank_environment(with(kSlurm, kTorchrun)).launcher == "torchrun");
  CHECK(read_rank_environment(with(kSlurm, kOpenMpi)).launcher == "mpirun");
}

TEST_CASE("a partial set says what was found and what is missing", "[distributed]") {
  const std::string message = refusal(without(kTorchrun, "MASTER_PORT"));
  CHECK_THAT(message, contains_text("missing MASTER_PORT"));
  CHECK_THAT(message, contains_text("RANK=3"));
  CHECK_THAT(message, contains_text("MASTER_ADDR=127.0.0.1"));
  CHECK_THAT(refusal({{"WORLD_SIZE", "2"}}), contains_text("missing RANK"));
  CHECK_THAT(refusal(without(kSlurm, "SLURM_LOCALID")), contains_text("missing SLURM_LOCALID"));
  CHECK_THAT(refusal(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
             contains_text("missing OMPI_COMM_WORLD_SIZE"));
}

TEST_CASE("values that cannot be are refused", "[distributed]") {
  CHECK_THAT(refusal(with(kTorchrun, {{"RANK", "4"}})),
             contains_text("rank 4 is not below the world size of 4"));
  CHECK_THAT(refusal(with(kTorchrun, {{"RANK", "-1"}})), contains_text("RANK is not a number"));
  CHECK_THAT(refusal(with(kTorchrun, {{"RANK", "1x"}})), contains_text("RANK is not a number"));
  CHECK_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "99999999999"}})),
             contains_text("WORLD_SIZE is not a number"));
  CHECK_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "70000"}})),
             contains_text("MASTER_PORT is not a number from 0 to 65535"));
  CHECK_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "2"}})), contains_text("local rank 2"));
  CHECK_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}})),
             contains_text("above the world size"));
}

TEST_CASE("the first host of a Slurm list is found", "[distributed]") {
  CHECK(first_slurm_host("localhost") == "localhost");
  CHECK(first_slurm_host("a1,b2") == "a1");
  CHECK(first_slurm_host("gpu[03-07,12],login1") == "gpu03");
  CHECK(first_slurm_host("gpu[9,12]") == "gpu9");
  CHECK(first_slurm_host("rack[1-2]n1") == "rack1n1");
  CHECK(first_slurm_host("login1,gpu[1-2]") == "login1");
  CHECK_THROWS_AS(first_slurm_host("gpu["), Error);
  CHECK_THROWS_AS(first_slurm_host("gpu[]"), Error);
}

TEST_CASE("the environment of this process is read whole", "[distributed]") {
  CHECK(environment_variables().count("PATH") == 1);
}

TEST_CASE("an IPv6 address may have brackets", "[distributed]") {
  const RankEnvironment ranks = read_rank_environment(
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "[::1]"}, {"MASTER_PORT", "29500"}});
  CHECK(ranks.master_addr == "::1");
  CHECK(are_on_one_machine(ranks));
}

TEST_CASE("launchers are known by their variables", "[distributed]") {
  // Of MPICH 4.0 and Intel MPI 2021 (mpiexec), jsrun of Spectrum LSF, Flux 0.60, PALS 1.2 and
  // MVAPICH2 2.3, on one machine.
  const std::vector<std::pair<std::string, Environment>> launchers = {
      {"mpiexec",
       {{"PMI_RANK", "1"},
        {"PMI_SIZE", "2"},
        {"MPI_LOCALRANKID", "1"},
        {"MPI_LOCALNRANKS", "2"},
        {"PMI_FD", "7"}}},
      {"jsrun",
       {{"JSM_NAMESPACE_RANK", "1"},
        {"JSM_NAMESPACE_SIZE", "2"},
        {"JSM_NAMESPACE_LOCAL_RANK", "1"},
        {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
        {"PMIX_RANK", "1"},
        {"LSB_JOBID", "42"}}},
      {"flux",
       {{"FLUX_TASK_RANK", "1"},
        {"FLUX_JOB_SIZE", "2"},
        {"FLUX_TASK_LOCAL_ID", "1"},
        {"FLUX_JOB_NNODES", "1"},
        {"FLUX_JOB_ID", "f2a"},
        {"PMI_RANK", "1"},
        {"PMI_SIZE", "2"}}},
      {"PALS",
       {{"PALS_RANKID", "1"},
        {"PALS_LOCAL_RANKID", "1"},
        {"PALS_LOCAL_SIZE", "2"},
        {"PMI_SIZE", "2"},
        {"PMI_RANK", "1"},
        {"PALS_APID", "a1"}}},
      {"MVAPICH",
       {{"MV2_COMM_WORLD_RANK", "1"},
        {"MV2_COMM_WORLD_SIZE", "2"},
        {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
        {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}}}};
  for (const auto& [name, environment] : launchers) {
    INFO(name);
    const RankEnvironment ranks = read_rank_environment(environment);
    CHECK(ranks.launcher == name);
    CHECK(ranks.rank == 1);
    CHECK(ranks.world_size == 2);
    CHECK(ranks.local_rank == 1);
    CHECK(ranks.local_world_size == 2);
    CHECK(ranks.master_addr == "127.0.0.1");
    CHECK(ranks.master_port >= 20000);
  }
}

// Otherwise each process would train the whole run.
TEST_CASE("a rank of an unknown place is refused, and a program started alone is not",
          "[distributed]") {
  for (const Environment& environment :
       {Environment{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
        Environment{{"PALS_RANKID", "0"}, {"PALS_SIZE", "2"}},
        Environment{{"MV2_COMM_WORLD_RANK", "0"}, {"MV2_COMM_WORLD_SIZE", "2"}},
        Environment{{"JSM_NAMESPACE_RANK", "0"}, {"JSM_NAMESPACE_SIZE", "2"}},
        Environment{{"PMIX_RANK", "0"}, {"PMIX_SIZE", "2"}},
        Environment{{"PMIX_RANK", "1"}}}) {
    CHECK_THAT(refusal(environment), contains_text("as one of several"));
    CHECK_THAT(refusal(environment), contains_text("set RANK, WORLD_SIZE, LOCAL_RANK"));
  }
  CHECK(read_rank_environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).launcher.empty());
  CHECK(read_rank_environment({{"PMIX_RANK", "0"}}).launcher.empty());
  const RankEnvironment told = read_rank_environment({{"PMI_RANK", "3"},
                                                      {"PMI_SIZE", "4"},
                                                      {"LOCAL_RANK", "1"},
                                                      {"LOCAL_WORLD_SIZE", "2"},
                                                      {"MASTER_ADDR", "node1"}});
  CHECK(told.rank == 3);
  CHECK(told.local_rank == 1);
  CHECK(told.master_addr == "node1");
}

TEST_CASE("ranks of one machine share the user's secret, and no rank guesses where others are",
          "[distributed]") {
  const ScratchFolder scratch;
  const Environment home = {{"HOME", scratch.path().string()}};
  const auto secret_at = [&](const std::string& address, uint32_t local_world_size) {
    RankEnvironment ranks;
    ranks.launcher = "environment";
    ranks.world_size = 2;
    ranks.local_world_size = local_world_size;
    ranks.master_addr = address;
    find_secret(ranks, home);
    return ranks.secret;
  };
  const std::string secret = secret_at("127.0.0.1", 1);
  CHECK(secret.size() == 64);
  CHECK(secret_at("node1", 2) == secret);
  CHECK(secret_at("node1", 1).empty());
  CHECK(secret_at("localhost", 1).empty());
  RankEnvironment alone;  // needs none, and reads none
  find_secret(alone, {{"TENON_RUN_SECRET", "short"}});
  CHECK(alone.secret.empty());
}

}  // namespace tenon
