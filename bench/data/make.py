#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print a model's list of gradients, computed from the shapes of its layers: make.py MODEL > MODEL.csv

One row for each tensor of weights, in forward order. Gradients become ready in the reverse order.
elements  of the tensor
forward   FLOPs of one sample's forward pass that this tensor's layer takes (a multiplication and an addition are two)
backward  FLOPs of its backward pass, after which the gradient is ready
Convolutions and matrix products only. A sample is an image of 224 pixels, or a text of 1,024 tokens.
"""
import sys

rows = []


def row(name, elements, kind, forward=0, first=False):
    """The backward pass has two products, for the gradients of weights and inputs; that of the first layer has one."""
    rows.append((name, elements, kind, forward, forward if first else 2 * forward))


def convolution(name, inputs, outputs, size, pixels, first=False, bias=False):
    """pixels: of a side of the result."""
    elements = outputs * inputs * size * size
    row(name + '.weight', elements, 'conv', 2 * elements * pixels * pixels, first)
    if bias:
        row(name + '.bias', outputs, 'conv_b')


def norm(name, channels, kind='bn'):
    row(name + '.weight', channels, kind + '_gamma')
    row(name + '.bias', channels, kind + '_beta')


def linear(name, inputs, outputs, kind='fc', tokens=1, also=0):
    """also: FLOPs of products without weights that come between this layer and the next."""
    row(name + '.weight', inputs * outputs, kind + '_w', 2 * inputs * outputs * tokens + also)
    row(name + '.bias', outputs, kind + '_b')


def resnet50():
    convolution('conv1', 3, 64, 7, 112, first=True)
    norm('bn1', 64)
    inputs, pixels = 64, 56
    for layer, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
        for block in range(blocks):
            name = f'layer{layer}.{block}'
            before, pixels = pixels, pixels // 2 if layer > 1 and block == 0 else pixels
            convolution(name + '.conv1', inputs, width, 1, before)
            norm(name + '.bn1', width)
            convolution(name + '.conv2', width, width, 3, pixels)
            norm(name + '.bn2', width)
            convolution(name + '.conv3', width, 4 * width, 1, pixels)
            norm(name + '.bn3', 4 * width)
            if block == 0:
                convolution(name + '.downsample.0', inputs, 4 * width, 1, pixels)
                norm(name + '.downsample.1', 4 * width)
            inputs = 4 * width
    linear('fc', 2048, 1000)


def alexnet():
    for number, inputs, outputs, size, pixels in [(0, 3, 64, 11, 55), (3, 64, 192, 5, 27), (6, 192, 384, 3, 13),
                                                  (8, 384, 256, 3, 13), (10, 256, 256, 3, 13)]:
        convolution(f'features.{number}', inputs, outputs, size, pixels, first=number == 0, bias=True)
    for number, inputs, outputs in [(1, 9216, 4096), (4, 4096, 4096), (6, 4096, 1000)]:
        linear(f'classifier.{number}', inputs, outputs)


def vgg16():
    inputs, pixels, number = 3, 224, 0
    for width, layers in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(layers):
            convolution(f'features.{number}', inputs, width, 3, pixels, first=number == 0, bias=True)
            inputs, number = width, number + 2
        pixels, number = pixels // 2, number + 1
    for number, inputs, outputs in [(0, 25088, 4096), (3, 4096, 4096), (6, 4096, 1000)]:
        linear(f'classifier.{number}', inputs, outputs)


def gpt2():
    """GPT-2 small. The last product, with the words, shares its weights with the embedding."""
    words, tokens, width = 50257, 1024, 768
    row('wte.weight', words * width, 'embedding')
    row('wpe.weight', tokens * width, 'embedding')
    for block in range(12):
        norm(f'h.{block}.ln_1', width, 'ln')
        linear(f'h.{block}.attn.c_attn', width, 3 * width, 'linear', tokens, also=4 * tokens * tokens * width)
        linear(f'h.{block}.attn.c_proj', width, width, 'linear', tokens)
        norm(f'h.{block}.ln_2', width, 'ln')
        linear(f'h.{block}.mlp.c_fc', width, 4 * width, 'linear', tokens)
        linear(f'h.{block}.mlp.c_proj', 4 * width, width, 'linear', tokens)
    row('ln_f.weight', width, 'ln_gamma')
    row('ln_f.bias', width, 'ln_beta', 2 * tokens * width * words)


MODELS = {f.__name__: f for f in (resnet50, alexnet, vgg16, gpt2)}

if __name__ == '__main__':
    if len(sys.argv) != 2 or sys.argv[1] not in MODELS:
        sys.exit('usage: make.py ' + '|'.join(MODELS))
    MODELS[sys.argv[1]]()
    print('id,name,elements,kind,forward,backward')
    for i, fields in enumerate(rows):
        print(i, *fields, sep=',')
