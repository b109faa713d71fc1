#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/settings.md says what the table of settings says. Usage: settings_page.py PLAIT_INFO PAGE [--write]"""
import json
import os
import subprocess
import sys

HEAD = '''# Settings

Every setting is an environment variable, or a line `NAME = value` of the file that `PLAIT_CONFIG` names; the environment
comes first. `plait-info --config` shows the values and where they come from. A name that is not known is a warning, a value that
cannot be read an error. This page is made from the library's table: `tests/settings_page.py plait-info docs/settings.md --write`.

| name | default | meaning |
|---|---|---|
'''

info, page, *write = sys.argv[1:]
clean = {name: value for name, value in os.environ.items() if not name.startswith(('PLAIT_', 'NCCL_'))}
done = subprocess.run([info, '--json'], capture_output=True, text=True, env=clean, check=False)
if 'built without JSON' in done.stderr:
    sys.exit(77)
settings = json.loads(done.stdout)['settings']
assert len(settings) > 20, settings
cells = [[s['name'], s['value'], s['text']] for s in settings]
text = HEAD + ''.join(f'| `{name}` | {f"`{value}`" if value else ""} | {meaning.replace("|", "or")} |\n' for name, value, meaning in cells)
if write == ['--write']:
    with open(page, 'w', encoding='utf-8') as file:
        file.write(text)
with open(page, encoding='utf-8') as file:
    assert file.read() == text, f'{page} differs from the table; make it anew: {sys.argv[0]} {info} {page} --write'
