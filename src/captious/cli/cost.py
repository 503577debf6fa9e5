"""``captious cost``: operations of one score by chat models, and the agreement that operations buy."""

from __future__ import annotations

from typing import Annotated

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import Session
from captious.errors import InputError
from captious.options import Argument, Option

app = CommandGroup("cost")
TERA = 1e12
# Tokens of a prompt in SPECS's comparison.
TOKENS = 300
# TFLOPs of SPECS for these models: its Table 2, and its text for the larger LLaVA.
PUBLISHED = {"llama-2-7b": 3.97, "llava-1.5-7b": 3.97, "llava-1.5-13b": 7.74, "internlm2.5-7b": 4.54}


@command(app)
def judge(
    session: Annotated[Session, Only("json")],
    model: Annotated[
        str | None, Argument("A known model, or the sizes of another; without one, all known.", metavar="MODEL")
    ] = None,
    tokens: Annotated[int, Option("Tokens that the judge reads.", min=1)] = TOKENS,
) -> None:
    """Operations of a chat model for reading a prompt, from its shape: 2 × multiply-adds.

    Image towers, image tokens and the tokens that the model writes are not counted.

    Example: captious cost judge
    Example: captious cost judge llama-2-7b --tokens 1000
    Example: captious cost judge layers=32,width=4096,inner=11008,kv_width=4096,vocabulary=32000
    """
    from captious.models.cost import JUDGE_SHAPES, get_judge_shape
    from captious.render import Column, Document, Table

    shapes = JUDGE_SHAPES if model is None else {model: get_judge_shape(model)}
    variants = {"blocks": (False, False), "tflops": (True, False), "with_attention": (True, True)}
    rows, data = [], []
    for label, known in shapes.items():
        counts = {
            key: known.count_flops(tokens, output=output, attention=attention) / TERA
            for key, (output, attention) in variants.items()
        }
        published = PUBLISHED.get(label) if tokens == TOKENS else None
        rows.append((label, *counts.values(), published))
        data.append({"judge": label, **counts, "published": published, "shape": vars(known)})
    columns: list[Column | str] = [
        "judge",
        Column("layers only", decimals=3),
        Column("TFLOPs", decimals=3, bold=True),
        Column("with attention", decimals=3),
        Column("published", decimals=2),
    ]
    first = rows[0]
    session.deliver(
        Document(
            f"Reading {tokens:,} tokens",
            sections=[Table("judges", "TFLOPs of one score", columns, rows)],
            notes=[
                "TFLOPs: layers and output layer, without the products of attention: nearest to what SPECS published",
                "published: SPECS, 300 tokens; its table has 7.37 for llava-1.5-13b, its text 7.74",
            ],
            data={"tokens": tokens, "judges": data},
            name="cost",
            answer=f"{first[0]} takes {first[2]:.2f} TFLOPs to read {tokens:,} tokens.",
        )
    )


@command(app)
def agreement(
    study: Annotated[str, Argument("What captious study run --json printed.")],
    session: Annotated[Session, Only("out", "overwrite", "json", "latex", "csv")],
    cost: Annotated[
        tuple[str, ...],
        Option("Cost of a metric: NAME=TFLOPs, a judge of captious cost judge, or an encoder.", metavar="COSTS"),
    ] = (),
) -> None:
    """Cost of metrics against their agreement with people, as one chart with operations on a logarithmic axis.

    Example: captious cost agreement study.json --cost CLIPScore=0.0148 --cost SPECS=0.0281 --cost CLAIR=llama-2-7b
    """
    from captious.study import read_cost_agreement

    with session.working() as step:
        step("costs")
        result = read_cost_agreement(study, dict(map(_read_cost, cost)))
    session.deliver(result)


def _read_cost(text: str) -> tuple[str, float]:
    """Return the name and TFLOPs of ``NAME=COST``."""
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise InputError(f"cost {text!r}: expected NAME=TFLOPs, such as CLIPScore=0.0148 or CLAIR=llama-2-7b")
    try:
        number = float(value)
    except ValueError:
        return name, _count_model(value)
    if not 0 <= number < float("inf"):
        raise InputError(f"cost {text!r}: expected TFLOPs of 0 or more")
    return name, number


def _count_model(name: str) -> float:
    """Return the TFLOPs of a known judge, or else of an encoder."""
    from captious.models.cost import JUDGE_SHAPES, cost
    from captious.models.loading import load

    if name in JUDGE_SHAPES:
        return JUDGE_SHAPES[name].count_flops(TOKENS) / TERA
    return cost(load(name)).flops / TERA
