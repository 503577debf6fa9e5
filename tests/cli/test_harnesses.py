"""``captious score`` on logs of harnesses and trainers, and on a tar, as people type it."""

import json
import tarfile
from io import BytesIO
from pathlib import Path

LOGS = Path(__file__).parents[1] / "io/logs"


def scored(run, *arguments):
    code, out, error = run("score", *arguments, "--metrics", "rouge", "--samples", 0, "--json")
    assert code == 0, error
    return json.loads(out)["metrics"][0]["value"]


def test_a_log_is_recognized_and_a_format_insists(run):
    for name, format in {"lmms_eval": "lmms-eval", "evalscope": "evalscope", "verl": "verl"}.items():
        assert scored(run, LOGS / f"{name}.jsonl") == scored(run, LOGS / f"{name}.jsonl", "--format", format)
    code, _, error = run("score", LOGS / "verl.jsonl", "--format", "lmms-eval")
    assert code == 2 and "row 1: no column 'doc_id', expected one as lmms-eval writes it" in error


def test_rollouts_need_several(run):
    code, _, error = run("score", LOGS / "trl_chat.parquet", "--metrics", "rouge")
    assert code == 2 and "pass --several where an item has several candidates" in error
    assert 0 < scored(run, LOGS / "trl_chat.parquet", "--several") < 1


def test_one_tar_is_a_file_without_a_folder_and_a_shard_with_one(run, tmp_path):
    with tarfile.open(tmp_path / "w.tar", "w") as archive:
        for name, content in {"7.txt": b"a dog", "7.json": b'{"references": ["a dog runs"]}'}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    value = scored(run, tmp_path / "w.tar")
    # ROUGE-L of two words that are both in a reference of three: P = 1, R = 2/3, beta = 1.2.
    assert value == (1 + 1.44) * (2 / 3) / (2 / 3 + 1.44)
    assert scored(run, tmp_path / "w.tar", "--out", tmp_path / "scores") == value
    assert (tmp_path / "scores/report.html").is_file()
