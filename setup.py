# SPDX-License-Identifier: BSD-3-Clause
"""The Python package with the library and the programs inside: what meson installs is the package's folder _prefix.

With PLAIT_PYTHON_ONLY set, and in an editable installation, the package has only its own files, and the loader finds
the library. PLAIT_MESON_OPTIONS are more options of meson. Everything else is in pyproject.toml.
"""
import os
import pathlib
import shlex
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

PYTHON_ONLY = 'PLAIT_PYTHON_ONLY' in os.environ
# Without the tests, and without what the wheel has no place for: Open MPI's program, man pages, plait-train's oneDNN.
OPTIONS = ['--prefix=/plait', '--libdir=lib', '--libexecdir=libexec', '-Dtests=false', '-Dmpi=disabled',
           '-Dman=disabled', '-Donednn=disabled']


def build_library(work: pathlib.Path, prefix: pathlib.Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(prefix, ignore_errors=True)
    more = shlex.split(os.environ.get('PLAIT_MESON_OPTIONS', ''))
    subprocess.run(['meson', 'setup', work / 'meson', *OPTIONS, *more], check=True)
    subprocess.run(['ninja', '-C', work / 'meson', '-j', str(os.cpu_count() or 1)], check=True)
    subprocess.run(['meson', 'install', '-C', work / 'meson', '--no-rebuild', '--quiet', '--strip', '--tags', 'runtime',
                    '--destdir', (work / 'destination').resolve()], check=True)
    installed = work / 'destination/plait'
    # A wheel has no links: the library keeps the name by which it is loaded.
    for link in [path for path in installed.rglob('*') if path.is_symlink()]:
        target = link.resolve()
        link.unlink()
        if link.name.startswith('lib'):
            target.rename(link)
    shutil.copytree(installed, prefix)


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not PYTHON_ONLY and not getattr(self, 'editable_mode', False):
            work = pathlib.Path(self.get_finalized_command('build').build_temp)
            build_library(work, pathlib.Path(self.build_lib) / 'plait/_prefix')


class BdistWheel(bdist_wheel):
    """For one platform, and for any Python: nothing in it is compiled for one."""

    def get_tag(self):
        return super().get_tag() if PYTHON_ONLY else ('py3', 'none', super().get_tag()[2])


class PlatformDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return not PYTHON_ONLY


setup(cmdclass={'build_py': BuildPy, 'bdist_wheel': BdistWheel}, distclass=PlatformDistribution,
      options={'build': {'build_base': 'build/python'}})  # beside meson's folders
