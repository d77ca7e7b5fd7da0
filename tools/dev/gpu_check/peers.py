"""The peers that stand by while the tables are made, and what each trains once before it counts as ready."""

from gpu_check.standing import BENCH, Standing
from suite.peers import KEEPS_MEMORY

MODELS = ("convnet", "convnet_bn")
GRAPH_WARM_UP = 12  # steps in which torch.compile has compiled all, and recorded its graphs


def start(python, device, folder, data, missing, sizes, loader_workers):
    """{name: Standing}. `data` holds MNIST/raw, where it is not missing, and cifar-100-binary."""
    shared = [f"--data={data}", f"--device={device}", "--epochs=100000"]
    images = [*shared, f"--depth={sizes.network[0]}", f"--widen-factor={sizes.network[1]}"]
    mnist = [*shared, f"--evaluations={sizes.evaluations}", f"--num-workers={min(1, loader_workers)}"]
    words = {
        "mnist_plain": ("mnist_peers/plain.py", mnist, [mnist_words(model) for model in MODELS]),
        "mnist_expert": ("mnist_peers/expert.py", mnist,
                         [mnist_words(model, precision) for model in MODELS for precision in ("fp32", "bf16")]),
        "cifar_plain": ("cifar_peers/plain.py", [*images, f"--num-workers={loader_workers}", f"--precision={sizes.half}"], [[]]),
        "cifar_expert": ("cifar_peers/expert.py", images, [[], ["--no-compile"]]),
    }  # fmt: skip
    started = {}
    for name, (script, arguments, warm_ups) in words.items():
        if name.startswith("mnist") and "mnist" in missing:
            continue
        batch = sizes.mnist_batch if name.startswith("mnist") else sizes.cifar_batch
        short = [f"--max-steps={min(GRAPH_WARM_UP, sizes.cifar_steps)}", f"--global-batch={batch}"]
        environment = KEEPS_MEMORY if name.endswith("expert") else {}
        command = [python, BENCH / script, *arguments]
        started[name] = Standing(name, command, folder, environment, [[*short, *one] for one in warm_ups])
    return started


def mnist_words(model, precision=None):
    """The plain script knows fp32 alone."""
    return [f"--model={model}", *([f"--precision={precision}"] if precision else [])]
