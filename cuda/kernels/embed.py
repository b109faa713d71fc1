# SPDX-License-Identifier: BSD-3-Clause
"""
Writes a C file with device code as data (images.h): embed.py OWNER CUDA OUT.c FILE...

OWNER begins the names of what it defines; CUDA is the version of nvcc.
"""
import hashlib
import os
import re
import sys

owner, cuda, out, *files = sys.argv[1:]
text = '/* Made by embed.py. */\n#include "images.h"\n\n'
table = ''
by = f'nvcc of CUDA {cuda}'
for path in files:
    name = os.path.splitext(os.path.basename(path))[0]
    with open(path, 'rb') as f:
        content = f.read()
    version = re.search(rb'^\.version (\S+)', content, re.MULTILINE) if path.endswith('.ptx') else None
    if version:
        by = f'nvcc of CUDA {cuda} (PTX {version[1].decode()})'
    ends = '.byte 0\\n' if path.endswith('.ptx') else ''
    text += f'/* {hashlib.sha256(content).hexdigest()} */\n'
    text += f'extern const char {owner}_image_{name}[] __attribute__((visibility("hidden")));\n'
    text += (f'__asm__(".section .rodata\\n.balign 16\\n.hidden {owner}_image_{name}\\n.globl {owner}_image_{name}\\n'
             f'{owner}_image_{name}:\\n.incbin \\"{os.path.abspath(path)}\\"\\n{ends}.previous\\n");\n')
    table += f'    {{ "{name}", {owner}_image_{name}, {len(content) + bool(ends)} }},\n'
with open(out, 'w', encoding='utf-8') as f:
    f.write(text + '\nconst struct plait_cuda_image ' + owner + '_cuda_images[] = {\n' + table + '    { 0 },\n};\n'
            f'const char {owner}_cuda_images_by[] = "{by}";\n')
