#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""debian/ agrees with meson.build: its version, and a package for each file that is installed. packages_test.sh builds it.
Usage: debian_test.py SOURCE_FOLDER BUILD_FOLDER
"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

source, build = map(pathlib.Path, sys.argv[1:])
debian = source / 'debian'
# What its rules leave out, since Debian lacks what it needs.
LEFT_OUT = ('*/plait-train', '*/plait-train.1', '*/plait/onednn/*', '*/libdnnl.so.3', '*/plait-cuda.so')


def introspect(what):
    return json.loads(subprocess.run(['meson', 'introspect', what, build], check=True, stdout=subprocess.PIPE).stdout)


def packages():
    return re.findall(r'^Package: (.*)$', (debian / 'control').read_text(), re.M)


def the_version_is_that_of_the_project():
    version = introspect('--projectinfo')['version']
    changelog = (debian / 'changelog').read_text()
    assert re.match(rf'plait \({re.escape(version)}\) ', changelog), f'{version}: {changelog[:40]}'
    assert f"VERSION = '{version}'" in (source / 'python/plait/_library.py').read_text()


def each_installed_file_has_one_package():
    patterns = {p: (debian / f'{p}.install').read_text().split('\n') for p in packages() if p != 'python3-plait'}
    prefix = next(o['value'] for o in introspect('--buildoptions') if o['name'] == 'prefix')
    seen = 0
    for path in introspect('--installed').values():
        path = path.replace(prefix, 'usr', 1)
        if any(fnmatch.fnmatch(path, p) for p in LEFT_OUT):
            continue
        owners = [package for package, lines in patterns.items() for line in lines
                  if line and (fnmatch.fnmatch(path, line) or path.startswith(line + '/') or
                               fnmatch.fnmatch(path, line + '/*'))]
        if len(owners) > 1:  # a pattern's "*" takes folders, too; dh_install's does not
            owners = [o for o in owners if o == 'libplait-nccl'] if '/nccl/' in path else owners
        assert len(owners) == 1, f'{path}: {owners}'
        seen += 1
    assert seen > 50, seen


def every_package_is_described():
    for where in ('tools/packages', 'docs/install.md'):
        text = (source / where).read_text()
        assert not [p for p in packages() if p not in text], where


the_version_is_that_of_the_project()
each_installed_file_has_one_package()
every_package_is_described()
