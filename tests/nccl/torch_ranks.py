# SPDX-License-Identifier: BSD-3-Clause
"""One rank of PyTorch on libnccl.so.2, all on the first GPU; by hand, as docs/nccl.md's folder has it:

    PYTHONPATH=~/plait-nccl python -m torch.distributed.run --nproc-per-node 4 tests/nccl/torch_ranks.py [kill]

The operations of torch.distributed, then DistributedDataParallel, whose losses are those of one process. With `kill` the
last rank kills itself after that and the others are to get an error.
"""
import os
import signal
import sys

import torch
import torch.distributed as dist

STEPS = 20


def check(what, tensor, expected):
    torch.cuda.synchronize()
    if not torch.equal(tensor.cpu(), torch.as_tensor(expected, dtype=tensor.dtype).expand_as(tensor)):
        sys.exit(f"rank {dist.get_rank()}: {what} gives {tensor.cpu().tolist()}, not {expected}")


def operate(rank, n):
    def gpu(*values):
        return torch.tensor(values, dtype=torch.float32, device="cuda")

    ranks = [float(r) for r in range(n)]
    x = gpu(rank, 1)
    dist.all_reduce(x)
    check("all-reduce", x, [sum(ranks), float(n)])
    x = torch.empty(n, device="cuda")
    dist.all_gather_into_tensor(x, gpu(rank))
    check("all-gather", x, ranks)
    x = torch.empty(1, device="cuda")
    dist.reduce_scatter_tensor(x, gpu(*ranks))
    check("reduce-scatter", x, [float(n * rank)])
    x = torch.empty(n, device="cuda")
    dist.all_to_all_single(x, torch.full((n,), float(rank), device="cuda"))
    check("all-to-all", x, ranks)
    x = gpu(rank)
    dist.broadcast(x, n - 1)
    check("broadcast", x, [float(n - 1)])
    x = torch.empty(1, device="cuda")
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, gpu(rank), (rank + 1) % n),
                                        dist.P2POp(dist.irecv, x, (rank - 1) % n)]):
        work.wait()
    check("send and receive", x, [float((rank - 1) % n)])
    dist.barrier()


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).cuda()


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


def main():
    torch.cuda.set_device(0)
    dist.init_process_group("nccl")
    rank, n = dist.get_rank(), dist.get_world_size()
    operate(rank, n)
    torch.manual_seed(2)
    x, y = torch.randn(64 * n, 64).cuda(), torch.randn(64 * n, 1).cuda()
    part = slice(64 * rank, 64 * (rank + 1))
    of_all = train(torch.nn.parallel.DistributedDataParallel(network()), x[part], y[part])
    dist.all_reduce(of_all)
    of_all /= n
    alone = train(network(), x, y)
    if not torch.allclose(of_all, alone, rtol=1e-4):
        sys.exit(f"rank {rank}: losses {of_all.tolist()}, of one process {alone.tolist()}")
    if rank == 0:
        print(f"{n} ranks: all right, the last loss is {of_all[-1].item():.6f}, that of one process {alone[-1].item():.6f}")
    if sys.argv[1:] == ["kill"]:
        x = torch.ones(1 << 24, device="cuda")
        try:
            for i in range(10000):
                if rank == n - 1 and i == 100:
                    os.kill(os.getpid(), signal.SIGKILL)
                dist.all_reduce(x)
                torch.cuda.synchronize()
        except RuntimeError as e:
            print(f"rank {rank}: as it should be: {e}", flush=True)
            os._exit(0)
        sys.exit(f"rank {rank}: no error")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
