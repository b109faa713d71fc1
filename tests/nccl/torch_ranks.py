# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of PyTorch on libnccl.so.2, all on the first GPU; tools/gpu-check runs it, or, as docs/nccl.md's folder has it:

    PYTHONPATH=~/plait-nccl python tests/nccl/torch_ranks.py --ranks 4 [kill]

The operations of torch.distributed, then DistributedDataParallel, whose losses are those of one process. With `kill` the
last rank kills itself after that and the others are to get an error. Without --ranks it is one rank of a launcher's (which
may stop the others itself when one is killed). TORCH_BACKEND=plait: by plait.torch, without libnccl.so.2.
PLAIT_TORCH_HOST=1: on the host, over Gloo or plait.torch, to see that this file is right.
"""
import os
import signal
import socket
import subprocess
import sys

import torch
import torch.distributed as dist

STEPS = 20
HOST = os.environ.get("PLAIT_TORCH_HOST") == "1"
DEVICE = "cpu" if HOST else "cuda"
BACKEND = os.environ.get("TORCH_BACKEND", "gloo" if HOST else "nccl")
if BACKEND == "plait":
    import plait.torch


def synchronize():
    if not HOST:
        torch.cuda.synchronize()


def check(what, tensor, expected):
    synchronize()
    if not torch.equal(tensor.cpu(), torch.as_tensor(expected, dtype=tensor.dtype).expand_as(tensor)):
        sys.exit(f"rank {dist.get_rank()}: {what} gives {tensor.cpu().tolist()}, not {expected}")


def operate(rank, n):
    def gpu(*values):
        return torch.tensor(values, dtype=torch.float32, device=DEVICE)

    ranks = [float(r) for r in range(n)]
    x = gpu(rank, 1)
    dist.all_reduce(x)
    check("all-reduce", x, [sum(ranks), float(n)])
    x = torch.empty(n, device=DEVICE)
    dist.all_gather_into_tensor(x, gpu(rank))
    check("all-gather", x, ranks)
    x = torch.empty(1, device=DEVICE)
    dist.reduce_scatter_tensor(x, gpu(*ranks))
    check("reduce-scatter", x, [float(n * rank)])
    x = torch.empty(n, device=DEVICE)
    dist.all_to_all_single(x, torch.full((n,), float(rank), device=DEVICE))
    check("all-to-all", x, ranks)
    x = gpu(rank)
    dist.broadcast(x, n - 1)
    check("broadcast", x, [float(n - 1)])
    x = torch.empty(1, device=DEVICE)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, gpu(rank), (rank + 1) % n),
                                        dist.P2POp(dist.irecv, x, (rank - 1) % n)]):
        work.wait()
    check("send and receive", x, [float((rank - 1) % n)])
    dist.barrier(device_ids=None if HOST else [0])


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(DEVICE)


def train(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def run_rank(kill):
    if kill:  # the error is the call's, not that of a thread which ends the process
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
    if not HOST:
        torch.cuda.set_device(0)
    dist.init_process_group(BACKEND)
    rank, n = dist.get_rank(), dist.get_world_size()
    operate(rank, n)
    torch.manual_seed(2)
    x, y = torch.randn(64 * n, 64).to(DEVICE), torch.randn(64 * n, 1).to(DEVICE)
    part = slice(64 * rank, 64 * (rank + 1))
    of_all = train(torch.nn.parallel.DistributedDataParallel(network()), x[part], y[part])
    dist.all_reduce(of_all)
    of_all /= n
    alone = train(network(), x, y)
    if not torch.allclose(of_all, alone, rtol=1e-4):
        sys.exit(f"rank {rank}: losses {of_all.tolist()}, of one process {alone.tolist()}")
    if rank == 0:
        print(f"{n} ranks: all right, the last loss is {of_all[-1].item():.6f}, that of one process {alone[-1].item():.6f}")
    if kill:
        x = torch.ones(1 << 24, device=DEVICE)
        try:
            for i in range(10000):
                if rank == n - 1 and i == 100:
                    os.kill(os.getpid(), signal.SIGKILL)
                dist.all_reduce(x)
                synchronize()
        except RuntimeError as e:
            print(f"rank {rank}: as it should be: {e}", flush=True)
            os._exit(0)
        sys.exit(f"rank {rank}: no error")
    dist.destroy_process_group()


def run_all(program, n, rest):
    """As many processes of it; the exit status."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, program, *rest],
                              env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(n),
                                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(n)]
    ends = [r.wait() for r in ranks]
    wanted = [0] * (n - 1) + [-signal.SIGKILL if rest else 0]
    print(f"{n} ranks ended with {ends}" + ("" if ends == wanted else f", not {wanted}"), file=sys.stderr)
    return 0 if ends == wanted else 1


def main():
    words = sys.argv[1:]
    n = int(words[1]) if words[:1] == ["--ranks"] and len(words) > 1 else 0
    rest = words[2:] if n > 0 else words
    if rest not in ([], ["kill"]):
        sys.exit(__doc__)
    if n > 0:
        sys.exit(run_all(__file__, n, rest))
    run_rank(rest == ["kill"])


if __name__ == "__main__":
    main()
