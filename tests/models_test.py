#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lists of bench/data are what make.py computes, with the sums that are known. Usage: models_test.py SOURCE"""
import csv
import os
import subprocess
import sys

import sentences

FOLDER = os.path.join(sys.argv[1], 'bench', 'data')
# Tensors, parameters, and the published products of one sample's forward pass, in 1e9 multiply-adds. A text of GPT-2
# has 1,024 tokens.
KNOWN = {'resnet50': (161, 25557032, 4.09), 'alexnet': (16, 61100840, 0.714), 'vgg16': (32, 138357544, 15.47),
         'gpt2': (148, 124439808, 145.8)}


def rows(model):
    with open(os.path.join(FOLDER, model + '.csv'), encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def every_list_is_here():
    assert sorted(KNOWN) == sorted(f[:-4] for f in os.listdir(FOLDER) if f.endswith('.csv'))


def the_lists_are_what_make_py_prints():
    for model in KNOWN:
        made = subprocess.run([sys.executable, os.path.join(FOLDER, 'make.py'), model], check=True, capture_output=True,
                              text=True).stdout
        with open(os.path.join(FOLDER, model + '.csv'), encoding='utf-8', newline='') as file:
            assert file.read() == made, f'{model}.csv is not what make.py prints'


def sums_are_the_known_ones():
    for model, (tensors, parameters, products) in KNOWN.items():
        r = rows(model)
        assert [int(x['id']) for x in r] == list(range(tensors)), model
        assert len({x['name'] for x in r}) == tensors, model
        assert sum(int(x['elements']) for x in r) == parameters, model
        forward = sum(int(x['forward']) for x in r)
        assert abs(forward / 2e9 - products) < 0.005 * products, (model, forward)


def the_backward_pass_is_twice_the_forward_pass_but_for_the_first_layer():
    for model in KNOWN:
        flops = [(int(x['forward']), int(x['backward'])) for x in rows(model) if int(x['forward']) > 0]
        assert all(backward == 2 * forward for forward, backward in flops[1:]), model
        assert flops[0][1] == flops[0][0] * (2 if model == 'gpt2' else 1), model


sentences.run([every_list_is_here, the_lists_are_what_make_py_prints, sums_are_the_known_ones,
               the_backward_pass_is_twice_the_forward_pass_but_for_the_first_layer])
