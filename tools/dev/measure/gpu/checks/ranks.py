"""Checks of several ranks: real NCCL ranks, on one GPU too, ranks that share a GPU through Gloo, and strategy dp.

NCCL refuses two ranks on one GPU of one host. Where NCCL_HOSTID says that they are on two hosts, it takes them, and they talk through
sockets: so two launchers, as on two nodes, are two real NCCL ranks on one GPU. Where there are several GPUs, these checks use them
all, through one launcher; a rehearsal has two launchers on the CPU, whose ranks talk through Gloo.
"""

import re
import signal
import time

from measure.gpu.checks.context import EXACT_FP32, SAME, SMALL, TOLERANCE, Skip, compare, same
from measure.runs import Run, free_port, wait_for
from measure.process import processes_with

STEPS = 30
SHORT = [*SAME, *SMALL, f"trainer.max_steps={STEPS}", "optimizer.lr=0.01"]
MLP = ["model=mlp", *SHORT, EXACT_FP32]
# Fewer threads of the GPU for each rank, and nothing that only another host would have.
ON_ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_MNNVL_ENABLE": "0",
              "CUDA_VISIBLE_DEVICES": "0"}  # fmt: skip
MARK = "DDPRUN_RUN_DIR"  # in the environment of a run's workers
STOPPED = 75  # saved, and to be run again
END_SECONDS = 10  # after a worker's death
HEARTBEAT_SECONDS = 20  # instead of LibTorch's 480: a restarted attempt must outlive it


class Together:
    """One run of several ranks, from its start on."""

    def __init__(self, context, name, words, environment=None):
        self.context = context
        self.name = name
        self.run = Run(context.ddprun.folder / name)
        self.processes = {}
        several = len(context.gpus) > 1
        port = free_port()
        for rank in range(1 if several else 2):
            command = context.ddprun.command(self.run, "digits", words)
            if several:
                command += [f"launch.workers={len(context.gpus)}"]
                added = {}
            else:
                command += ["--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}", f"--rdzv-endpoint=127.0.0.1:{port}"]
                added = {**ON_ONE_GPU, "NCCL_HOSTID": f"host_{rank}"}
            self.processes[f"{name}_{rank}"] = context.ddprun.spawn(f"{name}_{rank}", command, {**added, **(environment or {})})

    def statuses(self):
        return [self.context.ddprun.status(process, name) for name, process in self.processes.items()]

    def finished(self):
        for name, process in self.processes.items():
            self.context.ddprun.finish(process, name)
        return self.run

    def wait_for(self, what, met):
        wait_for(what, met, self.processes.values(), self.context.deadline)

    def ask_to_end(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)

    def outputs(self):
        return " ".join(self.context.ddprun.output(name)[-300:] for name in self.processes)


def require_ranks(context):
    if not context.rehearse:
        context.require_gpu()


def with_one_rank(context, name, words, tolerance, left_out_alone="-"):
    """The same settings with several ranks and with one, whose losses they must have."""
    require_ranks(context)
    together = Together(context, name, words)
    alone = context.train(f"{name}_alone", [word for word in words if not word.startswith(left_out_alone)])
    run = together.finished()
    assert run.summary()["world_size"] > 1, f"{run.summary()['world_size']} rank trained"
    return run, compare(run, alone, tolerance)


def nccl_losses(context):
    """real NCCL ranks: the losses of 30 steps are those of one rank"""
    run, worst = with_one_rank(context, "together", MLP, TOLERANCE)
    warned = [path.name for path in run.folder.glob("logs/rank_*.log") if "destroy_process_group" in path.read_text(errors="replace")]
    assert not warned, f"PyTorch warns that nobody shut the process group down: {warned}"
    summary = run.summary()
    waited = f"{1e3 * summary['wait_seconds'] / STEPS:.2f} ms of a step in the exchange"
    return f"{summary['world_size']} ranks; they differ by {worst:.1e} of the first; {waited}"


def nccl_graphs(context):
    """real NCCL ranks: steps replayed with their all-reduce have the bits of ordinary ones"""
    require_ranks(context)
    runs = {mode: Together(context, f"graph_{mode}", [*MLP, f"trainer.cuda_graph={mode}"]).finished()
            for mode in (("on", "off") if context.gpus else ("auto", "off"))}  # fmt: skip
    replayed, ordinary = runs.values()
    same(replayed, ordinary)
    steps = replayed.summary()["replayed_steps"]
    assert steps > 0 or not context.gpus, f"no step was replayed: {replayed.summary()['cuda_graph']}"
    return f"{steps} steps replayed"


def nccl_sync_batchnorm(context):
    """sync_batchnorm: the losses of 30 steps are those of one rank with the whole batch, in both memory formats"""
    words = ["model=convnet_bn", *SHORT, EXACT_FP32, "trainer.sync_batchnorm=true"]
    if context.rehearse:
        words += ["trainer.max_steps=5"]
    return differences(context, {layout: [*words, f"trainer.memory_format={layout}"] for layout in ("channels_first", "channels_last")}, 2e-2)


def nccl_compression(context):
    """gradients exchanged in fp16 and bf16: the losses of 30 steps are near those of one rank"""
    return differences(context, {kind: [*MLP, f"trainer.gradient_compression={kind}"] for kind in ("fp16", "bf16")}, 5e-2,
                       left_out_alone="trainer.gradient_compression")  # fmt: skip


def nccl_unused_parameters(context):
    """find_unused_parameters and static_graph: the losses of 30 steps are those of one rank"""
    return differences(context, {key: [*MLP, f"trainer.{key}=true"] for key in ("find_unused_parameters", "static_graph")}, TOLERANCE)


def nccl_ragged_batch(context):
    """a batch of 65 that the ranks cannot share evenly, and a ragged last one: the losses of 30 steps are those of one rank"""
    words = [*MLP, "dataset.train_size=400", "trainer.global_batch=65", "trainer.max_epochs=9"]
    return differences(context, {"batch_65": words}, TOLERANCE)


def differences(context, cases, tolerance, left_out_alone="-"):
    words = []
    for name, settings in cases.items():
        _, worst = with_one_rank(context, name, settings, tolerance, left_out_alone)
        words.append(f"{name} {worst:.1e}")
    return "largest differences, as a part of the first loss: " + ", ".join(words)


def nccl_kill(context):
    """kill -9 of the second rank: every launcher fails within 10 s, and nothing is left behind"""
    require_ranks(context)
    together = Together(context, "killed", [*MLP, "trainer.max_steps=100000", "trainer.max_epochs=100000"],
                        {"DDPRUN_FAULT": "kill:computing:20:1"})  # fmt: skip
    wait_for("step 10", lambda: max(together.run.losses(), default=0) >= 10, [], context.deadline)
    began = time.monotonic()
    statuses = together.statuses()
    seconds = time.monotonic() - began
    assert 0 not in statuses and 2 not in statuses, f"exit codes {statuses}"
    assert seconds < END_SECONDS, f"the launchers ended {seconds:.1f} s later"
    assert "SIGKILL" in together.outputs(), f"the launchers do not say that it was killed: {together.outputs()}"
    left = processes_with(MARK, together.run.folder)
    assert not left, f"workers are left: {left}"
    return f"all ended {seconds:.1f} s later with {statuses}"


def nccl_restart(context):
    """kill -9 of the second rank with max_restarts=1: the second attempt outlives LibTorch's heartbeat, then is asked to end"""
    require_ranks(context)
    outlived = 3 if context.rehearse else HEARTBEAT_SECONDS + 5
    words = [*MLP, "trainer.max_steps=1000000", "trainer.max_epochs=100000", "launch.max_restarts=1", "checkpoint.every=1000000st",
             "trainer.log_every=10"]  # fmt: skip
    together = Together(context, "restarted", words,
                        {"DDPRUN_FAULT": "kill:computing:20:1", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": str(HEARTBEAT_SECONDS)})  # fmt: skip
    second = lambda: [row for row in together.run.rows() if row["attempt"] == 1]  # noqa: E731
    together.wait_for("the second attempt", second)
    begun = time.monotonic()
    together.wait_for("the heartbeat's end", lambda: time.monotonic() > begun + outlived)
    together.ask_to_end()
    statuses = together.statuses()
    assert set(statuses) == {STOPPED}, f"exit codes {statuses}: {together.outputs()}"
    return f"the second attempt continued for {outlived} s, to step {max(together.run.losses())}"


def nccl_mistakes(context):
    """two ranks with one GPU on one host, and an interface that does not exist: one clear message each, and no hang"""
    context.require_gpu()
    if len(context.gpus) > 1:
        raise Skip("these mistakes are made with one GPU")
    cases = {"one_host": ({"NCCL_HOSTID": "one"}, "have the same GPU"),
             "no_interface": ({"NCCL_SOCKET_IFNAME": "nonsense"}, "NCCL_SOCKET_IFNAME")}  # fmt: skip
    for name, (environment, expected) in cases.items():
        together = Together(context, name, MLP, environment)
        statuses = together.statuses()
        text = " ".join(context.ddprun.output(launcher) for launcher in together.processes)
        assert set(statuses) <= {1, 2}, f"{name}: exit codes {statuses}: {together.outputs()}"
        assert expected in text, f"{name}: nothing is said of it: {together.outputs()}"
    return "both are reported"


def two_ranks_on_one_gpu(context):
    """two ranks on one GPU through Gloo: the losses of 30 steps are those of one"""
    first_gpu = {"CUDA_VISIBLE_DEVICES": "0"}
    words = MLP
    made = context.at_once({
        "alone": lambda: context.train("one_rank", words, environment=first_gpu),
        "together": lambda: context.train("two_ranks", [*words, "launch.workers=2", "launch.backend=gloo"], environment=first_gpu),
    })  # fmt: skip
    summary = made["together"].summary()
    assert summary["world_size"] == 2, f"{summary['world_size']} ranks trained"
    worst = compare(made["together"], made["alone"])
    return f"they differ by {worst:.1e} of the first; {1e3 * summary['wait_seconds'] / STEPS:.2f} ms of a step in the exchange"


def data_parallel(context):
    """strategy dp over all GPUs: the losses of 30 steps are those of one GPU, and of ddp over all"""
    context.require_gpu()
    gpus = len(context.gpus)
    runs = {"dp": [*MLP, "trainer.strategy=dp"], **{f"ddp_{workers}": [*MLP, f"launch.workers={workers}"] for workers in {1, gpus}}}
    made = context.train_at_once(runs)
    found = re.search(r"1 worker on (\d+) GPUs? \(dp\)", context.ddprun.output("dp"))
    assert found and int(found.group(1)) == gpus, f"{gpus} GPUs here, dp used {found.group(1) if found else 'none'}"
    words = [f"{compare(made['dp'], run):.1e} from {name}" for name, run in made.items() if name != "dp"]
    return f"{gpus} in one process; the losses differ by " + ", ".join(words)
