"""The table of costs: a line for each judge, with the calls that follow from the captions."""

import json

from lab.reproductions import judges


def test_the_table_of_costs_has_a_line_for_every_judge(tmp_path, monkeypatch, capsys):
    references = ["a dog runs", "the dog", "one dog", "a big dog", "a dog in a park"]
    captions = [{"id": name, "references": references} for name in ("a.jpg", "b.jpg")]
    expert = [{"image": name, "caption": f"a cat sits on {name}", "ratings": [1, 2]} for name in ("a.jpg", "b.jpg")]
    for name, rows in (("captions", captions), ("expert", expert)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr("sys.argv", ["judges", "cost", "--data", str(tmp_path)])
    judges.main()
    first, _, _, _, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("2 captions of Flickr8k-Expert, 5.0 words each")
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    calls = {name: int(number) for name, number, *_ in cells}
    # Five words have two facts; dcscore lists those of the references too, and matches and checks three times.
    assert calls == {
        "clair": 2, "clair(reason=no)": 2, "fleur": 2, "fleur(why=yes)": 4, "fleur(smoothing=samples)": 20,
        "reffleur": 2, "gpt4eval": 2, "gpt4eval(swap=yes)": 4, "gveval": 2, "faithscore": 2 * (2 + 2),
        "rlaifv": 2 * (2 + 2), "dcscore": 2 + 2 + 2 * 2 * 3, "arena, two systems": 4, "capture": 0,
    }  # fmt: skip
    fleur = next(one for one in cells if one[0] == "fleur")
    tokens_in, tokens_out = (int(cell.replace(",", "")) for cell in fleur[2:4])
    assert tokens_out == 2 * 4 and fleur[4] == f"{(2.5 * tokens_in + 10 * tokens_out) / 1e6:.2f}"
