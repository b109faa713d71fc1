# SPDX-License-Identifier: BSD-3-Clause
"""Images per second of DistributedDataParallel with all ranks on the first GPU, as a row of a table; for tools/gpu-check.

    PYTHONPATH=~/plait-nccl python tests/nccl/torch_images.py --ranks 2

The same processes train alone (one of them), over libnccl.so.2 or TORCH_BACKEND, and over Gloo. The network is torchvision's ResNet-50, or
a smaller one where there is no torchvision. PLAIT_TORCH_HOST=1: on the host, with Gloo in both places, to see that this
file is right.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

from torch_ranks import BACKEND, DEVICE, HOST, run_all, synchronize

BATCH, SIDE, WARM, LEAST = (1, 32, 1, 0.1) if HOST else (64, 224, 8, 2.0)  # LEAST: seconds of a measurement


class Block(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convolutions = torch.nn.Sequential(*(layer for _ in range(2) for layer in (
            torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False), torch.nn.BatchNorm2d(channels), torch.nn.ReLU())))

    def forward(self, x):
        return x + self.convolutions(x)


def network():
    """The network and its name."""
    try:
        import torchvision
        return torchvision.models.resnet50(), "ResNet-50"
    except ImportError:
        layers = [torch.nn.Conv2d(3, 64, 7, stride=4, padding=3), *(Block(64) for _ in range(3)),
                  torch.nn.Conv2d(64, 512, 3, stride=4), *(Block(512) for _ in range(4)),
                  torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000)]
        return torch.nn.Sequential(*layers), "a small network"


def train(model, optimizer, x, y, steps):
    synchronize()
    start = time.monotonic()
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    synchronize()
    return (time.monotonic() - start) / steps


def images(ranks, control, group, x, y):
    """Of all `ranks` ranks, which begin together. group: None, a rank alone."""
    model = network()[0].to(DEVICE, memory_format=torch.channels_last)
    if group is not None:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(model, optimizer, x, y, WARM)
    each = torch.tensor([train(model, optimizer, x, y, 2)])
    if group is not None:
        dist.all_reduce(each, dist.ReduceOp.MAX, group=control)
    steps = max(2, int(LEAST / each.item()))
    each = torch.tensor([train(model, optimizer, x, y, steps)])
    if group is not None:
        dist.all_reduce(each, dist.ReduceOp.MAX, group=control)
    return ranks * BATCH / each.item()


def main():
    if sys.argv[1:2] == ["--ranks"]:
        sys.exit(run_all(__file__, int(sys.argv[2]), []))
    if not HOST:
        torch.cuda.set_device(0)
        torch.backends.cudnn.benchmark = True
    dist.init_process_group(BACKEND)
    rank, n = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    x = torch.randn(BATCH, 3, SIDE, SIDE, device=DEVICE).to(memory_format=torch.channels_last)
    y = torch.randint(1000, (BATCH,), device=DEVICE)
    alone = images(1, gloo, None, x, y) if rank == 0 else 0
    dist.all_reduce(torch.zeros(1), group=gloo)  # the others wait
    ours = images(n, gloo, dist.group.WORLD, x, y)
    theirs = images(n, gloo, gloo, x, y)
    if rank == 0:
        print(f"| PyTorch DDP over {BACKEND}, {network()[1]}, bf16, batch {BATCH} a rank: {n} ranks; over Gloo; one rank alone | "
              f"{ours:.0f} images/s; {theirs:.0f}; {alone:.0f} | 93 % of one alone |", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
