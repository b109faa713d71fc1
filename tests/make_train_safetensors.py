#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes tests/golden/train_python.safetensors with the Python package (pip install safetensors torch)."""
import pathlib

import torch
from safetensors.torch import save_file

save_file({
    'conv1.weight': torch.arange(12, dtype=torch.float32).reshape(2, 3, 1, 2) / 8 - 1,
    'bn1.num_batches_tracked': torch.tensor(1234567890123),
    'half': torch.tensor([1.5, -2.25, 65504, 6e-8], dtype=torch.float16),
    'brain': torch.tensor([1.5, -2.25, 3e38], dtype=torch.bfloat16),
    'mask': torch.tensor([True, False, True]),
    'empty': torch.zeros(0, 3),
}, pathlib.Path(__file__).parent / 'golden/train_python.safetensors', metadata={'format': 'pt'})
