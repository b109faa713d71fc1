#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Training on the first GPU, as rows of tools/gpu-check --train: steps of ResNet-50 beside PyTorch's and beside the CPU's losses.

    train_gpu_bench.py build/train/train_step_bench [--small]

The images are made up. PyTorch's ResNet-50 has torch.compile (where there is one), autocast, channels last, a fused SGD, and
its images on the GPU. Both programs live all the time, and make their steps in turns; figures are medians of rounds. --small:
tiny sizes, to see that this file is right.

    train_gpu_bench.py build/train/train_step_bench --golden    writes the CPU's losses: tests/golden/train_losses.txt
"""
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from train_step_bench import Side  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / 'golden/train_losses.txt'
SMALL = '--small' in sys.argv
LOSSES = ['resnet20', '16', '16', 'fp32', 'fp32'] if SMALL else ['resnet50', '64', '32', 'fp32', 'fp32']
MODEL, PIXELS, BATCH, ROUNDS, STEPS = ('resnet20', 32, 2, 1, 1) if SMALL else ('resnet50', 224, 256, 5, 10)
NCLASS, FEW = 1000, min(16, BATCH)
bad = []


def row(what, figure, wanted=''):
    print(f'| {what} | {figure} | {wanted} |', flush=True)


def attempt(what, part):
    """One part; another one goes on after its failure."""
    try:
        part()
    except (Exception, SystemExit) as error:  # noqa: BLE001
        row(what, f'**failed**: {error}'.replace('\n', ' '))
        bad.append(what)


# ---- PyTorch


class Block:
    """The bottleneck of torchvision's ResNet-50, as functions that make modules."""

    @staticmethod
    def make(nn, channels, width, stride):
        def norm(n):
            return nn.BatchNorm2d(n)

        class Bottleneck(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Conv2d(channels, width, 1, bias=False), norm(width), nn.ReLU(inplace=True),
                    nn.Conv2d(width, width, 3, stride, 1, bias=False), norm(width), nn.ReLU(inplace=True),
                    nn.Conv2d(width, 4 * width, 1, bias=False), norm(4 * width))
                self.shortcut = nn.Identity() if stride == 1 and channels == 4 * width else nn.Sequential(
                    nn.Conv2d(channels, 4 * width, 1, stride, bias=False), norm(4 * width))
                self.relu = nn.ReLU(inplace=True)

            def forward(self, x):
                return self.relu(self.body(x) + self.shortcut(x))
        return Bottleneck()


def resnet50(nn):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        for k in range(depth):
            layers.append(Block.make(nn, channels, 64 << stage, 2 if stage > 0 and k == 0 else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, NCLASS))


def pytorch():
    """Answers lines of its input as train_step_bench does."""
    import torch

    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    torch.backends.cudnn.benchmark = True
    model = resnet50(torch.nn).to(device, memory_format=torch.channels_last).train()
    compiled = hasattr(torch, 'compile') and device == 'cuda'
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4,
                                **({'fused': True} if device == 'cuda' else {}))
    images = (torch.rand(BATCH, 3, PIXELS, PIXELS, device=device) * 2 - 1).to(memory_format=torch.channels_last)
    labels = torch.arange(BATCH, device=device) * 7 % NCLASS
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            value = loss(run(images), labels)
        value.backward()
        optimizer.step()

    print(0, 0, flush=True)
    for line in sys.stdin:
        _, n = line.split()
        if device == 'cuda':
            torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(int(n)):
            step()
        if device == 'cuda':
            torch.cuda.synchronize()
        print(time.monotonic() - begin, 0, flush=True)
    print(0, flush=True)


# ---- Parts


def ours(precision, device, ranks=1, batch=BATCH):
    return Side([sys.argv[1], MODEL, str(PIXELS), str(batch), precision, precision, device], ranks)


def median(side, what, n=STEPS):
    side.measure(what, max(1, n // 2))
    return statistics.median(side.measure(what, n) for _ in range(ROUNDS))


def losses(program, device):
    side = Side([program, *LOSSES, device], 1)
    side.ranks[0].stdin.write('losses 10\n')
    side.ranks[0].stdin.flush()
    values = [float(x) for x in side.ranks[0].stdout.readline().split()]
    side.end()
    return values


def follow():
    wanted = losses(sys.argv[1], 'cpu') if SMALL else [float(x) for x in GOLDEN.read_text().split()]
    seen = losses(sys.argv[1], 'cuda')
    worst = max(abs(a - b) / b for a, b in zip(seen, wanted, strict=True))
    row(f'10 steps of {LOSSES[0]} in fp32: largest difference from the losses of a processor', f'{worst:.1e}', '1e-3')
    assert worst < 1e-3, f'{seen} instead of {wanted}'


def ask(side, what):
    side.ranks[0].stdin.write(f'{what} 1\n')
    side.ranks[0].stdin.flush()
    return int(side.ranks[0].stdout.readline())


def hash_after(side, steps):
    side.measure('step', steps)
    return ask(side, 'hash')


def same_bits():
    bits = []
    for _ in range(2):
        side = ours('bf16', 'cuda', batch=min(BATCH, 64))
        bits.append(hash_after(side, 5))
        side.end()
    row(f'{MODEL} in bf16, {min(BATCH, 64)} images: the same bits in two runs of 5 steps', 'yes' if bits[0] == bits[1] else '**no**', 'yes')
    assert bits[0] == bits[1]


def beside_host(side, what, seconds):
    """A graph of a step would spare the host's part of it, and no more than the GPU waits for the host."""
    host, gpu = (median(side, name, max(1, STEPS // 2)) for name in ('host', 'gpu'))
    row(f'{what}: ms of a step; of its calls on the host; of its work on the GPU; a CUDA graph could save at most',
        f'{1e3 * seconds:.2f}; {1e3 * host:.2f}; {1e3 * gpu:.2f}; {max(0, 100 * (1 - gpu / seconds)):.1f} %')


def with_graphs(direct, what, batch):
    """In turns with `direct`. Returns the weights' hash after 5 steps: the first one runs directly, the second one is recorded."""
    side, n = ours('bf16', 'cuda-graph', batch=batch), max(1, STEPS // 2)
    side.measure('step', 1)
    before = ask(side, 'free')
    side.measure('step', 2)
    memory = before - ask(side, 'free')
    bits = hash_after(side, 2)
    rounds = [(direct.measure('step', n), side.measure('step', n)) for _ in range(ROUNDS)]
    row(f'{what}, --graph: ms of a step; of its calls on the host; speed, of that without; MiB of the graphs',
        f'{1e3 * statistics.median(r[1] for r in rounds):.2f}; {1e3 * median(side, "host", n):.2f}; '
        f'{statistics.median(r[0] / r[1] for r in rounds):.3f}; {memory / 2**20:.0f}')
    side.end()
    return bits


def small_batch():
    what, side = f'{MODEL}, {PIXELS} pixels, bf16, batch {FEW}', ours('bf16', 'cuda', batch=FEW)
    bits, seconds = hash_after(side, 5), median(side, 'step')
    beside_host(side, what, seconds)
    same = with_graphs(side, what, FEW) == bits
    side.end()
    row(f'{what}: the same bits in 5 steps with --graph', 'yes' if same else '**no**', 'yes')
    assert same


def beside_pytorch():
    side = ours('bf16', 'cuda')
    try:
        import torch  # noqa: F401
        theirs = Side([sys.executable, __file__, 'pytorch', *sys.argv[2:]], 1)
    except (ImportError, SystemExit):
        theirs = None
    rounds = []
    side.measure('step', STEPS)
    if theirs is not None:
        theirs.measure('step', STEPS)
    for _ in range(ROUNDS):
        rounds.append((side.measure('step', STEPS), theirs.measure('step', STEPS) if theirs is not None else float('nan')))
    mine, other = (statistics.median(r[k] for r in rounds) for k in (0, 1))
    what = f'{MODEL}, {PIXELS} pixels, bf16, batch {BATCH}'
    beside = f'{BATCH / other:.0f}; {statistics.median(r[1] / r[0] for r in rounds):.2f}' if theirs is not None else 'not there'
    row(f'{what}: images/s; PyTorch\'s (torch.compile, AMP, channels last, images on the GPU); ratio', f'{BATCH / mine:.0f}; {beside}', '1.1')
    parts = {name: median(side, name) for name in ('forward', 'backward', 'update', 'convolve')}
    row(f'{what}: ms of a step; forward; backward; optimiser and weights; its convolutions alone',
        '; '.join(f'{1e3 * t:.2f}' for t in (mine, *parts.values())))
    beside_host(side, what, mine)
    if theirs is not None:
        theirs.end()
    with_graphs(side, what, BATCH)
    side.end()
    nondeterministic = ours('bf16', 'cuda-nondeterministic')
    row(f'{what}: speed of the same bits in every run, of that of any order', f'{median(nondeterministic, "step") / mine:.3f}', '0.97')
    nondeterministic.end()


def precisions():
    for precision in ('fp16', 'fp32'):
        side = ours(precision, 'cuda', batch=BATCH // 2)
        row(f'{MODEL}, {PIXELS} pixels, {precision}, batch {BATCH // 2}: images/s', f'{BATCH // 2 / median(side, "step", max(1, STEPS // 2)):.0f}')
        side.end()


def two_ranks():
    for device, how in (('cuda', ''), ('cuda-graph', ', --graph')):
        side = ours('bf16', device, ranks=2, batch=BATCH // 2)
        row(f'{MODEL}, bf16, 2 ranks of {BATCH // 2} images on one GPU{how}: images/s', f'{BATCH / median(side, "step"):.0f}')
        side.end()


def main():
    if sys.argv[1] == 'pytorch':
        return pytorch()
    if '--golden' in sys.argv:
        GOLDEN.write_text('\n'.join(f'{x:.9g}' for x in losses(sys.argv[1], 'cpu')) + '\n')
        return 0
    for what, part in (('losses', follow), ('same bits', same_bits), ('images a second', beside_pytorch), ('small batch', small_batch),
                       ('two ranks', two_ranks), ('other precisions', precisions)):
        attempt(what, part)
    return len(bad) > 0


if __name__ == '__main__':
    sys.exit(main())
