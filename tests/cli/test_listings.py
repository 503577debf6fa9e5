"""Long listings: a short form that fits a screen, everything with --all, and a word to search for."""

import json

import pytest

LINES = 40


@pytest.fixture
def shown(run, monkeypatch):
    """The lines that a command prints on a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")

    def lines(*words):
        code, out, error = run(*words)
        assert code == 0, error
        return out.splitlines()

    return lines


@pytest.mark.parametrize("command", [("metrics",), ("study", "recipes"), ("study", "leaderboard")])
def test_a_listing_fits_a_screen_and_all_prints_everything(shown, command):
    short, full = shown(*command), shown(*command, "--all")
    assert len(short) <= LINES and max(map(len, short)) <= 100
    assert len(full) > 3 * len(short)
    assert "--all" in " ".join(short[-3:])  # it says how to see the others
    # JSON is for programs: it is the same with and without --all.
    notes = {"notes": None}
    short, full = (json.loads("\n".join(shown(*command, "--json", *more))) | notes for more in ((), ("--all",)))
    assert short == full


def test_a_word_searches_metrics_and_a_name_prints_the_card(shown, run):
    assert all(name in " ".join(shown("metrics")) for name in ("bleu", "cider", "clipscore", "vqascore"))
    found = shown("metrics", "synonym")
    assert any("meteor" in line for line in found) and not any("clipscore" in line for line in found)
    assert "CIDEr-D: tf-idf weighted" in " ".join(shown("metrics", "cider"))
    code, _, error = run("metrics", "cidr")
    assert code == 2 and "did you mean 'cider'?" in error


def test_a_word_searches_recipes(shown, run):
    data = json.loads("\n".join(shown("study", "recipes", "pascal50s", "--json")))
    assert data["pascal50s"]["kind"] == "pairs" and "iiw" not in data
    one, two = shown("study", "recipes", "pascal50s"), shown("study", "recipes", "flickr8k-")
    assert any(line.startswith("• source: ") for line in one)
    assert sum(line.startswith("• source: ") for line in two) == 2  # flickr8k-expert and flickr8k-cf
    assert "pascal50s" in " ".join(shown("study", "recipes", "Vedantam"))  # found in the citation
    code, _, error = run("study", "recipes", "zzz")
    assert code == 2 and error.count("\n") == 1 and "no recipe contains 'zzz'; there are flickr8k-expert" in error


def test_a_word_searches_the_leaderboard(shown, run):
    one = shown("study", "leaderboard", "flickr8k-expert")  # and not flickr8k-expert (part)
    assert one[1].startswith("SBERT is best on these data.")
    assert any(line.startswith("flickr8k-expert: 5,664 captions") for line in one) and not any(
        "(part)" in line for line in one
    )
    several = shown("study", "leaderboard", "flickr8k")
    assert sum("flickr8k" in line for line in several) == 5 and len(several) <= LINES
    rows = json.loads("\n".join(shown("study", "leaderboard", "meteor", "--json")))["rows"]
    assert rows and all("meteor" in row["metric"].lower() for row in rows)
    code, _, error = run("study", "leaderboard", "zzz")
    assert code == 2 and error.count("\n") == 1 and "no data set or metric contains 'zzz'" in error


def test_the_saved_leaderboard_has_every_data_set(shown, tmp_path):
    shown("study", "leaderboard", "--out", str(tmp_path / "board"))
    assert (tmp_path / "board" / "datasets.csv").exists() and len(list((tmp_path / "board").glob("*.csv"))) > 20
    page = (tmp_path / "board" / "leaderboard.html").read_text()
    assert "flickr8k-expert: 5,664 captions" in page and "How to read it" in page


def test_advice_is_short_and_all_prints_the_evidence(shown, tmp_path):
    captions = [{"image_id": i, "caption": f"a brown dog runs over the green grass {i}"} for i in range(30)]
    (tmp_path / "a.json").write_text(json.dumps(captions))
    (tmp_path / "r.json").write_text(json.dumps({i: ["a dog runs on grass", "the dog is running"] for i in range(30)}))
    words = ("study", "advise", str(tmp_path / "a.json"), "-r", str(tmp_path / "r.json"))
    short, full = shown(*words), shown(*words, "--all")
    assert len(short) <= LINES and len(full) > len(short)
    assert "Never tested" in full and "Never tested" not in short
