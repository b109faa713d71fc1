#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait-train's steps beside those of PyTorch's DDP with Gloo on CPUs, channels last, and beside the least that a step could
take; needs torch and torchvision.

    train_step_bench.py build/train/train_step_bench [--model M] [--pixels P] [--batch B] [--precision fp32|bf16] [--ranks N]
                                                     [--rounds R] [--steps S]

Both train on the same made-up images in memory, so nothing is decoded; one thread for each rank, SGD with momentum and
decay, gradients that travel in the precision of the passes. All processes live all the time; in each round each side makes
its steps while the other sleeps. Ratios are of rounds; the table has their medians.

The least: the convolutions alone, as our steps make them, and the bytes that batch norms must move at the bandwidth of
a += b on 128 MiB, each by all ranks at once, measured in every round. Exposed: what a step takes longer than one whose
ranks only wait for each other where they would wait for gradients, in pairs of single steps (median and quartiles of all pairs).
Waiting: the part of its steps that a rank waits for gradients, and so for slower ranks too (the most of any rank).
"""
import argparse
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

NCLASS = 1000


# ---- PyTorch's ranks


class Trainer:
    def __init__(self, options):
        import torch
        import torchvision
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        self.torch = torch
        torch.set_num_threads(1)
        torch.manual_seed(1)
        torch.distributed.init_process_group("gloo")
        model = getattr(torchvision.models, options.model)(num_classes=NCLASS, zero_init_residual=True)
        model = model.to(memory_format=torch.channels_last).train()
        self.model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, forward_sync_buffers=False)
        self.bf16 = options.precision == "bf16"
        if self.bf16:
            self.model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4, fused=True)
        images = torch.rand(options.batch, 3, options.pixels, options.pixels) * 2 - 1
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.arange(options.batch) * 7 % NCLASS
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def step(self):
        self.optimizer.zero_grad()
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.model(self.images), self.labels)
        loss.backward()
        self.optimizer.step()

    def alone(self):
        with self.model.no_sync():
            self.step()


def work(options):
    trainer = Trainer(options)
    print(0, 0, flush=True)
    for line in sys.stdin:
        name, n = line.split()
        trainer.torch.distributed.barrier()
        begin = time.monotonic()
        for _ in range(int(n)):
            getattr(trainer, name)()
        print(time.monotonic() - begin, 0, flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)


# ---- the driver


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Side:
    """Ranks of one program: each waits for a line, measures, answers."""

    def __init__(self, command, ranks):
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
               "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
        self.ranks = [subprocess.Popen(command, env={**env, "RANK": str(k), "LOCAL_RANK": str(k)}, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True) for k in range(ranks)]
        self.first = self.answer()

    def answer(self):
        """The largest of all ranks' numbers."""
        lines = [rank.stdout.readline().split() for rank in self.ranks]
        if not all(lines):
            sys.exit("a rank has ended: " + " ".join(self.ranks[0].args))
        return [max(map(float, column)) for column in zip(*lines)]

    def measure(self, name, n):
        """Seconds for one."""
        for rank in self.ranks:
            rank.stdin.write(f"{name} {n}\n")
            rank.stdin.flush()
        self.seconds = [value / n for value in self.answer()]
        return self.seconds[0]

    def end(self):
        """The most memory of a rank."""
        for rank in self.ranks:
            rank.stdin.close()
        memory = self.answer()[0]
        for rank in self.ranks:
            rank.wait()
        return memory


def pair(ours, turned):
    """A step, and one without data, in turns the first of them: what the data adds, %."""
    seconds = {name: ours.measure(name, 1) for name in (("meet", "step") if turned else ("step", "meet"))}
    return (seconds["step"] - seconds["meet"]) / seconds["step"] * 100


def round_(ours, theirs, steps):
    r = {"ours": ours.measure("step", steps), "waits": ours.seconds[1], "theirs": theirs.measure("step", steps)}
    r["pairs"] = [pair(ours, k % 2) for k in range(3 * steps)]
    r["add"] = ours.measure("add", 4)
    r["convolve"] = ours.measure("convolve", max(1, steps // 2))
    return r


def derive(r, bytes_, options):
    images = options.batch * options.ranks
    least = r["convolve"] + bytes_[0] / (bytes_[1] / r["add"])
    return {"ours": images / r["ours"], "PyTorch's": images / r["theirs"], "ratio": r["theirs"] / r["ours"],
            "convolutions' rate": images / r["convolve"], "the least's rate": images / least, "of that": least / r["ours"],
            "GB/s of a rank": bytes_[1] / r["add"] / 1e9, "waiting %": r["waits"] / r["ours"] * 100}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    if options.program == "worker":
        return work(options)
    ours = Side([options.program, options.model, str(options.pixels), str(options.batch), options.precision, options.precision],
                options.ranks)
    theirs = Side([sys.executable, __file__, "worker", *sys.argv[2:]], options.ranks)
    round_(ours, theirs, 1)
    measured = [round_(ours, theirs, options.steps) for _ in range(options.rounds)]
    rounds = [derive(r, ours.first, options) for r in measured]
    exposed = statistics.quantiles([p for r in measured for p in r["pairs"]])
    memory, other = ours.end(), theirs.end()
    print(f"{options.model}, {options.pixels} pixels, {options.precision}, {options.ranks} ranks, {options.batch} images each")
    for name in rounds[0]:
        values = [r[name] for r in rounds]
        print(f"  {name:20} {statistics.median(values):8.3g}   {min(values):.3g} to {max(values):.3g}")
    print(f"  {'exposed %':20} {exposed[1]:8.3g}   {exposed[0]:.3g} to {exposed[2]:.3g}, {3 * options.steps * len(measured)} pairs")
    print(f"  {'peak MiB of a rank':20} {memory / 2**20:8.0f}   PyTorch's {other / 2**20:.0f}, ratio {memory / other:.2f}")


if __name__ == "__main__":
    main()
