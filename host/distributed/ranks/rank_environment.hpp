// SPDX-License-Identifier: Apache-2.0
//
// The rank of this process, read from the environment that its launcher has set. Ranks are not
// started here (see launch.hpp), and nothing is connected.
//
// The first launcher in this list whose variables exist decides:
//
//   launch       --launch: TENON_LAUNCH, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
//                MASTER_ADDR, MASTER_PORT, TENON_RUN_ID, TENON_RESTART, TENON_SLOT, TENON_THREADS,
//                TENON_RUN_FOLDER, TENON_RUN_SECRET
//   torchrun     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with
//                TORCHELASTIC_RUN_ID
//   environment  the same without TENON_LAUNCH and TORCHELASTIC_RUN_ID: set by Kubernetes'
//                PyTorchJob (which does not set LOCAL_*), or by hand
//   mpirun       OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   others       FLUX_TASK_RANK, JSM_NAMESPACE_RANK (jsrun), PALS_RANKID, MV2_COMM_WORLD_RANK,
//                MVP_COMM_WORLD_RANK, PMI_RANK (MPICH, Intel MPI) or PMIX_RANK, with their sizes
//   srun         SLURM_STEP_ID with SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID,
//                SLURM_STEP_TASKS_PER_NODE
//
// So torchrun inside a Slurm job counts as torchrun, mpirun inside a Slurm job as mpirun, and
// --launch inside any of them as --launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tenon {

using Environment = std::map<std::string, std::string>;

// Returns the environment of this process.
Environment environment_variables();

struct RankEnvironment {
  // "launch", "torchrun", "environment", "mpirun", "srun" or the name of another launcher; "" if no
  // launcher started ranks.
  std::string launcher;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;        // among the ranks of this machine
  uint32_t local_world_size = 1;  // 1 if unknown
  // The number on this machine that determines the GPU: the local rank, except if --launch has
  // restarted the run with fewer ranks.
  uint32_t slot = 0;
  std::string master_addr;  // address of the rendezvous; "" if no launcher started ranks
  uint16_t master_port = 0;
  bool is_store_served = false;  // the launcher holds the store, so rank 0 must not open it
  uint32_t restart = 0;          // how often an elastic launcher has restarted the ranks
  uint32_t threads = 0;          // compute threads of this rank; 0 if the launcher does not set it
  std::string run_id;            // equal on all ranks of a job, different between jobs; may be ""
  // The run folder of the ranks that --launch has restarted; "" if there is none.
  std::string run_folder;
  // The options of the launcher, "--launch 2 --max-restarts 3", for the commands that a run
  // suggests;
  // "" except with --launch.
  std::string launch_options;
  std::string secret;  // see find_secret; "" if the run is not protected
};

// Errors  distributed.bad_environment if a set of variables is incomplete or contradictory: the
//         message lists the variables found and missing
RankEnvironment read_rank_environment(const Environment& environment);

// True if every rank knows that all ranks are on this machine. The ranks of torchrun may become
// fewer, and still have to agree with earlier ones, so only their address counts.
bool are_on_one_machine(const RankEnvironment& ranks);

// Sets `ranks.secret` to that of the run (run_secret.hpp), for a process of several ranks or of a
// launcher that holds their store. Leaves it empty if the run is not protected.
// Errors  distributed.bad_secret
void find_secret(RankEnvironment& ranks, const Environment& environment);

// True if each rank has an own terminal or log, so that no other rank speaks for it.
bool has_own_terminal(const RankEnvironment& ranks);

// True if a torchrun agent holds the store.
bool is_store_of_agent(const RankEnvironment& ranks);

// Returns the variables that give a process of --launch its rank: read_rank_environment reads the
// same values back.
Environment launch_variables(const RankEnvironment& ranks);

// Returns the first host of a Slurm list: "gpu[03-07,12],login1" gives "gpu03".
// Errors  distributed.bad_environment if the list is invalid
std::string first_slurm_host(const std::string& list);

}  // namespace tenon
