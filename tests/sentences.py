# SPDX-License-Identifier: BSD-3-Clause
"""Runs functions as tests, with the lines of cmocka, so that tests/count.py counts each."""
import sys
import traceback


def run(tests):
    """Run the functions in order; exit status 1 when one raised."""
    failed = False
    for test in tests:
        print(f'[ RUN      ] {test.__name__}', flush=True)
        try:
            test()
            print(f'[       OK ] {test.__name__}', flush=True)
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc(file=sys.stdout)
            print(f'[  FAILED  ] {test.__name__}', flush=True)
            failed = True
    sys.exit(1 if failed else 0)
