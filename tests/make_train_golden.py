#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes tests/golden/train_*.txt: what PyTorch computes for one pass in training and one in evaluation.

    tests/make_train_golden.py tests/golden

Weights and images are not stored: train_golden_test.c makes them by the same formula. Per tensor a line: name, norm, and
NSAMPLE elements, of which the k-th is number k * 2654435761 modulo the count."""

import math
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

NSAMPLE = 8
SMOOTHING = 0.1
# Shift: even channels are mostly above 0, odd ones below, in shortcuts too. Where many inputs of max(x, 0) lie near 0,
# rounding decides which gradients pass, and two right programs differ. For the same reason not every stream of images
# will do: PyTorch's own fp32 differs from fp64 by more than 1e-4 with some.
CASES = {  # file: network, classes, pixels, batch, shift, stream of images
    "train_resnet20": ("resnet20", 10, 32, 4, 2, 1),
    "train_resnet50": ("resnet50", 100, 64, 4, 3, 3),
}
NETWORKS = {"resnet20": (False, True, 16, (3, 3, 3)), "resnet50": (True, False, 64, (3, 4, 6, 3))}


def numbers(stream, count):
    """splitmix64 as parts of 2^23, minus 1: -1 to below 1, exact in fp32."""
    z = np.uint64(stream) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    z = z ^ z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) / np.float32(1 << 23) - np.float32(1)).astype(np.float32)


class Block(nn.Module):
    def __init__(self, bottleneck, channels, width, stride):
        super().__init__()
        out = width * 4 if bottleneck else width
        # In torchvision's order.
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False) if bottleneck else nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride if bottleneck else 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if bottleneck:
            self.conv3 = nn.Conv2d(width, out, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        if hasattr(self, "conv3"):
            x = self.bn3(self.conv3(functional.relu(x)))
        return functional.relu(x + shortcut)


class ResNet(nn.Module):
    def __init__(self, bottleneck, small, width, depth, nclass):
        super().__init__()
        self.small = small
        self.conv1 = nn.Conv2d(3, width, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, blocks in enumerate(depth):
            list_ = []
            for k in range(blocks):
                list_.append(Block(bottleneck, channels, width << stage, 2 if stage > 0 and k == 0 else 1))
                channels = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*list_))
        self.fc = nn.Linear(channels, nclass)

    def forward(self, x):
        x = functional.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = functional.max_pool2d(x, 3, 2, 1)
        for stage in range(1, 5):
            if hasattr(self, f"layer{stage}"):
                x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def initialise(model, shift):
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            # The stream follows from the name, not from an order that two programs would have to agree on.
            stream = sum((k + 1) * ord(c) for k, c in enumerate(name)) << 32
            values = numbers(stream, tensor.numel()).reshape(tuple(tensor.shape))
            if tensor.ndim == 4:
                values = values * np.float32(math.sqrt(6.0 / (tensor.shape[0] * tensor.shape[2] * tensor.shape[3])))
            elif tensor.ndim == 2:
                values = values * np.float32(1 / math.sqrt(tensor.shape[1]))
            elif name.endswith("weight"):
                values = np.float32(1) + values * np.float32(0.25)
            elif name == "fc.bias":
                values = values * np.float32(0.25)
            else:
                values = (values * np.float32(0.25) + np.float32(shift) * (1 - np.arange(len(values)) % 2 * 2)).astype(np.float32)
            tensor.copy_(torch.from_numpy(values))


def samples(tensor):
    flat = tensor.detach().double().reshape(-1)
    return flat[[k * 2654435761 % flat.numel() for k in range(NSAMPLE)]]


def line(out, name, tensor):
    out.write(f"{name} {tensor.detach().double().norm().item():.8g} " + " ".join(f"{s:.8g}" for s in samples(tensor)) + "\n")


def run(case, precision, autocast=False):
    name, nclass, pixels, batch, shift, stream = case
    model = ResNet(*NETWORKS[name], nclass)
    initialise(model, shift)
    model = model.to(precision).train()
    images = numbers(stream, batch * pixels * pixels * 3).reshape(batch, pixels, pixels, 3) * np.float32(2)
    images = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(precision)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = model(images)
    loss = functional.cross_entropy(logits.float() if autocast else logits, torch.arange(batch) * 7 % nclass, label_smoothing=SMOOTHING)
    loss.backward()
    return model, images, logits, loss


def autocast_error(case, exact):
    """How far PyTorch's own bf16 is off: the mean over the tensors of the samples' relative errors, at most 1 each."""
    rough = dict(run(case, torch.float32, True)[0].named_parameters())
    errors = []
    for name, tensor in exact.named_parameters():
        wanted = samples(tensor.grad)
        errors.append(min(1, ((samples(rough[name].grad) - wanted).norm() / wanted.norm()).item()))
    return sum(errors) / len(errors)


def make(path, case):
    model, images, logits, loss = run(case, torch.float64)
    with open(path, "w") as out:
        out.write("# {} {} {} {} {} {}: ".format(*case) + f"PyTorch {torch.__version__}, made by make_train_golden.py\n")
        out.write(f"autocast {autocast_error(case, model):.3g}\n")
        line(out, "loss", loss)
        line(out, "logits", logits)
        for key, tensor in model.named_parameters():
            line(out, key, tensor.grad)
        for key, tensor in model.named_buffers():
            if "running" in key:
                line(out, key, tensor)
        model.eval()
        line(out, "evaluated", model(images))


def main():
    for file, case in CASES.items():
        make(os.path.join(sys.argv[1], file + ".txt"), case)


if __name__ == "__main__":
    main()
