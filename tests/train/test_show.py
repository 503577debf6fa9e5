"""Progress where there is no terminal, and the page of curves."""

import json

from captious.train import curves, show


def test_lines_say_how_far_and_how_long(monkeypatch):
    clock = iter([0.0, 20.0, 60.0, 70.0, 90.0])
    monkeypatch.setattr(show.time, "monotonic", lambda: next(clock))
    said = []
    report = show.lines(said.append, every=30)
    for done in (10, 20, 40, 45, 70):
        report("steps", done, 100)
    # At 60 s, 30 steps took 60 s: 60 steps are left, which is 2 minutes. Then 30 steps took 30 s: half a minute.
    assert said == ["steps: 40 of 100, 2 min left", "steps: 70 of 100, 0 min left"]


def test_curves_show_every_number_and_escape_names(tmp_path):
    rows = [{"step": n, "epoch": 0, "lr": 0.1, "loss": 5 - n / 300} for n in range(1, 1201)]
    rows.append({"step": 1200, "epoch": 0, "validation": {"sr": 71.0}})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 12')
    curves.write(tmp_path, "a <b> training", {"batch": 4})
    page = (tmp_path / "curves.html").read_text()
    assert page.count("<svg") == 3 and "a &lt;b&gt; training" in page and "1200 steps" in page
    assert "loss: 4.995 at first, 1.002 at last" in page
