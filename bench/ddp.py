# SPDX-License-Identifier: BSD-3-Clause
"""One rank of plait-perf's peers `gloo` and `ddp`: PyTorch's collectives over Gloo, and its DistributedDataParallel.
Only plait-perf runs it:

    python3 plait-perf-ddp.py SOCKET RANK RANKS FILE

plait-perf-ddp.so has the loop that measures and verifies, as for all backends (worker.h). A step is the backward pass
alone, and no Python runs for single tensors. The model's outputs are views of its parameters. The pass starts with the
gradients in the worker's memory, which autograd hands on without a copy, as it does what a layer has computed. With a
computation, a hook of each view sleeps until its gradient is due.
"""
import ctypes
import os
import sys
import time


def refuse(why):
    sys.exit(f"plait-perf-ddp: {why}: --peer gloo and ddp need a python3 (this is {sys.executable}) with PyTorch and "
             "its Gloo: pip install torch, activate the environment that has it, or set PYTHONPATH to its "
             "site-packages")


try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    refuse(e)
if not dist.is_available() or not dist.is_gloo_available():
    refuse(f"PyTorch {torch.__version__} was built without Gloo")


def vector(address, count, dtype=torch.float32):
    """A tensor in memory of the worker."""
    size = count * torch.empty(0, dtype=dtype).element_size()
    return torch.frombuffer((ctypes.c_byte * size).from_address(address), dtype=dtype)


# What Gloo has in every version of PyTorch, by Plait's names.
TYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")}
OPERATORS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
             "max": dist.ReduceOp.MAX}


def collective(coll, dtype, op, inplace, root, count, start, end):
    """A function that runs it, with tensors made once: making one takes longer than a small all-reduce."""
    dtype, n = TYPES[dtype], dist.get_world_size()
    x = vector(start, count * (n if coll == "alltoall" else 1), dtype) if start else None
    y = vector(end, count * (n if coll in ("alltoall", "allgather") else 1), dtype) if end else None
    if coll in ("allreduce", "broadcast"):
        call = dist.all_reduce if coll == "allreduce" else dist.broadcast
        rest = (OPERATORS[op],) if coll == "allreduce" else (root,)
        copied = not inplace and x is not None
        return lambda: (y.copy_(x) if copied else None, call(y, *rest))
    if coll == "allgather":
        parts = list(y.chunk(n))
        return lambda: dist.all_gather(parts, x)
    return lambda: dist.all_to_all_single(y, x)


class Model(torch.nn.Module):
    """Parameters in the order of forward; `due` are seconds after the begin of a step, None for no computation."""

    def __init__(self, counts, due):
        super().__init__()
        self.tensors = torch.nn.ParameterList(torch.zeros(n) for n in counts)
        self.due = due
        self.begin = 0

    def forward(self):
        views = [p.view_as(p) for p in self.tensors]
        for view, due in zip(views, self.due or ()):
            view.register_hook(lambda gradient, due=due: self.sleep(due))
        return views

    def sleep(self, due):
        left = self.begin + due - time.monotonic()
        if left > 0:
            time.sleep(left)


class Steps:
    """Of one model. Lists are in the order of forward, the reverse of that of backward."""

    def __init__(self, address, count, in_buckets, seconds):
        total, due = sum(count), None
        if seconds > 0:
            due = [seconds * sum(count[i:]) / total for i in range(len(count))]
        self.address, self.pending = address, None
        self.gradients = [vector(a, n) for a, n in zip(address, count)]
        self.model = Model(count, None)
        self.ddp = torch.nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=in_buckets)
        for _ in range(2):  # buckets are made once more, in the order of arrival, before the second step
            self.forward()
            self.backward()
        self.model.due = due
        self.at = [p.grad.data_ptr() for p in self.model.tensors]
        if not in_buckets and self.at != address:
            raise RuntimeError(f"PyTorch {torch.__version__} copies the gradients that it is given, which training "
                               "does not")

    def forward(self):
        if self.pending is None:
            self.model.zero_grad(set_to_none=True)  # what PyTorch 2 does by itself
            self.pending = self.ddp()

    def backward(self):
        self.forward()
        views, self.pending = self.pending, None
        self.model.begin = time.monotonic()
        torch.autograd.backward(views, self.gradients)


class Rank:
    """The functions of struct ddp_calls (peer_ddp.c)."""

    def __init__(self):
        self.steps = {}  # of one cell
        self.current = None
        self.collectives = {}

    def supports(self, coll, dtype, op):
        coll, dtype, op = (name.decode() for name in (coll, dtype, op))
        return coll == "barrier" or (dtype in TYPES and (coll in ("broadcast", "allgather", "alltoall") or
                                                         (coll == "allreduce" and op in OPERATORS)))

    def run(self, coll, dtype, op, inplace, *rest):
        key = (coll, dtype, op, inplace, *rest)
        if key not in self.collectives:
            coll, dtype, op = (name.decode() for name in (coll, dtype, op))
            self.collectives[key] = dist.barrier if coll == "barrier" else collective(coll, dtype, op, inplace, *rest)
        self.collectives[key]()

    def fuse(self, n, address, count, in_buckets, seconds, out):
        key = in_buckets, seconds
        if key not in self.steps:
            self.steps[key] = Steps(address[:n][::-1], count[:n][::-1], in_buckets, seconds)
        self.current = self.steps[key]
        for i, at in enumerate(reversed(self.current.at)):
            out[i] = at

    def forward(self):
        self.current.forward()

    def backward(self):
        self.current.backward()

    def nbucket(self):
        return len(self.current.ddp._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(","))

    def forget(self):
        self.steps, self.current = {}, None
        self.collectives = {}


address, number, yes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_bool
text, rank_number = ctypes.c_char_p, ctypes.c_uint32
addresses, numbers = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)


class Calls(ctypes.Structure):
    _fields_ = [
        ("error", address),
        ("supports", ctypes.CFUNCTYPE(yes, text, text, text)),
        ("run", ctypes.CFUNCTYPE(yes, text, text, text, yes, rank_number, number, address, address)),
        ("fuse", ctypes.CFUNCTYPE(yes, rank_number, addresses, numbers, yes, ctypes.c_double, addresses)),
        ("forward", ctypes.CFUNCTYPE(yes)),
        ("backward", ctypes.CFUNCTYPE(yes)),
        ("nbucket", ctypes.CFUNCTYPE(ctypes.c_uint32)),
        ("forget", ctypes.CFUNCTYPE(None)),
    ]


def guarded(error, function):
    """An exception is `false` in C, with its text."""

    def call(*arguments):
        try:
            result = function(*arguments)
            return True if result is None else result
        except Exception as e:
            error.value = f"{type(e).__name__}: {e}".encode()[:len(error) - 1]
            return False

    return call


def serve(where, rank):
    library = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "plait-perf-ddp.so"))
    error = ctypes.create_string_buffer(b"out of memory", 400)
    functions = Rank()
    calls = Calls(ctypes.addressof(error), *(kind(guarded(error, getattr(functions, name)))
                                             for name, kind in Calls._fields_[1:]))
    about = f"PyTorch {torch.__version__} over Gloo"
    library.plait_perf_ddp.restype = yes
    return library.plait_perf_ddp(where.encode(), ctypes.c_uint32(rank), about.encode(), ctypes.byref(calls))


def main():
    if len(sys.argv) != 5:
        sys.exit("plait-perf-ddp.py is started by plait-perf --peer gloo and plait-perf fusion --peer ddp")
    where, rank, ranks, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=ranks)
    if not serve(where, rank):
        os._exit(1)  # the coordinator has gone or knows; other ranks may be gone
    dist.destroy_process_group()


main()
