# SPDX-License-Identifier: Apache-2.0
"""Several ranks on the CPUs of this machine, one thread each, over Gloo: bytes sent, scaling efficiency, latency of a slow
network, and peak memory.

The model is the model of the `lm` workload, with 8 windows per rank and step. Scaling efficiency is the throughput of 2
ranks divided by the throughput of 2 independent single-process runs of the same program at the same time. Each program is
compared with itself only, as the kernels of programs differ. Bytes are the host's own count, of the steps alone: a long run
minus a short run.
"""
import concurrent.futures
import statistics

import programs
from table import Goal, Group, Result, at_most

WINDOWS = 8  # of 128 tokens, per rank and step
RECIPE = "lm.json"
SHARDING = {"replicated": ["parallel.shard=1", "parallel.replicate=-1"], "ZeRO 3": ["parallel.stage=3"]}
HOST_ROWS = {"replicated": "Tenon, replicated", "ZeRO 3": "Tenon, ZeRO 3"}
PEERS = {"ddp": "DistributedDataParallel, replicated", "fsdp2": "FSDP2, ZeRO 3"}
EFFICIENCY_GOALS = {"replicated": 0.97, "ZeRO 3": 0.92}
PEER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", **programs.tuned_process()}
DELAY_MS = 5


def run_host(num_ranks, warmup, steps, sets=(), environment=None):
    """The values of rank 0, and the summary of the run."""
    return programs.host_run(
        RECIPE, warmup, steps, ["threads.compute=1", f"data.batch_size={WINDOWS}", *sets],
        arguments=["--launch", num_ranks] if num_ranks > 1 else (), environment=environment)


def step_seconds(*arguments):
    return run_host(*arguments)[0]["step_s"]


def times(values):
    """Wall time and CPU time of a step, of rank 0."""
    return {key: values[key] for key in ("step_s", "cpu_step_s")}


# ---- bytes sent ----

def bytes_per_step(num_ranks, sets):
    short, long = 2, 12
    first, second = (run_host(num_ranks, 1, steps - 1, sets)[1] for steps in (short, long))
    sent = sum(second["sent_bytes"].values()) - sum(first["sent_bytes"].values())
    return sent / (long - short), 4 * second["parameters"]


def traffic(quick):
    result, rows = Result(), {}
    for name, times, sets in (
            ("replicated", 2, SHARDING["replicated"]),
            ("ZeRO 3", 3, [*SHARDING["ZeRO 3"], "parallel.reshard_after_forward=true"])):
        for n in (2,) if quick else (2, 4):
            programs.say(f"ranks: bytes of {n}, {name}")
            sent, parameters = bytes_per_step(n, sets)
            theory = times * (n - 1) / n * parameters
            rows[f"{name}, {n} ranks: {times}(n-1)/n of the parameters"] = [sent / theory]
            over = 100 * (sent / theory - 1)
            result.goals.append(Goal("ranks", f"bytes sent, {name}, {n} ranks, less than 1% over theory",
                                     f"{over:+.2f}%", 0 <= over < 1))
            result.raw[f"{name}, {n}"] = {"bytes_per_step": sent, "theory": theory}
    result.groups.append(Group("bytes sent per rank and step, measured / theory", rows, 4))
    return result


# ---- scaling efficiency ----

def run_peer(name, warmup, steps):
    return times(programs.last_line(programs.run(
        [programs.PYTHON, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2,
         programs.ROOT / "tests/bench/peers/ranks_peer.py", name, warmup, steps], PEER_ENVIRONMENT)))


def run_peer_alone(warmup, steps):
    return times(programs.peer("ranks_peer.py", "alone", warmup, steps, environment=PEER_ENVIRONMENT))


def at_the_same_time(run_one):
    """The times of two independent runs."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run_one) for _ in range(2)]
        return [future.result() for future in both]


def efficiency(ranks_s, alone_s):
    """Throughput of two ranks over the throughput of two independent runs; each process does the same work per step."""
    return (2 / ranks_s) / sum(1 / step_s for step_s in alone_s)


def scaling(quick):
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 5, 40)
    programs_of_round = {
        "tenon alone": lambda: at_the_same_time(lambda: times(run_host(1, warmup, steps)[0]))}
    for name, sets in SHARDING.items():
        programs_of_round[name] = lambda sets=sets: times(run_host(2, warmup, steps, sets)[0])
    rows = {name: (title, "tenon alone") for name, title in HOST_ROWS.items()}
    if programs.has_peers():
        programs_of_round["peer alone"] = lambda: at_the_same_time(lambda: run_peer_alone(warmup, steps))
        for name, title in PEERS.items():
            programs_of_round[name] = lambda name=name: run_peer(name, warmup, steps)
            rows[name] = (title, "peer alone")
    rounds = []
    for i in range(num_rounds):
        programs.say(f"ranks: scaling, round {i + 1} of {num_rounds}")
        rounds.append({name: programs_of_round[name]() for name in programs.in_turn(programs_of_round, i)})
    found = {name: [efficiency(one[name]["step_s"], [run["step_s"] for run in one[alone]]) for one in rounds]
             for name, (_, alone) in rows.items()}
    cpu_ratio = {name: [one[name]["cpu_step_s"] / statistics.mean(run["cpu_step_s"] for run in one[alone])
                        for one in rounds] for name, (_, alone) in rows.items()}
    result = Result(
        [Group("scaling efficiency of 2 ranks", {title: found[name] for name, (title, _) in rows.items()}),
         Group("CPU time of a step of rank 0 of 2, ms",
               {title: [1000 * one[name]["cpu_step_s"] for one in rounds] for name, (title, _) in rows.items()}, 1),
         Group("CPU time of a step of an independent run / CPU time of a step of rank 0",
               {title: [1 / value for value in cpu_ratio[name]] for name, (title, _) in rows.items()})],
        raw={"rounds": rounds, "warmup": warmup, "steps": steps},
        notes=[] if programs.has_peers() else [programs.NO_PEERS])
    for name, goal in EFFICIENCY_GOALS.items():
        wall, cpu = statistics.median(found[name]), 1 / statistics.median(cpu_ratio[name])
        result.goals.append(Goal("ranks", f"{name}, scaling efficiency of 2 ranks, at least {goal}",
                                 f"{wall:.2f}; CPU time {cpu:.2f}", wall >= goal, cpu >= goal))
    return result


# ---- latency ----

def latency(quick):
    """16 windows per rank, as in the quickstart. In replicated runs, with buckets of 1 MB, of which the gradients fill
    four, the last bucket is exposed. In ZeRO 3, the first gather, the last reduction and the gradient norm are exposed."""
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 5, 30)
    delay = {"TENON_TEST_COLLECTIVES": f"delay_ms={DELAY_MS}"}
    result = Result()
    for name, sets, num_exposed in (
            ("replicated", [*SHARDING["replicated"], "parallel.bucket_bytes=1000000"], 1),
            ("ZeRO 3", SHARDING["ZeRO 3"], 3)):
        rounds = []
        for i in range(num_rounds):
            programs.say(f"ranks: latency, {name}, round {i + 1} of {num_rounds}")
            rounds.append({key: step_seconds(2, warmup, steps, [*sets, "data.batch_size=16"], environment)
                           for key, environment in (("fast", {}), ("slow", delay))})
        exposed_ms = num_exposed * DELAY_MS
        beyond = 100 * statistics.median(
            (one["slow"] - one["fast"] - exposed_ms / 1000) / one["fast"] for one in rounds)
        result.groups.append(Group(f"step of 2 ranks, {name}, ms", {
            "without added latency": [1000 * one["fast"] for one in rounds],
            f"growth by {DELAY_MS} ms added latency": [1000 * (one["slow"] - one["fast"]) for one in rounds]}, 1))
        result.goals.append(Goal(
            "ranks", f"{DELAY_MS} ms latency, {name}: growth at most {exposed_ms} ms and 10% of the step",
            f"{exposed_ms} ms and {beyond:.1f}%", beyond <= 10))
        result.raw[name] = rounds
    return result


# ---- memory ----

LARGER = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 8}
LARGER_BLOCK = 4 * 256 * 256 + 3 * 256 * 704 + 2 * 256  # parameters of a layer


def memory(quick):
    """Peak of the tensors' memory, by the host's allocator, of a larger model, one window per step. Activations are the
    peak of one rank minus parameters, gradients and two moments. Two blocks are gathered at a time, with gradients."""
    sets = [f"model.options.{key}={value}" for key, value in LARGER.items()] + ["data.batch_size=1"]
    alone = run_host(1, 1, 3, sets)[1]
    state = 16 * alone["parameters"]
    activations = alone["peak_tensor_bytes"] - state
    result, rows = Result(raw={"alone": alone["peak_tensor_bytes"], "state": state}), {}
    for n in (2,) if quick else (2, 4):
        programs.say(f"ranks: memory of {n}")
        theory = state / n + 2 * 8 * LARGER_BLOCK + activations
        peak = result.raw[n] = run_host(n, 1, 3, sets)[1]["peak_tensor_bytes"]
        rows[f"ZeRO 3, {n} ranks"] = [peak / theory]
        result.goals.append(at_most(
            "ranks", f"peak memory of {n} ranks / (state/n + 2 blocks + activations)", 1.1, peak / theory))
    result.groups.append(Group("peak tensor memory / (state/n + 2 blocks + activations)", rows))
    return result


def measure(quick):
    result = Result()
    for name, part in (("traffic", traffic), ("scaling", scaling), ("latency", latency), ("memory", memory)):
        result.add(name, part(quick))
    return result
