"""Stop unless a CUDA GPU is there and computes: a runner that fell back to its CPU would waste days unnoticed."""

from __future__ import annotations

import sys

import torch

from lae_core import logavgexp


def main() -> int:
    if not torch.cuda.is_available():
        built = torch.version.cuda or "none"
        print(f"no CUDA GPU: torch {torch.__version__} is built for CUDA {built} and sees no device", file=sys.stderr)
        return 1
    z = torch.randn(64, 1024, generator=torch.Generator().manual_seed(0))
    for index in range(torch.cuda.device_count()):
        here = logavgexp(z.to(f"cuda:{index}"), 2.0).cpu()
        torch.testing.assert_close(here, logavgexp(z, 2.0))
        about = torch.cuda.get_device_properties(index)
        print(f"cuda:{index} {about.name}, {about.total_memory / 2**30:.0f} GiB, agrees with the CPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
