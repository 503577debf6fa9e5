"""Drawings of scene graphs: nothing overlaps, everything said is drawn, and words never become markup."""

import dataclasses
import re

import numpy as np
from tests.render.conftest import NASTY

from captious.render import Document, Graph, ItemMetric, Statement, Table, Why
from captious.render._graph_drawing import ARROWS, OBJECTS, draw_graph, group_tuples, lay_out_graph
from captious.render.html import render_page
from captious.render.items import build_explorer_data
from captious.render.notebook import render_notebook
from captious.render.sections import LISTED

SAID = [
    Statement(("woman",), True),
    Statement(("horse",), True),
    Statement(("jacket",), False),
    Statement(("lake",), True),
    Statement(("horse", "brown"), True),
    Statement(("horse", "very old"), False),
    Statement(("woman", "ride", "horse"), True),
    Statement(("woman", "ride near", "lake"), False),
    Statement(("woman", "dressed up in", "jacket"), False),
    Statement(("lake", "behind", "horse"), False),
    Statement(("lake", "over", "lake"), False),
]
GRAPH = Graph(SAID, [("pony",), ("pony", "brown")])


def boxes(graph):
    return [shape[2:6] for shape in lay_out_graph(graph).shapes if shape[0] == "rect"]


def texts(graph):
    return [shape[4] for shape in lay_out_graph(graph).shapes if shape[0] == "text"]


def test_everything_said_is_drawn_once():
    words = ["woman", "horse", "jacket", "lake", "brown", "very old"]
    words += ["ride", "ride near", "dressed up in", "behind", "over"]
    assert sorted(texts(GRAPH)) == sorted(words)
    heads = [shape for shape in lay_out_graph(GRAPH).shapes if shape[0] == "polygon"]
    assert len(heads) == 5 and sum(shape[1] == "matched" for shape in heads) == 1


def test_boxes_do_not_overlap_and_stay_inside():
    width, height, _ = lay_out_graph(GRAPH)
    all_boxes = boxes(GRAPH)
    for number, (x, y, w, h) in enumerate(all_boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for a, b, c, d in all_boxes[:number]:
            assert x >= a + c or a >= x + w or y >= b + d or b >= y + h


def lines(graph):
    """Horizontal and vertical stretches of the arrows, as (x1, y1, x2, y2)."""
    for shape in lay_out_graph(graph).shapes:
        if shape[0] == "path":
            x = y = 0.0
            for command, numbers in re.findall(r"([MVHQ])([-\d. ]+)", shape[2]):
                values = [float(value) for value in numbers.split()]
                end = {"M": values[:2], "V": [x, values[0]], "H": [values[0], y], "Q": values[-2:]}[command]
                if command in "VH":
                    yield (min(x, end[0]), min(y, end[1]), max(x, end[0]), max(y, end[1]))
                x, y = end


def test_labels_of_arrows_stand_free_of_lines():
    for shape in lay_out_graph(GRAPH).shapes:
        if shape[0] == "text" and shape[1].startswith("label") and shape[4] != "over":
            _, _, x, y, text = shape
            left, right, top, bottom = x - 2.5 * len(text), x + 2.5 * len(text), y - 10, y + 2
            for x1, y1, x2, y2 in lines(GRAPH):
                assert x1 >= right or x2 <= left or y2 <= top or y1 >= bottom


def test_no_arrows_no_tuples_and_very_many():
    assert lay_out_graph(Graph([Statement(("dog",)), Statement(("dog", "brown"))])).shapes[0][3] >= 0
    assert lay_out_graph(Graph([])).shapes == []
    dense = Graph([Statement(("a", f"verb {number}", "b")) for number in range(100)])
    assert sum(shape[0] == "polygon" for shape in lay_out_graph(dense).shapes) == ARROWS
    many = Graph([Statement((f"thing {number}",)) for number in range(100)])
    assert len(boxes(many)) == OBJECTS and f"and {100 - OBJECTS} more objects" in texts(many)


def test_the_lists_hold_what_became_of_every_tuple():
    assert group_tuples(Graph([Statement(("dog",), True), Statement(("dog", "red"), False)], [("cat",)])) == {
        "matched": ["(dog)"],
        "wrong": ["(dog, red)"],
        "missed": ["(cat)"],
    }
    assert group_tuples(Graph([Statement(("dog",))])) == {"said": ["(dog)"]}


def test_words_cannot_become_markup():
    graph = Graph([Statement((NASTY, NASTY, "b"), True)], [(NASTY,)], NASTY)
    for text in (
        draw_graph(graph),
        render_page(Document("t", sections=[graph])),
        render_notebook(Document("t", sections=[graph])),
    ):
        assert "<script>alert" not in text and "<b onclick" not in text


def test_a_graph_replaces_its_table_where_it_can_be_drawn():
    table = Table("tuples", "as a table", ("tuple",), [("dog",)])
    document = Document("t", sections=[table, Graph([Statement(("dog",))], replaces="tuples")])
    assert "as a table" in str(document)
    for text in (render_page(document), render_notebook(document)):
        assert "<svg" in text and "as a table" not in text


def explained(samples, **changes):
    """The sample's items with a graph of the second metric for each."""
    plain = samples.items()
    metrics = [*plain.metrics[:-1], plain.metrics[-1]._replace(explained=True)]
    return samples.items(
        metrics=metrics, explain=lambda system, metric, items: [Why("1 of 1", [GRAPH])] * len(items), **changes
    )


def test_the_explorer_holds_graphs_of_explained_metrics_alone(samples):
    assert build_explorer_data(samples.items())[0]["explanations"] == []
    items = explained(samples)
    (graphs,) = build_explorer_data(items)[0]["explanations"]
    assert graphs["metric"] == len(items.metrics) - 1 and graphs["whole"]
    assert [sorted(map(int, own)) for own in graphs["systems"]] == [list(range(len(items.ids)))] * len(items.systems)


def test_the_number_of_graphs_is_bounded_and_the_worst_are_kept(samples, monkeypatch):
    items = explained(samples)
    monkeypatch.setattr("captious.render.items.EXPLANATIONS", len(items.systems))
    (graphs,) = build_explorer_data(items)[0]["explanations"]
    totals = sum(system[-1] for system in items.values)
    worst = min((value, item) for item, value in enumerate(totals.tolist()) if value == value)[1]
    assert [list(own) for own in graphs["systems"]] == [[str(worst)]] * len(items.systems) and not graphs["whole"]


def test_items_without_a_value_are_explained_in_a_part_of_the_room(samples, monkeypatch):
    values = np.array([0.4, np.nan, 0.1, 0.9, np.nan, np.nan, 0.2, 0.3])
    number = len(values)
    items = samples.items(
        ids=[str(index) for index in range(number)],
        metrics=[ItemMetric("clair", "CLAIR", explained=True)],
        systems=["sat"],
        values=[[values]],
        texts=[[("a dog",)] * number],
        references=[()] * number,
        images=[],
        fields={},
        reasons=[],
        explain=lambda system, metric, items: [Why("", [])] * len(items),
    )
    chosen = {}
    for most in (2, 4, 7):
        monkeypatch.setattr("captious.render.items.EXPLANATIONS", most)
        (one,) = build_explorer_data(items)[0]["explanations"]
        chosen[most] = [int(item) for item in one["systems"][0]]
        assert one["number"] == most and not one["whole"]
    assert chosen == {2: [2, 6], 4: [1, 2, 6, 7], 7: [0, 1, 2, 3, 4, 6, 7]}  # a quarter, or what the scored ones leave


def test_an_explanation_that_cannot_be_given_is_left_out(samples):
    items = dataclasses.replace(explained(samples), explain=lambda system, metric, items: [])
    assert build_explorer_data(items)[0]["explanations"] == []


def test_the_lists_on_the_page_are_bounded_and_counted(samples):
    many = Graph([Statement((f"thing {number}",), True) for number in range(3 * LISTED)])
    items = dataclasses.replace(explained(samples), explain=lambda *asked: [Why("", [many])] * len(asked[-1]))
    graph = build_explorer_data(items)[0]["explanations"][0]["systems"][0]["0"]["sections"][0]["graph"]
    assert graph["counts"] == {"matched": 3 * LISTED} and len(graph["lists"]["matched"]) == LISTED


def test_the_browser_draws_the_graph_of_the_item_that_is_opened(samples, drawn):
    document = Document("t", sections=[explained(samples)])
    closed = drawn(render_page(document))
    assert 'class="why"' in closed and 'class="scene"' not in closed
    opened = drawn(render_page(document), f"#item={samples.IDS[0]}")
    assert 'class="scene"' in opened and "dressed up in" in opened and "(pony, brown)" in opened
