#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# torchrun_elastic.sh rank|nodes|newcomers HOST [OPTION...]
#
# Ranks that torchrun's elastic agents start, lose and start again go on from their checkpoints, and
# take the steps that one rank takes which lost nothing. With `rank` one agent has two ranks, of
# which one is killed. With `nodes` two agents have one rank each (--nnodes 1:2): the rank of one is
# killed, then all of that machine, which leaves one rank. With `newcomers` a machine comes to one
# that trains, and again when it was lost; agents do not keep the store then, since those of torch
# 2.11 do not tell a newcomer where it is.
# HOST is the program; OPTIONs go to it. Exits with 77, and says why, where torchrun is not
# installed. Nothing outlives it, and it writes into a temporary folder alone.
set -euo pipefail
source_root=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../..
what=$1
host=$2
shift 2
torchrun=$source_root/.deps/peers/bin/torchrun
[[ -x $torchrun ]] || {
  echo "skipped: there is no torchrun; ./dev deps --peers installs it"
  exit 77
}
scratch=$(mktemp -d)
cd "$scratch"
declare -A agents=()

# An agent, its ranks, and what may be left of them, each by its number.
family_of() {
  local pid
  echo "$1"
  for pid in $(pgrep -P "$1" || true); do
    family_of "$pid"
  done
}
finish() {
  local status=$?
  local agent
  trap - EXIT
  for agent in "${!agents[@]}"; do
    kill -KILL $(family_of "${agents[$agent]}") 2>/dev/null || true
    wait "${agents[$agent]}" 2>/dev/null || true
  done
  if ((status != 0)); then
    tail -n 40 ./*.out 2>/dev/null || true
    tail -n 20 runs/*/log.txt runs/*/logs/* run/log.txt run/logs/* 2>/dev/null || true
  fi
  cd /
  rm -rf "$scratch"
}
trap finish EXIT

fail() {
  echo "failed: $*"
  exit 1
}
# Waits until the command succeeds, 100 seconds at most.
wait_for() {
  local i
  for ((i = 0; i < 1000; ++i)); do
    if "$@" >/dev/null 2>&1; then
      return
    fi
    sleep 0.1
  done
  fail "100 seconds passed without: $*"
}
# A port that nobody listens on now.
free_port() {
  local port
  while :; do
    port=$((30000 + RANDOM % 2000))
    if ! (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      echo "$port"
      return
    fi
  done
}

options=(--recipe "$source_root/recipes/iris.json" --set train.global_batch_size=24
  --set data.batch_size=12 --set threads.compute=1 --set train.precision=fp64
  --set train.log_every=1 --set lr_scheduler=null --set parallel.timeout_seconds=5
  --set 'checkpoint={"every_steps": 5, "keep_last": 3}' "$@")
step_saved() { # of the newest checkpoint of the folder $1
  local name
  name=$(cat "$1/checkpoints/latest" 2>/dev/null) || return 1
  name=${name#step-}
  echo $((10#${name%%_*}))
}
is_saved_after() { # folder, step
  local step
  step=$(step_saved "$1") && ((step > $2))
}

# The figures of the folder $1 are those of one rank, which takes as many steps.
check_steps() {
  local steps
  # STEP LOSS, to the digits that sums over ranks do not change.
  losses() {
    sed -n 's/.*"step": *\([0-9]*\).*"loss": *\([-0-9.e]*\).*/\1 \2/p;
            t; s/.*"loss": *\([-0-9.e]*\).*"step": *\([0-9]*\).*/\2 \1/p' "$1" |
      awk '{ printf "%d %.6f\n", $1, $2 }'
  }
  losses "$1/metrics.jsonl" >some.losses
  steps=$(tail -n 1 some.losses | cut -d ' ' -f 1)
  timeout 100 "$host" "${options[@]}" --set train.steps="$steps" --set checkpoint.every_steps=0 \
    --run-dir whole >whole.out 2>&1 || fail "one rank ended with $?"
  losses whole/metrics.jsonl >whole.losses
  [[ -s whole.losses ]] || fail "no losses in $(head -c 300 whole/metrics.jsonl)"
  cmp some.losses whole.losses || fail "not the same steps: $(diff -y some.losses whole.losses | sed -n 10,24p)"
  echo "$steps steps are those of a run that lost nothing"
}

case $what in
  rank)
    # Once, in step 33, rank 1 is killed. Nobody names the run folder.
    killed='hooks=[{"type": "fail_at", "options": {"event": "after_loss", "step": 33, "rank": 1,
      "how": "kill", "is_once": true, "mark": "'$scratch/mark'"}}]'
    timeout 200 "$torchrun" --no-python --standalone --nproc-per-node 2 --max-restarts 2 \
      "$host" "${options[@]}" --set train.steps=60 --set "$killed" >run.out 2>&1 ||
      fail "torchrun ended with $?"
    runs=(runs/*)
    ((${#runs[@]} == 1)) || fail "there are ${#runs[@]} run folders: ${runs[*]}"
    grep -q 'resumed from ' run.out || fail "the ranks did not go on from a checkpoint"
    [[ -e mark ]] || fail "no rank was killed"
    check_steps "${runs[0]}"
    ;;
  nodes | newcomers)
    [[ $what == nodes ]] || export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    port=$(free_port)
    start_agent() {
      "$torchrun" --no-python --nnodes 1:2 --nproc-per-node 1 --max-restarts 5 --rdzv-id job \
        --rdzv-backend c10d --rdzv-endpoint "127.0.0.1:$port" --local-addr 127.0.0.1 \
        --rdzv-conf last_call_timeout=12,keep_alive_interval=1,keep_alive_max_attempt=3 \
        --monitor-interval 0.2 \
        "$host" "${options[@]}" --set train.steps=1000000 --run-dir "$scratch/run" \
        >>"$1.out" 2>&1 &
      agents[$1]=$!
    }
    rank_of() { pgrep -P "${agents[$1]}" | head -n 1; }
    goes_on() { # steps are saved beyond those of now
      local now
      now=$(step_saved run || echo 0)
      wait_for is_saved_after run $((now + 10))
    }
    is_meeting() { : >"/dev/tcp/127.0.0.1/$port"; }
    start_agent first
    wait_for is_meeting # it keeps what agents meet by, and is not lost
    [[ $what == nodes ]] || goes_on
    start_agent second
    wait_for test -e run/logs/rank-1.txt
    goes_on
    echo "two ranks have saved step $(step_saved run)"

    # Its agent starts the rank again; the other agent sees a machine come, and counts nothing.
    killed=$(rank_of second)
    kill -KILL "$killed"
    is_started_again() {
      local now
      now=$(rank_of second) && [[ -n $now && $now != "$killed" ]]
    }
    wait_for is_started_again
    goes_on
    echo "a rank was lost; two go on, and have saved step $(step_saved run)"

    # Its rank goes with it.
    alone=$(rank_of first)
    lost=$(rank_of second)
    kill -KILL "${agents[second]}"
    wait "${agents[second]}" 2>/dev/null || true
    unset 'agents[second]'
    is_gone() { ! grep -qv ') Z ' "/proc/$lost/stat"; }  # who has ended may wait to be asked for it
    wait_for is_gone
    has_new_rank() {
      local now
      now=$(rank_of first) && [[ -n $now && $now != "$alone" ]]
    }
    wait_for has_new_rank
    goes_on
    echo "a machine was lost; one rank goes on, and has saved step $(step_saved run)"

    if [[ $what == newcomers ]]; then
      alone=$(rank_of first)
      start_agent second
      wait_for has_new_rank
      goes_on
      echo "a machine came; two ranks have saved step $(step_saved run)"
    fi

    kill -TERM "${agents[first]}"
    wait "${agents[first]}" 2>/dev/null || true
    if [[ $what == newcomers ]]; then
      kill -KILL $(family_of "${agents[second]}") 2>/dev/null || true
      wait "${agents[second]}" 2>/dev/null || true
    fi
    agents=()
    check_steps run
    ;;
  *) fail "what is $what" ;;
esac
! pgrep -f "$scratch" >/dev/null || fail "processes are left: $(pgrep -af "$scratch")"
