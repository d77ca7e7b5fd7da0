"""Trains GPT-2 of transformers with AdamW under torchrun, sharded as PyTorch does it: the sides in Python of the table sharded.

`ddp` has all on each worker; `zero` is ZeroRedundancyOptimizer around AdamW; `fsdp2` is fully_shard of each block and of the rest.
The batches are parts of memory-mapped arrays, in order; AdamW is fused; the seed is 1, as ddprun's.
"""

import json

import numpy
import torch
import torch.distributed as dist

import exported_peer
import peer_worker


def sharded(module, kind, lr):
    """What trains the module, and its optimizer."""
    settings = {"lr": lr, "fused": True}
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(next(module.parameters()).device.type, (dist.get_world_size(),))
        for part in (*module.transformer.h, module):
            fully_shard(part, mesh=mesh)
        return module, torch.optim.AdamW(module.parameters(), **settings)
    trained = torch.nn.parallel.DistributedDataParallel(module)
    if kind == "ddp":
        return trained, torch.optim.AdamW(trained.parameters(), **settings)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return trained, ZeroRedundancyOptimizer(trained.parameters(), torch.optim.AdamW, **settings)


def train(args, device):
    module, logits_of = exported_peer.make("gpt2", json.loads(args.settings))
    module.load_state_dict(torch.load(args.state, mmap=True))
    module.to(device).train()
    torch.manual_seed(1)
    trained, optimizer = sharded(module, args.shard, args.lr)
    inputs, target = (torch.from_numpy(numpy.load(f"{args.data}/{name}.npy", mmap_mode="c")) for name in ("input", "target"))
    own, record = args.global_batch // dist.get_world_size(), peer_worker.Record(args)
    for first in range(0, len(inputs), args.global_batch):
        part = slice(first + own * dist.get_rank(), first + own * (dist.get_rank() + 1))
        optimizer.zero_grad()
        logits = logits_of(trained(inputs[part].to(device)))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), target[part].to(device).flatten())
        loss.backward()
        optimizer.step()
        if record.ended(0, loss):
            break
    record.write()


def make_parser():
    parser = peer_worker.make_parser(__doc__)
    parser.add_argument("--shard", required=True, choices=["ddp", "zero", "fsdp2"])
    parser.add_argument("--settings", required=True, help="of GPT2Config, as JSON")
    parser.add_argument("--data", required=True, help="the folder of input.npy and target.npy")
    parser.add_argument("--state", required=True, help="what torch.save(module.state_dict()) wrote")
    return parser


if __name__ == "__main__":
    peer_worker.main(make_parser(), train)
