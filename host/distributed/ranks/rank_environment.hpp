// SPDX-License-Identifier: Apache-2.0
//
// Which rank this process is: said by whoever started it, in the environment. Ranks are not started
// here (see launch.hpp), and nothing is connected.
//
// The first of these that is there decides:
//
//   launch       --launch: TENON_LAUNCH, and with it RANK, WORLD_SIZE, LOCAL_RANK,
//   LOCAL_WORLD_SIZE,
//                MASTER_ADDR, MASTER_PORT, TENON_RUN_ID, TENON_RESTART, TENON_SLOT, TENON_THREADS
//   torchrun     RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, with
//                TORCHELASTIC_RUN_ID
//   environment  the same without either: Kubernetes' PyTorchJob (which does not set the LOCAL_
//                ones), or by hand
//   mpirun       OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   srun         SLURM_STEP_ID with SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID
//
// So torchrun inside a Slurm job is torchrun, mpirun inside one is mpirun, and --launch inside any
// of them is --launch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tenon {

using Environment = std::map<std::string, std::string>;

// The environment of this process.
Environment environment_variables();

struct RankEnvironment {
  // "launch", "torchrun", "environment", "mpirun", "srun"; "" where nobody started ranks.
  std::string launcher;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;        // among the ranks of this machine
  uint32_t local_world_size = 1;  // 1 where nobody says it
  // The place on this machine that decides over its GPU: the local rank, but where --launch
  // continues with fewer ranks than it began with.
  uint32_t slot = 0;
  std::string master_addr;  // where ranks meet; "" for one rank that nobody started
  uint16_t master_port = 0;
  bool is_store_served = false;  // the launcher holds the store, so rank 0 must not open it
  uint32_t restart = 0;          // how often an elastic launcher has started the ranks again
  uint32_t threads = 0;          // that this rank computes with; 0 if the launcher does not say it
  std::string run_id;  // equal on all ranks of a job, and different from job to job; may be ""
};

// Errors  distributed.bad_environment if a set of variables is partial or contradicts itself: the
//         message lists what was found and what is missing
RankEnvironment read_rank_environment(const Environment& environment);

// The variables that give a process of --launch its rank: read again, they give the same.
Environment launch_variables(const RankEnvironment& ranks);

// The first host of a Slurm list: "gpu[03-07,12],login1" is "gpu03".
// Errors  distributed.bad_environment if it cannot be read
std::string first_slurm_host(const std::string& list);

}  // namespace tenon
