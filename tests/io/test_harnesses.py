"""Logs of harnesses and spreadsheets give the numbers of the same captions as JSON; hostile cells are text."""

import json
import re
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import captious
from captious import InputError, Reading, Resampling, read
from captious.data import DEMO

LOGS = Path(__file__).parent / "logs"
PREDICTIONS = {
    str(row["image_id"]): row["caption"] for row in json.loads((DEMO / "predictions/solid.json").read_text())
}
REFERENCES = json.loads((DEMO / "references.json").read_text())
QUICK = {"metrics": "cider,bleu(n=4)", "resampling": Resampling(0)}


def lmms_eval(path, **changes):
    """A log as the evaluation tracker of lmms-eval writes it: every metric of the task has the same dictionary."""
    lines = []
    for number, (key, text) in enumerate(PREDICTIONS.items()):
        measured = {"answer": REFERENCES[key], "pred": text, "image_id": int(key), "id": number}
        line = {"doc_id": number, "target": str(REFERENCES[key]), "filtered_resps": text, "doc_hash": "0" * 64}
        lines.append(line | {"coco_CIDEr": measured, "coco_Bleu_4": measured, "input": "Describe it."} | changes)
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def vlmevalkit(answer=str):
    rows = [
        {"index": int(key), "question": "Describe it.", "answer": answer(REFERENCES[key]), "prediction": text}
        for key, text in PREDICTIONS.items()
    ]
    return pd.DataFrame(rows)


def evalscope(path):
    lines = [
        {
            "index": int(key),
            "input": "…",
            "sample_score": {
                "score": {"value": {"CIDEr": 0.5}, "prediction": text, "extracted_prediction": text},
                "sample_id": int(key),
                "sample_metadata": {"references": REFERENCES[key]},
            },
        }
        for key, text in PREDICTIONS.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def spreadsheet(path, rows):
    """An XLSX file with inline texts and numbers, as small as spreadsheet programs open it."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"

    def cell(value, place):
        if isinstance(value, (int, float)):
            return f'<c r="{place}"><v>{value}</v></c>'
        text = str(value).replace("&", "&amp;").replace("<", "&lt;")
        return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'

    lines = [
        f'<row r="{number}">{"".join(cell(one, f"{chr(65 + index)}{number}") for index, one in enumerate(row))}</row>'
        for number, row in enumerate(rows, start=1)
    ]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        sheet = f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    return path


def as_spreadsheet(frame, path):
    return spreadsheet(path, [list(frame.columns), *frame.to_numpy().tolist()])


FILES = {
    "lmms-eval": lambda folder: lmms_eval(folder / "d_samples_coco.jsonl"),
    "lmms-eval, older": lambda folder: lmms_eval(folder / "d_samples_coco.jsonl", filtered_resps=None),
    "vlmevalkit tsv": lambda folder: vlmevalkit().to_csv(folder / "M_COCO.tsv", sep="\t", index=False, quoting=1),
    "vlmevalkit json": lambda folder: vlmevalkit(list).to_json(folder / "M_COCO.json", orient="records"),
    "vlmevalkit xlsx": lambda folder: as_spreadsheet(vlmevalkit(), folder / "M_COCO.xlsx"),
    "evalscope": lambda folder: evalscope(folder / "review.jsonl"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_log_gives_the_numbers_of_the_same_captions_as_json(name, tmp_path):
    FILES[name](tmp_path)
    (path,) = tmp_path.iterdir()
    if name == "lmms-eval, older":
        lines = [
            json.loads(line) | {"filtered_resps": [text]}
            for line, text in zip(path.read_text().splitlines(), PREDICTIONS.values(), strict=True)
        ]
        path.write_text("\n".join(map(json.dumps, lines)))
    plain = captious.evaluate(PREDICTIONS, references=REFERENCES, **QUICK)
    report = captious.evaluate(path, **QUICK)
    assert report.captions.ids == plain.captions.ids
    for key, one in plain.measurements.items():
        assert report.measurements[key].corpus == one.corpus and list(report[key].values) == list(one.values)
    assert report["cider"].signature.fingerprint == plain["cider"].signature.fingerprint


def assert_equal(source, captions, references, reading=None):
    """The source gives the numbers of these captions and references by id."""
    report = captious.evaluate(source, reading=reading or Reading(), **QUICK)
    plain = captious.evaluate(captions, references=references, **QUICK)
    assert report.captions.ids == plain.captions.ids
    for key, one in plain.measurements.items():
        assert report.measurements[key].corpus == one.corpus and list(report[key].values) == list(one.values)
    assert report["cider"].signature.fingerprint == plain["cider"].signature.fingerprint


@pytest.mark.parametrize("name", ["lmms_eval.jsonl", "evalscope.jsonl", "verl.jsonl"])
def test_a_log_of_the_real_program_gives_the_same_numbers(name):
    keys = list(PREDICTIONS)[:3]
    assert_equal(LOGS / name, {key: PREDICTIONS[key] for key in keys}, {key: REFERENCES[key] for key in keys})


@pytest.mark.parametrize("name", ["trl_plain.parquet", "trl_chat.parquet"])
def test_rollouts_of_trl_are_candidates_of_their_items(name):
    captions = {}
    for row in pq.read_table(LOGS / name).to_pylist():
        text = row["completion"] if isinstance(row["completion"], str) else row["completion"][0]["content"]
        captions.setdefault(str(row["image_id"]), []).append(text)
    assert [len(texts) for texts in captions.values()] == [2, 2, 2]
    with pytest.raises(InputError, match=r"row 2: id '1001' occurs more than once.*several=True"):
        read(LOGS / name)
    assert_equal(LOGS / name, captions, {key: REFERENCES[key] for key in captions}, Reading(several=True))
    assert set(read(LOGS / name, reading=Reading(several=True)).columns) >= {"step", "reward"}


def test_rollouts_without_an_id_are_numbered(tmp_path):
    rows = [{"input": "?", "output": text, "gts": "['a dog', 'a cat']", "score": 1.0, "step": 7} for text in "abc"]
    (tmp_path / "7.jsonl").write_text("\n".join(map(json.dumps, rows)))
    captions = read(tmp_path / "7.jsonl")
    assert captions.ids == ("0", "1", "2") and captions.item(0).references == ("a dog", "a cat")
    (tmp_path / "8.jsonl").write_text(json.dumps({**rows[0], "output": None}))
    with pytest.raises(InputError, match=r"8\.jsonl: row 1: caption is null"):
        read(tmp_path / "8.jsonl")
    chat = {"step": 1, "prompt": "?", "completion": [{"role": "user", "content": "x"}], "advantage": 0.1}
    (tmp_path / "9.jsonl").write_text(json.dumps(chat))
    with pytest.raises(InputError, match=r"9\.jsonl: row 1: completion has no text of the assistant"):
        read(tmp_path / "9.jsonl")


# Columns of the caption sets on Hugging Face: yerevann/coco-karpathy, lmms-lab/COCO-Caption and so on.
DATASETS = {
    "karpathy": lambda id, texts: {"filename": f"COCO_val2014_{id:012d}.jpg", "cocoid": id, "sentences": texts},
    "lmms-lab": lambda id, texts: {
        "question_id": f"COCO_val2014_{id:012d}.jpg", "question": "Describe it.", "answer": texts, "id": 3 * id
    },
    "nocaps": lambda id, texts: {"image_id": id, "annotations_captions": texts},
    "textcaps": lambda id, texts: {"image_id": id, "question_id": 5 * id, "caption_str": texts, "question": "?"},
    "flickr30k": lambda id, texts: {"filename": f"{id}.jpg", "img_id": str(id), "caption": texts},
}  # fmt: skip


@pytest.mark.parametrize("name", DATASETS)
def test_a_data_set_of_hugging_face_is_references(name, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [DATASETS[name](int(key), texts) for key, texts in REFERENCES.items()]
    data = datasets.Dataset.from_list(rows)
    data.to_parquet(tmp_path / "data.parquet")
    for source in (data, tmp_path / "data.parquet", rows):
        assert_equal(PREDICTIONS, PREDICTIONS, REFERENCES, Reading(references=source))


def test_images_of_such_a_data_set_are_the_items(tmp_path):
    datasets = pytest.importorskip("datasets")
    paths = {key: str(DEMO / f"images/{key}.png") for key in list(REFERENCES)[:4]}
    rows = [{"question_id": int(key), "answer": REFERENCES[key], "image": path} for key, path in paths.items()]
    data = datasets.Dataset.from_list(rows).cast_column("image", datasets.Image())
    few = {key: PREDICTIONS[key] for key in paths}
    scores = [
        captious.evaluate(
            few, "clipscore(captious-mini)", resampling=Resampling(0), references=references, images=images
        )
        for references, images in ((data, None), ({key: REFERENCES[key] for key in paths}, paths))
    ]
    assert list(scores[0]["clipscore"].values) == list(scores[1]["clipscore"].values)


def webdataset(path, mode="w"):
    with tarfile.open(path, mode) as archive:
        for key, text in PREDICTIONS.items():
            for ending, content in (
                ("txt", text.encode()),
                ("json", json.dumps({"references": REFERENCES[key]}).encode()),
            ):
                member = tarfile.TarInfo(f"{key}.{ending}")
                member.size = len(content)
                archive.addfile(member, BytesIO(content))
    return path


def test_a_tar_of_webdataset_is_a_file_as_others_are(tmp_path):
    assert_equal(webdataset(tmp_path / "w.tar"), PREDICTIONS, REFERENCES)
    assert_equal(webdataset(tmp_path / "w.tgz", "w:gz"), PREDICTIONS, REFERENCES)
    assert_equal(webdataset(tmp_path / "unnamed"), PREDICTIONS, REFERENCES, Reading(format="webdataset"))
    (tmp_path / "cut.tar").write_bytes((tmp_path / "w.tar").read_bytes()[:5_000])
    with pytest.raises(InputError, match=r"cut\.tar"):
        read(tmp_path / "cut.tar")


def test_the_target_is_taken_only_where_it_is_a_printed_list(tmp_path):
    path = lmms_eval(tmp_path / "log.jsonl", coco_CIDEr=None, coco_Bleu_4=None)
    assert read(path).item(0).references == tuple(next(iter(REFERENCES.values())))
    assert read(path).ids[:2] == ("0", "1")
    lmms_eval(path, coco_CIDEr=None, coco_Bleu_4=None, target="answer")
    assert not read(path).item(0).references


def test_a_format_may_be_insisted_on_and_one_s_own_columns_stay(tmp_path):
    path = tmp_path / "answers.csv"
    frame = vlmevalkit().assign(id=range(60))
    frame.to_csv(path, index=False)
    assert read(path).item(0).references == ()  # with ids of its own, the table is nobody's log
    named = read(path, reading=Reading(format="vlmevalkit"))
    assert named.ids == tuple(PREDICTIONS) and named.item(0).references == tuple(REFERENCES[named.ids[0]])
    (tmp_path / "other.json").write_text('[{"id": 1, "caption": "a dog"}]')
    with pytest.raises(InputError, match="entry 1: no column 'answer', expected one as vlmevalkit writes it"):
        read(tmp_path / "other.json", reading=Reading(format="vlmevalkit"))


CODE = [
    "__import__('os').system('touch broken')",
    "[__import__('os').system('touch broken')]",
    "open('broken', 'w')",
    "(lambda: open('broken', 'w'))()",
    "[" * 1_000_000,
    "['a dog', " + "[" * 1_000_000,
    "['a dog'] + [open('broken', 'w')]",
]


@pytest.mark.parametrize("answer", CODE)
def test_code_in_a_cell_is_text_or_refused(answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, log = tmp_path / "M.tsv", tmp_path / "log.jsonl"
    vlmevalkit(lambda texts: answer)[:1].to_csv(path, sep="\t", index=False)
    log.write_text(json.dumps({"doc_id": 1, "filtered_resps": "a dog", "target": answer}))
    for source in (path, log):
        try:
            assert read(source).item(0).references in ((answer,), ())
        except InputError as error:
            assert re.search(r"M\.tsv: (row|line) 2|log\.jsonl: row 1", str(error)) and len(str(error)) < 500
    assert not (tmp_path / "broken").exists()


def test_numpy_s_printed_arrays_are_refused(tmp_path):
    path = tmp_path / "M.tsv"
    vlmevalkit(lambda texts: " ".join(map(repr, texts)).join("[]")).to_csv(path, sep="\t", index=False)
    with pytest.raises(InputError, match=r"M.tsv: row 2"):
        read(path)


def test_a_pickle_is_never_opened(tmp_path):
    vlmevalkit().to_pickle(tmp_path / "M_COCO.pkl")
    with pytest.raises(InputError, match="is a pickle, which could run code"):
        read(tmp_path / "M_COCO.pkl")


def test_spreadsheets_with_gaps_numbers_and_escapes(tmp_path):
    path = spreadsheet(
        tmp_path / "s.xlsx", [["id", "caption", "style"], [1, "a dog_x000A_runs", "calm"], ["b", "None", ""]]
    )
    captions = read(path)
    assert captions.ids == ("1", "b") and captions.item(1).candidate == "None"
    assert captions.item(0).candidate.split() == ["a", "dog", "runs"] and captions.columns["style"][0] == "calm"


def test_spreadsheets_with_shared_texts_as_office_programs_write_them(tmp_path):
    """Texts are in a table of their own, with runs of formatting and the reading of Japanese words beside them."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    texts = ["id", "caption", "<r><t>a </t></r><r><t>dog</t></r>", "<t>犬</t><rPh><t>いぬ</t></rPh>"]
    items = "".join(f"<si>{text if text.startswith('<') else f'<t>{text}</t>'}</si>" for text in texts)
    cells = '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>'
    cells += '<row r="2"><c r="A2"><v>7</v></c><c r="C2" t="s"><v>2</v></c></row>'
    cells += '<row r="4"><c r="A4"><v>8</v></c><c r="C4" t="s"><v>3</v></c></row>'
    with zipfile.ZipFile(tmp_path / "s.xlsx", "w") as archive:
        archive.writestr("xl/sharedStrings.xml", f"<sst {main}>{items}</sst>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet {main}><sheetData>{cells}</sheetData></worksheet>")
    captions = read(tmp_path / "s.xlsx")
    assert dict(zip(captions.ids, captions.candidates.values, strict=True)) == {"7": "a dog", "8": "犬"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["id", "caption"], [1, "x" * 32_767]], "row 2: a cell has 32,767 characters, where spreadsheets cut"),
        ([["id", "id"], [1, "a"]], "row 1: column 'id' occurs more than once"),
        ([["id", "caption"], [1, "a", "b"]], r"row 2: has 3 cells, expected 2 \(id, caption\)"),
        ([[]], "is empty, expected a header row"),
    ],
)
def test_a_spreadsheet_that_cannot_be_used_names_the_row(rows, message, tmp_path):
    with pytest.raises(InputError, match=message):
        read(spreadsheet(tmp_path / "s.xlsx", rows))


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "b">]><worksheet/>', "declares entities"),
        (b"\xff\xfe<\x00!\x00", "declares entities"),
        (b"<worksheet>", "not a whole XLSX file"),
        (b"<w><row/></w>", "is empty"),
        (b" " * 5_000_000, r"unpacks to more than 1 MiB, expected less; pass reading=Reading\(unpack_limit=4\)"),
    ],
)
def test_a_hostile_spreadsheet_is_one_line(sheet, message, tmp_path):
    with zipfile.ZipFile(tmp_path / "s.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "s.xlsx", reading=Reading(unpack_limit=1))


def test_damaged_logs_name_the_row(tmp_path):
    path = tmp_path / "review.jsonl"
    path.write_text('{"index": 1, "sample_score": {"score": 3}}')
    with pytest.raises(InputError, match=re.escape("review.jsonl: row 1: sample_score has no score with a prediction")):
        read(path)
    path.write_text('{"doc_id": 1, "filtered_resps": ["a", "b"]}')
    with pytest.raises(InputError, match="row 1: filtered_resps contains 2 captions, expected one"):
        read(path)


def test_a_harness_is_no_format_of_shards(tmp_path):
    (tmp_path / "0.jsonl").write_text("{}")
    with pytest.raises(InputError, match="is for one file"):
        captious.score_shards(tmp_path, "rouge", out=tmp_path / "out", reading=Reading(format="lmms-eval"))


def test_caparena_auto_as_its_authors_wrote_it(tmp_path):
    """The layout that njucckevin/CapArena, caparena_auto_eval.py reads: one baseline is assigned to each image."""
    images = {
        "a.jpg": {"captions": {"human": "a dog on a mat", "GPT-4o": "a dog"}, "ref_model": "GPT-4o"},
        "b.jpg": {"captions": {"human": "a cat", "GPT-4o": "cat", "CogVLM2": "the cat sits"}, "ref_model": "CogVLM2"},
    }
    path = tmp_path / "caparena_auto_600.json"
    path.write_text(json.dumps(images))
    captions = read(path)
    assert [(one.id, one.candidate, one.references) for one in captions] == [
        ("a.jpg", "a dog", ("a dog on a mat",)),
        ("b.jpg", "the cat sits", ("a cat",)),
    ]
    assert list(captions.columns["ref_model"]) == ["GPT-4o", "CogVLM2"]
    assert [one.references for one in read({"a.jpg": "x", "b.jpg": "y"}, references=path)] == [
        ("a dog on a mat",),
        ("a cat",),
    ]
    images["b.jpg"]["ref_model"] = "MiniCPM"
    path.write_text(json.dumps(images))
    with pytest.raises(InputError, match=r"id 'b.jpg': captions has no 'MiniCPM', the ref_model, only human, GPT-4o"):
        read(path)


def test_a_table_with_these_columns_may_be_ones_own(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"id": "1", "captions": ["a dog"], "ref_model": "x"}) + "\n")
    assert [one.candidate for one in read(path)] == ["a dog"]
    own = {"captions": {"human": "a dog", "GPT-4o": "dog"}, "ref_model": "GPT-4o"}
    path.write_text(json.dumps({"id": "1", **own}) + "\n" + json.dumps({"id": "2", **own, "captions": "a cat"}) + "\n")
    with pytest.raises(InputError, match=r"row 2: captions is .*, expected an object as caparena-auto has it"):
        read(path)


def test_personality_captions_has_comments_as_captions_and_no_candidates(tmp_path):
    row = {"image_hash": "9988", "personality": "Curious", "comment": "How old is it?"}
    lists = {"candidates": ["How old is it?", "Stop the car."], "500_candidates": ["This is my lunch!"]}
    path = tmp_path / "test.json"
    path.write_text(json.dumps([{**row, "additional_comments": ["Where does it lead?", "Who lives in it?"], **lists}]))
    captions = read(path)
    assert captions["9988"].candidates == ("How old is it?",) and captions.columns["style"] == ("Curious",)
    assert captions["9988"].references == ("How old is it?", "Where does it lead?", "Who lives in it?")
    path.write_text(json.dumps([{**row, "additional_comments": "one text"}]))
    with pytest.raises(InputError, match=r"entry 1: additional_comments is .*, expected a list of texts"):
        read(path)
