"""Trains resnet18, vit_b_16 or GPT-2 as their packages give them, in one process and without DDP: the side in Python of the table exported.

The batches are parts of memory-mapped arrays, in order; SGD is fused; the seed is 1, as ddprun's."""

import numpy
import torch

import peer_worker

SMALL_GPT2 = {"n_layer": 4, "n_head": 4, "n_embd": 256, "vocab_size": 8192}


def make(name, settings=SMALL_GPT2):
    """The module, and what takes its output for the logits. `settings` are GPT-2's."""
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel

        return GPT2LMHeadModel(GPT2Config(use_cache=False, **settings)), lambda output: output.logits
    import torchvision

    return torchvision.models.get_model(name, weights=None), lambda output: output


def train(args):
    torch.set_num_threads(args.threads)
    module, logits_of = make(args.network)
    module.load_state_dict(torch.load(args.state, mmap=True))
    module.train()
    torch.manual_seed(1)
    inputs, target = (torch.from_numpy(numpy.load(f"{args.data}/{name}.npy", mmap_mode="c")) for name in ("input", "target"))
    optimizer = torch.optim.SGD(module.parameters(), lr=args.lr, momentum=args.momentum, fused=True)
    record = peer_worker.Record(args)
    for first in range(0, len(inputs), args.global_batch):
        part = slice(first, first + args.global_batch)
        optimizer.zero_grad()
        logits = logits_of(module(inputs[part]))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), target[part].flatten())
        loss.backward()
        optimizer.step()
        if record.ended(0, loss):
            break
    record.write()


def main():
    parser = peer_worker.make_parser(__doc__)
    parser.add_argument("--network", required=True, choices=["resnet18", "vit_b_16", "gpt2"])
    parser.add_argument("--data", required=True, help="the folder of input.npy and target.npy")
    parser.add_argument("--state", required=True, help="what torch.save(module.state_dict()) wrote")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
