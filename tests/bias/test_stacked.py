"""The stack gives what training one by one gives: torch.nn.LSTM, the same run alone, the same run in other company."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from captious.bias.classifiers import _stack as stacked
from captious.bias.classifiers._encoding import draw_batches, encode
from captious.bias.classifiers.lstm import Lstm

SMALL = Lstm(embedding=12, hidden=16, rate=0.01, epochs=4, batch=16)


def silent(more):
    pass


def reference_run(config, task):
    """One run the usual way: torch.nn.LSTM over packed sequences, torch's Adam, the same start and batches."""
    (encoded,) = encode([task], config.words)
    start = stacked.Stack(config, [task]).weights
    net = torch.nn.LSTM(config.embedding, config.hidden, config.layers, bidirectional=True).double()
    table = start["embedding"][0].detach().clone().requires_grad_()
    out, out_bias = (start[name][0].detach().clone().requires_grad_() for name in ("out", "out_bias"))
    with torch.no_grad():
        for layer in range(config.layers):
            for direction, suffix in enumerate(("", "_reverse")):
                getattr(net, f"weight_ih_l{layer}{suffix}").copy_(start[f"in_{layer}"][direction].T)
                getattr(net, f"weight_hh_l{layer}{suffix}").copy_(start[f"back_{layer}"][direction].T)
                getattr(net, f"bias_ih_l{layer}{suffix}").copy_(start[f"bias_in_{layer}"][direction, 0])
                getattr(net, f"bias_hh_l{layer}{suffix}").copy_(start[f"bias_back_{layer}"][direction, 0])
    optimizer = torch.optim.Adam([table, out, out_bias, *net.parameters()], lr=config.rate)

    def logits(captions, chosen):
        words, lengths = (torch.from_numpy(part[chosen]) for part in captions)
        packed = torch.nn.utils.rnn.pack_padded_sequence(table[words.T], lengths, enforce_sorted=False)
        _, (hidden, _) = net(packed)
        return torch.cat([hidden[-2], hidden[-1]], dim=1) @ out + out_bias

    generator = [np.random.default_rng([*task.entropy, 1])]
    truth = torch.from_numpy(task.train_labels)
    for epoch in range(config.epochs):
        for batch in draw_batches(encoded.train.lengths[None], generator, epoch, config.batch)[:, 0]:
            chosen = batch[batch >= 0]
            optimizer.zero_grad()
            result = logits(encoded.train, chosen)
            if task.classes == 2:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(result[:, 0], truth[chosen].double())
            else:
                loss = torch.nn.functional.cross_entropy(result, truth[chosen])
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        result = logits(encoded.test, np.arange(len(task.split.test)))
        if task.classes == 2:
            result = torch.cat([torch.zeros_like(result), result], dim=1)
        return torch.softmax(result, dim=1).numpy()


@pytest.mark.parametrize("classes", [2, 3])
def test_a_stack_gives_what_torch_gives_one_by_one(make_task, classes):
    config = replace(SMALL, dropout=0.0, dtype="float64", epochs=3)
    tasks = [make_task(seed, "model", 40 + 2 * classes, classes) for seed in (0, 1, 2)]
    for task, result in zip(tasks, stacked.train(config, tasks, silent), strict=True):
        np.testing.assert_allclose(result, reference_run(config, task), rtol=0, atol=1e-9)


def test_a_run_does_not_depend_on_the_company_it_keeps(make_task):
    tasks = [make_task(seed, role) for seed in (0, 1, 2) for role in ("model", "human-0")]
    together = stacked.train(SMALL, tasks, silent)
    backwards = stacked.train(SMALL, tasks[::-1], silent)[::-1]
    for task, result, other in zip(tasks, together, backwards, strict=True):
        alone = stacked.train(SMALL, [task], silent)[0]
        np.testing.assert_allclose(result, alone, rtol=0, atol=1e-5)
        np.testing.assert_allclose(result, other, rtol=0, atol=1e-5)


def test_company_moves_double_precision_by_rounding_only(make_task):
    exact = replace(SMALL, dtype="float64")
    tasks = [make_task(seed, "model") for seed in (0, 1)]
    together = stacked.train(exact, tasks, silent)
    alone = [stacked.train(exact, [task], silent)[0] for task in tasks]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_seeds_and_roles_start_differently(make_task):
    starts = [
        stacked.Stack(SMALL, [make_task(seed, role)]).weights["back_0"]
        for seed, role in ((0, "model"), (1, "model"), (0, "human-0"))
    ]
    assert not torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])


def test_initial_weights_follow_torchs_distributions(make_task):
    weights = stacked.Stack(replace(SMALL, hidden=64), [make_task(0, "model")]).weights
    assert float(weights["embedding"][0, :2].abs().max().detach()) == 0.0
    assert float(weights["embedding"][0, 2:].std().detach()) == pytest.approx(1.0, abs=0.15)
    recurrent = weights["back_0"].detach()
    # Uniform on ±1/√64 has standard deviation (1/8)/√3.
    assert float(recurrent.abs().max()) <= 1 / 8 and float(recurrent.std()) == pytest.approx(1 / 8 / 3**0.5, rel=0.02)


def test_tasks_of_unequal_size_are_not_stacked(make_task):
    tasks = [make_task(0, "model", 60), make_task(0, "model", 80), make_task(1, "model", 60)]
    stacks = replace(SMALL, stack=2).group_tasks(tasks)
    assert [[len(task.split.train) for task in stack] for stack in stacks] == [[54, 54], [72]]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_fused_cell_does_what_the_plain_one_does():
    torch.manual_seed(0)
    parts = [torch.randn(15, 24), torch.randn(15, 24), torch.randn(15, 6)]

    def run(device):
        inputs, recurrent, before = (part.to(device) for part in parts)
        hidden, memory, activated = stacked.compute_cell(inputs, recurrent, before)
        # Gradients of the sum of hidden states and of the memory.
        of_each = torch.ones_like(hidden), torch.ones_like(memory)
        of_gates, of_before = stacked.compute_cell_gradient(*of_each, before, memory, activated)
        return [part.cpu() for part in (hidden, memory, activated, of_gates, of_before)]

    for plain, fused in zip(run("cpu"), run("cuda"), strict=True):
        torch.testing.assert_close(plain, fused, rtol=0, atol=1e-5)
