/* SPDX-License-Identifier: BSD-3-Clause */
/* A libplait of another release, for tests/python_library_test.py. */
const char *plait_version(void);

const char *plait_version(void)
{
    return "0.0.9";
}
