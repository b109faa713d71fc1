#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plait-train's input pipeline beside torchvision's with Pillow: the same JPEGs, transforms, batches of 32 and as many
decoders (threads here, processes there), one after the other, several rounds; needs torch, torchvision and Pillow.

    train_data_bench.py PROGRAM DATA [--threads N] [--pixels P] [--jitter J] [--rounds R]
"""
import argparse
import statistics
import subprocess
import time

import torch
from torchvision import datasets, transforms


def loader(options):
    steps = [transforms.RandomResizedCrop(options.pixels, antialias=True), transforms.RandomHorizontalFlip()]
    if options.jitter > 0:
        steps.append(transforms.ColorJitter(options.jitter, options.jitter, options.jitter))
    steps += [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    images = datasets.ImageFolder(options.data + "/train", transforms.Compose(steps))
    return torch.utils.data.DataLoader(images, batch_size=32, shuffle=True, num_workers=options.threads, drop_last=True,
                                       persistent_workers=True)


def theirs(batches):
    start, n = time.monotonic(), 0
    for images, _ in batches:
        n += len(images)
    return n / (time.monotonic() - start)


def ours(options):
    lines = subprocess.run([options.program, options.data, str(options.threads), str(options.pixels), str(options.jitter), "2"],
                           check=True, capture_output=True, text=True).stdout.split()
    return float(lines[-1])  # the first epoch may read from the disk


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--jitter", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    batches = loader(options)
    theirs(batches)  # starts its processes
    pairs = [(ours(options), theirs(batches)) for _ in range(options.rounds)]
    mine, other = (statistics.median(column) for column in zip(*pairs))
    print(f"{options.threads} threads, {options.pixels} pixels, jitter {options.jitter:g}: plait-train {mine:.0f} images/s, "
          f"torchvision {other:.0f}, ratio {mine / other:.2f} (of rounds: "
          f"{', '.join(f'{a / b:.2f}' for a, b in pairs)})")


main()
