# SPDX-License-Identifier: MIT
"""What LibTorch's process group makes of the pretend NCCL between processes: every collective and message has the numbers that it must have,
communicators are split, worlds at one time are kept apart, and a rank that is missing or fails does not hold the others for ever."""
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import traceback
import unittest

SECONDS = 300  # of a world, on a machine that does much else


def on_ranks(work, size=2, worlds=1, **settings):
    """Calls work(rank) in a process for each rank of each world; returns {(world, rank): (exit code, output)}."""
    files, started = {}, {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_files:
        for world in range(worlds):
            for rank in range(size):
                files[world, rank] = open_files.enter_context(tempfile.TemporaryFile())
                pid = os.fork()
                if pid == 0:
                    run_rank(work, rank, size, f"file://{folder}/{world}", files[world, rank].fileno(), settings)
                started[world, rank] = pid
        found = {}
        for key, pid in started.items():
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            files[key].seek(0)
            found[key] = code, files[key].read().decode(errors="replace")
    return found


def run_rank(work, rank, size, store, output, settings):
    code = 1
    try:
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        signal.alarm(SECONDS)
        quick = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "100", "TORCH_NCCL_ENABLE_MONITORING": "0"}
        os.environ.update({"PRETEND_GPUS": "4", **quick, **{name: value for name, value in settings.items() if name != "seconds"}})
        torch.cuda.set_device(rank)
        limit = datetime.timedelta(seconds=settings.get("seconds", SECONDS))
        dist.init_process_group("nccl", init_method=store, rank=rank, world_size=size, timeout=limit, device_id=torch.device("cuda", rank))
        work(rank)
        torch.cuda.synchronize()
        code = 0
    except BaseException:  # pylint: disable=broad-exception-caught  # it is the test's to judge
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def numbers(rank, count=1000, kind=None):
    return (torch.arange(count, device="cuda") + 10 * rank).to(kind or torch.float32)


def expect(found, expected):
    assert torch.equal(found.cpu(), torch.as_tensor(expected).to(found.dtype).cpu()), (found, expected)


def every_reduction(rank):
    mine, other = numbers(0).cpu(), numbers(1).cpu()
    for operation, expected in ((dist.ReduceOp.SUM, mine + other), (dist.ReduceOp.AVG, (mine + other) / 2), (dist.ReduceOp.MAX, other),
                                (dist.ReduceOp.MIN, mine), (dist.ReduceOp.PRODUCT, mine * other)):  # fmt: skip
        for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
            if kind == torch.uint8 and operation != dist.ReduceOp.MAX or operation == dist.ReduceOp.AVG and not kind.is_floating_point:
                continue
            small = numbers(rank, 10, kind)
            dist.all_reduce(small, operation)
            expect(small, expected[:10].to(kind))


def every_collective(rank):
    for count in (0, 1, 1000, 300_000):  # of which the last takes several chunks
        mine, other = numbers(0, count).cpu(), numbers(1, count).cpu()
        summed = numbers(rank, count)
        dist.all_reduce(summed)
        expect(summed, mine + other)
        sent = numbers(rank, count)
        dist.broadcast(sent, 1)
        expect(sent, other)
        reduced = numbers(rank, count)
        dist.reduce(reduced, 1)
        if rank == 1:
            expect(reduced, mine + other)
        gathered = torch.zeros(2 * count, device="cuda")
        dist.all_gather_into_tensor(gathered, numbers(rank, count))
        expect(gathered, torch.cat([mine, other]))
        scattered = torch.zeros(count, device="cuda")
        dist.reduce_scatter_tensor(scattered, torch.cat([numbers(rank, count), numbers(rank, count) * 2]))
        expect(scattered, (mine + other) * (rank + 1))
        exchanged = torch.zeros(2 * count, device="cuda")
        dist.all_to_all_single(exchanged, torch.cat([numbers(rank, count), -numbers(rank, count)]))
        sign = 1 if rank == 0 else -1
        expect(exchanged, torch.cat([sign * mine, sign * other]))


def every_message(rank):
    peer = 1 - rank
    for count in (1, 1000, 300_000):
        data = numbers(rank, count)
        if rank == 0:
            dist.send(data, 1)
        else:
            dist.recv(data, 0)
            expect(data, numbers(0, count))
        taken = torch.zeros(count, device="cuda")
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, numbers(rank, count), peer), dist.P2POp(dist.irecv, taken, peer)]):
            work.wait()
        expect(taken, numbers(peer, count))
        parts = [[(one + other + 1) * count for other in range(2)] for one in range(2)]  # that a rank sends to each, and takes of each
        uneven = torch.zeros(sum(parts[rank]), device="cuda")
        dist.all_to_all_single(uneven, numbers(rank, sum(parts[rank])), parts[rank], parts[rank])
        expect(uneven, torch.cat([numbers(one, sum(parts[one])).split(parts[one])[rank].cpu() for one in range(2)]))


def groups_of_two(rank):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    data = torch.full((10,), float(rank), device="cuda")
    dist.all_reduce(data, group=pairs[rank // 2])
    expect(data, [1.0 if rank < 2 else 5.0] * 10)
    split = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    data.fill_(rank)
    dist.all_reduce(data, group=split)
    expect(data, [2.0 if rank % 2 == 0 else 4.0] * 10)
    dist.all_reduce(data)
    expect(data, [12.0] * 10)


def replayed_collective(rank):
    data, graph = torch.ones(1000, device="cuda"), torch.cuda.CUDAGraph()
    dist.all_reduce(data)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.all_reduce(data)
    for _ in range(3):
        graph.replay()
    expect(data, [16.0] * 1000)


def one_rank_stays_away(rank):
    if rank == 0:
        dist.all_reduce(torch.ones(10, device="cuda"))
        torch.cuda.synchronize()
    else:
        signal.alarm(20)
        signal.pause()


def unequal_counts(rank):
    dist.all_reduce(numbers(rank, 1000 - rank))


def another_order(rank):
    calls = [lambda: dist.all_reduce(numbers(rank)), lambda: dist.broadcast(numbers(rank), 0)]
    for call in reversed(calls) if rank == 1 else calls:
        call()


def another_length(rank):
    if rank == 0:
        dist.send(numbers(0, 500), 1)
    else:
        dist.recv(numbers(1, 1000), 0)


def result_that_is_not_there(rank, waits=False):
    data = numbers(rank)
    work = dist.all_reduce(data, async_op=True)
    if waits:
        work.wait()
    found = data[5].item()
    work.wait()
    assert found == 20, f"it has read {found}"


class Nccl(unittest.TestCase):
    def assert_all_end_well(self, found):
        for key, (code, output) in found.items():
            self.assertEqual(code, 0, f"world and rank {key}:\n{output}")
            self.assertNotIn("not pretended", output)

    def test_reductions_of_every_type(self):
        self.assert_all_end_well(on_ranks(every_reduction))

    def test_collectives_of_every_length(self):
        self.assert_all_end_well(on_ranks(every_collective))
        self.assert_all_end_well(on_ranks(every_collective, PRETEND_SCHEDULE="lazy"))

    def test_messages(self):
        self.assert_all_end_well(on_ranks(every_message))

    def test_groups_and_split_communicators(self):
        self.assert_all_end_well(on_ranks(groups_of_two, size=4))

    def test_replayed_collectives(self):
        self.assert_all_end_well(on_ranks(replayed_collective))

    def test_two_worlds_at_once_are_kept_apart(self):
        self.assert_all_end_well(on_ranks(every_collective, worlds=2))

    def test_ranks_that_do_not_agree_are_ended_by_the_watchdog(self):
        for work, words in ((one_rank_stays_away, "Timeout(ms)=2000"), (unequal_counts, "do not call the same"),
                            (another_order, "do not call the same"), (another_length, "expects 4000 bytes")):  # fmt: skip
            with self.subTest(work=work.__name__):
                found = on_ranks(work, seconds=2)
                self.assertTrue(any(code for code, _ in found.values()))
                self.assertIn(words, "".join(output for _, output in found.values()))

    def test_a_result_is_read_only_once_it_was_waited_for(self):
        self.assert_all_end_well(on_ranks(lambda rank: result_that_is_not_there(rank, waits=True), PRETEND_SCHEDULE="lazy"))
        for code, output in on_ranks(result_that_is_not_there, PRETEND_SCHEDULE="lazy").values():
            self.assertNotEqual(code, 0)
            self.assertIn("it has read ", output)

    def test_an_error_while_work_runs_is_reported_by_the_watchdog(self):
        found = on_ranks(every_collective, PRETEND_FAIL="ncclAllReduce:1:late", seconds=20)
        for code, output in found.values():
            self.assertNotEqual(code, 0)
            self.assertRegex(output, "unhandled cuda error|NCCL error")


if __name__ == "__main__":
    if "libcudart.so" not in os.environ.get("LD_PRELOAD", ""):
        launcher = pathlib.Path(__file__).resolve().parent / "run"
        os.execv(launcher, [launcher, sys.executable, "-B", __file__, *sys.argv[1:]])
    import datetime

    import torch
    import torch.distributed as dist

    unittest.main()
