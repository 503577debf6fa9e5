"""One of two processes of gloo that score their halves of some captions, padded as DistributedSampler pads.

Each writes its values: ``python tests/compat/two_processes.py FOLDER RANK``
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torchmetrics import MetricCollection

from captious.compat.torchmetrics import CaptionMetric

SPECS = "bleu(n=4), rouge, cider, distinct_n(n=2)"
COUNT = 2


def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=COUNT)
    rows = json.loads((folder / "rows.json").read_text())
    # What DistributedSampler gives each rank: every second sample, the first ones again until the counts are equal.
    indices = [*range(len(rows)), *range(-len(rows) % COUNT)][rank::COUNT]
    captions, references = zip(*rows, strict=True)
    metric = CaptionMetric(SPECS)
    for first in range(0, len(indices), 2):
        batch = indices[first : first + 2]
        batches = [captions[index] for index in batch], [references[index] for index in batch]
        metric.update(*batches, ids=torch.tensor(batch))
    values = metric.compute()
    held = len(metric.captions())
    lonely = CaptionMetric("rouge")  # one process has no sample at all
    if rank == 1:
        lonely.update(captions, references)
    collection = MetricCollection({"bleu": CaptionMetric("bleu(n=1)"), "cider": CaptionMetric("cider")})
    for index in indices[:5]:
        collection.update([captions[index]], [references[index]])
    results = {
        "all": {name: value.item() for name, value in values.items()},
        "held": held,
        "lonely": lonely.compute().item(),
        "nothing": CaptionMetric("rouge").compute().item(),
        "collection": {name: value.item() for name, value in collection.compute().items()},
    }
    (folder / f"rank{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    work(int(sys.argv[2]), Path(sys.argv[1]))
