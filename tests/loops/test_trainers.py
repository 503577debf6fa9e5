"""CaptionMetrics and CaptionCallback: what reaches a metric, what is refused, and what a trainer logs."""

import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

import captious
from captious.compat.transformers import CaptionCallback, CaptionMetrics
from captious.options import Resampling

QUICK = Resampling(samples=20)
WORDS = ["<pad>", "<s>", "</s>", "a", "dog", "cat", "runs", "sits", "the", "."]
IDS = {word: number for number, word in enumerate(WORDS)}
REFERENCES = [["a dog runs", "the dog runs"], ["a cat sits", "the cat sits"], ["the dog sits"]]


class Words:
    """A tokenizer that, as those of tokenizers do, cannot decode a negative id."""

    def batch_decode(self, rows, skip_special_tokens=False):
        assert all(0 <= token < len(WORDS) for row in rows for token in row)
        first = 3 if skip_special_tokens else 0
        return [" ".join(WORDS[token] for token in row if token >= first) for row in rows]


def tokens(*texts, padding=-100):
    rows = [[IDS["<s>"], *(IDS[word] for word in text.split()), IDS["</s>"]] for text in texts]
    longest = max(map(len, rows))
    return np.array([row + [padding] * (longest - len(row)) for row in rows])


def prediction(captions, labels=("a dog runs", "a cat sits", "the dog sits")):
    return SimpleNamespace(predictions=tokens(*captions), label_ids=None if labels is None else tokens(*labels))


def test_the_values_are_those_of_evaluate():
    captions = ["a dog", "the cat sits", "a cat"]
    metrics = CaptionMetrics("cider, rouge, bleu(n=1)", Words(), REFERENCES, resampling=QUICK)
    values = metrics(prediction(captions))
    report = captious.evaluate(captions, "cider, rouge, bleu(n=1)", resampling=QUICK, references=REFERENCES)
    assert values == report.scalars()
    assert values["captious/cider"] == report["cider"].corpus
    assert values["captious/bleu_1_low"] <= values["captious/bleu_1"] <= values["captious/bleu_1_high"]
    assert metrics.report.captions.candidates.values == tuple(captions)


def test_padding_of_either_kind_reaches_no_caption():
    for padding in (-100, 0):
        predicted = SimpleNamespace(predictions=tokens("a dog runs", "a cat", padding=padding), label_ids=None)
        metrics = CaptionMetrics("rouge", Words(), ["a dog runs", "a cat"], resampling=QUICK)
        assert metrics(predicted)["captious/rouge"] == 1
        assert metrics.report.captions.candidates.values == ("a dog runs", "a cat")


def test_the_examples_that_fill_the_batches_of_several_processes_count_once(monkeypatch):
    """Two processes with batches of four have eight places for three examples: the trainer repeats them in order."""
    captions, labels = ["a dog", "the cat sits", "a cat"], ["a dog runs", "a cat sits", "the dog sits"]
    filled = prediction((captions * 3)[:8], (labels * 3)[:8])
    with pytest.raises(captious.InputError, match="8 captions and 3 references, expected as many"):
        CaptionMetrics("rouge", Words(), REFERENCES, resampling=QUICK)(filled)  # one process
    monkeypatch.setattr("captious.loops.trainers._count_processes", lambda: 2)
    for references, size in ((REFERENCES, 8), (None, 5)):  # without references, at most as many as there are examples
        metrics = CaptionMetrics("cider, rouge", Words(), references, resampling=QUICK)
        alone = metrics(prediction(captions, labels))
        assert metrics(prediction((captions * 3)[:size], (labels * 3)[:size])) == alone
    wrong = prediction((captions * 3)[:8], [*(labels * 3)[:7], "the cat runs"])
    with pytest.raises(captious.InputError, match="8 captions and 3 references, expected as many"):
        CaptionMetrics("rouge", Words(), REFERENCES, resampling=QUICK)(wrong)


def test_labels_are_the_references_where_there_are_no_others():
    metrics = CaptionMetrics("rouge", SimpleNamespace(tokenizer=Words()), resampling=QUICK)
    metrics(prediction(["a dog", "the cat sits", "a cat"]))
    assert [texts[0] for texts in metrics.report.captions.references] == ["a dog runs", "a cat sits", "the dog sits"]


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        (prediction(["a dog", "a cat"], None), "2 captions and 3 references, expected as many"),
        (prediction(["a dog"] * 3, ("a cat sits", "a dog runs", "the dog sits")), "example 1: its label 'a cat sits'"),
        (
            prediction(["a dog runs a dog", "a cat sits .", "the dog sits"]),
            "repeat their label and go on, such as 'a dog",
        ),
        (SimpleNamespace(predictions=np.zeros((3, 4, 9), np.float32), label_ids=None), "predict_with_generate=True"),
    ],
)
def test_what_is_refused(predicted, message):
    with pytest.raises(captious.InputError, match=message):
        CaptionMetrics("rouge", Words(), REFERENCES, resampling=QUICK)(predicted)


def test_captions_that_all_equal_their_labels_are_warned_of():
    with pytest.warns(UserWarning, match="all 3 captions equal their label"):
        CaptionMetrics("rouge", Words(), REFERENCES, resampling=QUICK)(
            prediction(["a dog runs", "a cat sits", "the dog sits"])
        )


def test_wrong_arguments_are_refused_when_they_are_given():
    with pytest.raises(captious.InputError, match="tokenizer: NoneType, expected the tokenizer"):
        CaptionMetrics("rouge")
    with pytest.raises(captious.InputError, match="references: dict, expected a list"):
        CaptionMetrics("rouge", Words(), {"1": ["a dog"]})
    with pytest.raises(captious.InputError, match="generate: 1 captions for 2 examples"):
        trained(lambda model, examples: ["a dog"])
    with pytest.raises(captious.InputError, match="data: 2 examples with 1 ids, expected an id for each"):
        CaptionCallback(None, None, [{"id": 1, "caption": "a dog"}] * 2)
    with pytest.raises(captious.InputError, match="references: 1 entries, expected a list with 2"):
        CaptionCallback(None, None, [{}, {}], references=["a dog"])


def test_it_pickles():
    copy = pickle.loads(pickle.dumps(CaptionMetrics("cider", Words(), REFERENCES, resampling=QUICK)))
    assert copy(prediction(["a dog", "a cat", "a dog"]))["captious/cider"] > 0


class Counter(torch.nn.Module):
    """A model that counts its steps; in training mode it would caption otherwise."""

    def __init__(self):
        super().__init__()
        self.steps = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x=None, labels=None):
        return {"loss": (self.steps - 1) ** 2, "logits": torch.zeros(len(x), 1)}


DATA = [
    {"image_id": 7, "references": ["a dog runs"]},
    {"image_id": 8, "references": ["a cat sits"]},
    {"image_id": 9, "references": ["the dog sits"]},
]


def trained(generate, data=DATA, **options):
    """A trainer after three steps, with an evaluation after each, and its callback."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        options.pop("folder", "unused"),
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="no",
        metric_for_best_model=options.pop("best", "captious/rouge"),
        per_device_eval_batch_size=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    rows = [{"x": torch.zeros(1), "labels": torch.zeros(1)}] * 4
    trainer = Trainer(Counter(), arguments, train_dataset=rows, eval_dataset=rows)
    callback = CaptionCallback(trainer, generate, data, "rouge", resampling=QUICK, **options)
    trainer.add_callback(callback)
    trainer.train()
    return trainer, callback


def test_a_trainer_logs_the_values_and_knows_the_best(tmp_path):
    calls = []

    def generate(model, examples):
        assert not model.training and not torch.is_grad_enabled()
        calls.append([example["image_id"] for example in examples])
        step = (len(calls) + 1) // 2
        return ["a dog runs" if step == 2 else "a bird" for _ in examples]

    trainer, callback = trained(generate, folder=tmp_path)
    assert calls == [[7, 8], [9]] * 3
    logged = [entry for entry in trainer.state.log_history if "eval_captious/rouge" in entry]
    # ROUGE-L of "a bird" against "a dog runs", "a cat sits", "the dog sits"; of "a dog runs" against them, where one
    # word in three is shared: precision = recall = F = 1/3 with "a cat sits" and with "the dog sits".
    second = (1 + 1 / 3 + 1 / 3) / 3
    assert [entry["step"] for entry in logged] == [1, 2, 3]
    assert logged[1]["eval_captious/rouge"] == pytest.approx(second)
    assert trainer.state.best_metric == pytest.approx(second)
    assert set(logged[0]) >= {"eval_captious/rouge_low", "eval_captious/rouge_high"}
    assert callback.report.captions.ids == ("7", "8", "9")


def test_every_so_many_steps_without_choosing_by_it(tmp_path):
    trainer, _ = trained(lambda model, examples: ["a dog"] * len(examples), folder=tmp_path, every=2, best="loss")
    logged = [entry["step"] for entry in trainer.state.log_history if "eval_captious/rouge" in entry]
    assert logged == [2]


def processes(generate, count, data, monkeypatch):
    """What the callback gives in each of several processes, which threads stand in for."""
    import accelerate.utils

    barrier, gathered, sent = threading.Barrier(count), {}, []

    def gather_object(values):
        gathered[threading.current_thread().name] = values
        barrier.wait(60)
        return [value for name in sorted(gathered) for value in gathered[name]]

    def broadcast_object_list(values):
        if threading.current_thread().name == "0":
            sent.extend(values)
        barrier.wait(60)
        values[:] = sent

    monkeypatch.setattr(accelerate.utils, "gather_object", gather_object)
    monkeypatch.setattr(accelerate.utils, "broadcast_object_list", broadcast_object_list)
    results = {}

    def work(rank):
        logs = []
        callback = CaptionCallback(SimpleNamespace(log=logs.append), generate, data, "cider, rouge", resampling=QUICK)
        args = SimpleNamespace(world_size=count, process_index=rank, per_device_eval_batch_size=2)
        values = {}
        try:
            model = Counter()
            callback.on_evaluate(args, None, None, model=model, metrics=values)
            assert model.training
            assert logs == [values]
            results[rank] = values
        except captious.InputError as error:
            results[rank] = str(error)

    threads = [threading.Thread(target=work, args=(rank,), name=str(rank)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return [results[rank] for rank in range(count)]


def test_several_processes_give_the_values_of_one(monkeypatch):
    data = [{"image_id": id, "references": [text]} for id, text in enumerate(["a dog runs", "a cat", "the dog"] * 3)]

    def generate(model, examples):
        return ["a dog runs" if example["image_id"] % 2 else "the cat sits" for example in examples]

    (alone,) = processes(generate, 1, data, monkeypatch)
    assert processes(generate, 2, data, monkeypatch) == [alone, alone]
    assert processes(generate, 4, data, monkeypatch) == [alone] * 4


def test_a_fault_in_one_process_ends_all(monkeypatch):
    def generate(model, examples):
        if any(example["image_id"] == 8 for example in examples):
            raise RuntimeError("out of memory")
        return ["a dog"] * len(examples)

    assert processes(generate, 2, DATA, monkeypatch) == ["RuntimeError: out of memory"] * 2

    def scored(*arguments, **options):
        raise MemoryError("no package for a model")

    monkeypatch.setattr("captious.loops.trainers.evaluate", scored)
    results = processes(lambda model, examples: ["a dog"] * len(examples), 2, DATA, monkeypatch)
    assert results == ["MemoryError: no package for a model"] * 2
