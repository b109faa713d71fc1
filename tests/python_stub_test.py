#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The types of the Python package (__init__.pyi) are of what the package has. Usage: python_stub_test.py"""
import ast
import inspect
import pathlib

import plait
import sentences
from plait import _call

stub = ast.parse((pathlib.Path(plait.__file__).parent / '__init__.pyi').read_text(encoding='utf-8'))
NAMED = {'_Options': _call.OPTIONS, '_Forms': _call.FORMS}  # options by keyword


def declared():
    """The names of the stub: to a class, a function, or None."""
    found = {}
    for node in stub.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            found.update({a.asname: None for a in node.names if a.asname})
    return {name: node for name, node in found.items() if not name.startswith('_')}


def parameters(node):
    """Of a function of the stub: names with defaults."""
    a = node.args
    values = dict(zip([p.arg for p in a.args][len(a.args) - len(a.defaults):], a.defaults))
    values.update({p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults) if d is not None})
    names = [p.arg for p in a.args + a.kwonlyargs]
    return [(name, ast.unparse(values[name]) if name in values else None) for name in names if name not in ('self', 'cls')]


def signature(function):
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [(p.name, None if p.default is p.empty else 'float' if p.default is float else repr(p.default))
            for p in inspect.signature(function).parameters.values() if p.kind not in kinds and p.name != 'self']


def every_public_name_is_declared():
    assert set(declared()) == set(plait.__all__) | {'Persistent', 'Request'}, \
        set(declared()) ^ set(plait.__all__)


def functions_have_the_parameters_of_the_code():
    seen = 0
    for name, node in declared().items():
        of_class = isinstance(node, ast.ClassDef)
        for function in node.body if of_class else [node]:
            if not isinstance(function, ast.FunctionDef) or function.decorator_list and \
                    ast.unparse(function.decorator_list[0]) == 'property':
                continue
            code = getattr(getattr(plait, name), function.name) if of_class else getattr(plait, name)
            assert parameters(function) == signature(code), (name, function.name, parameters(function), signature(code))
            seen += 1
    assert seen > 60, seen


def every_method_is_declared():
    for name, node in declared().items():
        if isinstance(node, ast.ClassDef) and name != 'Launch':
            have = {n for n, value in vars(getattr(plait, name)).items()
                    if not n.startswith('_') and (callable(value) or isinstance(value, (property, classmethod)))}
            say = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            assert have - {'settle'} <= say, (name, have - say)  # settle() is the package's own


def options_are_those_of_calls():
    for name, options in NAMED.items():
        classes = {n.name: n for n in stub.body if isinstance(n, ast.ClassDef)}
        own = [n.target.id for n in classes[name].body]
        if name == '_Options':
            own += [n.target.id for n in classes['_Forms'].body]
        assert set(own) == set(options), (name, set(own) ^ set(options))


sentences.run([every_public_name_is_declared, functions_have_the_parameters_of_the_code, every_method_is_declared,
               options_are_those_of_calls])
