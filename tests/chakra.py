#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""chakra.py RANKS PREFIX GOAL: PREFIX.R.et, decoded by protobuf, are the steps of the schedule in the file GOAL."""
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32

FIELD = descriptor_pb2.FieldDescriptorProto


def message_classes():
    """The part of Chakra's schema that plait-plan writes."""
    def add(message, name, number, kind, repeated=False, of=None):
        field = message.field.add(name=name, number=number, type=kind)
        field.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
        if of:
            field.type_name = of

    schema = descriptor_pb2.FileDescriptorProto(name='et.proto', package='et', syntax='proto3')
    attribute = schema.message_type.add(name='Attribute')
    for name, number, kind in (('name', 1, FIELD.TYPE_STRING), ('int32_val', 7, FIELD.TYPE_INT32),
                               ('int64_val', 9, FIELD.TYPE_INT64), ('bool_val', 27, FIELD.TYPE_BOOL)):
        add(attribute, name, number, kind)
    metadata = schema.message_type.add(name='Metadata')
    add(metadata, 'version', 1, FIELD.TYPE_STRING)
    node = schema.message_type.add(name='Node')
    for name, number, kind in (('id', 1, FIELD.TYPE_UINT64), ('name', 2, FIELD.TYPE_STRING),
                               ('type', 3, FIELD.TYPE_INT32), ('duration_micros', 7, FIELD.TYPE_UINT64)):
        add(node, name, number, kind)
    add(node, 'data_deps', 5, FIELD.TYPE_UINT64, True)
    add(node, 'attr', 10, FIELD.TYPE_MESSAGE, True, '.et.Attribute')
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName('et.' + n)) for n in ('Metadata', 'Node')]


def read_trace(path, metadata, node):
    data, at, nodes = open(path, 'rb').read(), 0, []
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        message = (metadata if not nodes else node)()
        message.ParseFromString(data[at:at + size])
        nodes.append(message)
        at += size
    assert at == len(data) and nodes[0].version
    return nodes[1:]


def lines_of(rank, node):
    """The node as GOAL's lines."""
    a = {x.name: x.int32_val or x.int64_val for x in node.attr}
    me = f'l{node.id}'
    if node.type == 5:
        assert a['comm_src'] == rank
        yield f"{me}: send {a['comm_size']}b to {a['comm_dst']} tag {a['comm_tag']}"
    elif node.type == 6:
        assert a['comm_dst'] == rank
        yield f"{me}: recv {a['comm_size']}b from {a['comm_src']} tag {a['comm_tag']}"
    else:
        assert node.type == 4
        yield f'{me}: calc 0'
    for d in node.data_deps:
        yield f'{me} requires l{d}'


def main():
    ranks, prefix, goal = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    metadata, node = message_classes()
    wanted = [s.split('}')[0].split('\n', 1)[1].strip().splitlines() for s in open(goal).read().split('\nrank ')[1:]]
    assert len(wanted) == ranks
    for r in range(ranks):
        seen = [line for n in read_trace(f'{prefix}.{r}.et', metadata, node) for line in lines_of(r, n)]
        assert seen == wanted[r], f'rank {r}: {list(zip(seen, wanted[r]))[:5]}'


main()
