"""Files of questions: every published layout becomes the same rows, and what is wrong with a file is one line."""

import gzip
import json

import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.check import check
from captious.io.questions import ItemQuestion, open_questions


@pytest.fixture
def file(tmp_path):
    """Write a file: objects one per line, or a text as it is."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".jsonl"):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return write


COLOR = {"question": "Which color?", "choices": ["red", "blue"], "answer": "red", "category": ["Attribute", "Color"]}
READ_COLOR = ItemQuestion("1", "Which color?", ("red", "blue"), "red", ("Attribute", "Color"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("captionqa.jsonl", [{"id": "nat_001", "questions": [COLOR]}]),
        ("captionqa.json", {"nat_001": [COLOR]}),
        ("flat.jsonl", [{"id": "nat_001", **COLOR}]),
    ],
)
def test_choices_are_read_as_lists_in_rows_by_id_and_one_a_row(file, name, content):
    assert open_questions(file(name, content)).questions == {"nat_001": (READ_COLOR,)}


def test_a_parquet_file_is_read(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["nat_001"], "questions": [[COLOR]]}), tmp_path / "q.parquet")
    assert open_questions(str(tmp_path / "q.parquet")).questions == {"nat_001": (READ_COLOR,)}


def test_capmas_has_options_inside_the_text_and_a_file_for_each_image(file, tmp_path):
    text = "What does the U.S. sign say? A. Stop, B. Go C. Slow down"
    file("images/test_1.json", {"questions": [text, "Day or night? A) day B) night"], "answers": ["B", "A"]})
    (questions,) = open_questions(str(tmp_path / "images")).questions.values()
    assert questions[0].choices == ("Stop", "Go", "Slow down") and questions[0].answer == "Go"
    assert questions[0].text == "What does the U.S. sign say?" and questions[1].answer == "day"


def test_vdc_has_a_video_a_line(file):
    rows = [{"v1.mp4": [{"question": "Who?", "answer": "a man", "category": "object"}]}, {"v2.mp4": []}]
    table = open_questions(file("vdc.jsonl", rows))
    assert table.questions["v1.mp4"] == (ItemQuestion("1", "Who?", (), "a man", ("object",)),)


def test_capeval_has_channels_and_no_answers(file):
    row = {"id": "a.jpg", "category": "SO", "questions": [{"channel": "text", "tags": "x,y", "question": "Does it?"}]}
    table = open_questions(file("capeval.jsonl", [row]))
    assert table.questions == {"a.jpg": (ItemQuestion("1", "Does it?", categories=("text",)),)}


def test_tifa_has_a_question_a_row_and_its_tool_writes_answers(file):
    row = {"id": "t1", "caption": "x", "element_type": "color", **COLOR}
    del row["category"]
    assert open_questions(file("tifa.json", [row])).questions["t1"][0].categories == ("color",)
    result = {
        "tifa_average": 0.5,
        "accuracy_by_type": {"color": 0.5},
        "question_details": {"t1": {"Which color?": {**row, "multiple_choice_vqa": "blue", "scores": 0}}},
        "caption_scores": {"t1": 0.5},
    }
    table = open_questions(file("result.json", result), "answers")
    assert list(table.questions) == ["t1"] and table.questions["t1"][0].given == "blue"


def test_dsg_has_parents_and_answers_of_several_image_models(file):
    text = (
        "item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,question_natural_language\n"
        'p1,x,,1,0,entity,whole,t,Is there a dog?\np1,x,,2,"1,3",relation,spatial,t,Is it on the mat?\n'
        "p1,x,,3,0,entity,whole,t,Is there a mat?\np2,x,,1,1 and 2,entity,whole,t,Is there a cat?\n"
    )
    table = open_questions(file("dsg.csv", text))
    first = table.questions["p1"]
    assert [one.parents for one in first] == [(), ("1", "3"), ()] and first[1].categories == ("relation",)
    assert {one.answer for one in first} == {"yes"} and table.unread_parents == ("p2",)
    header = "dsg_prompt_split,qg_model,t2i_model,item_id,question,question_id,dependency_id,answer\n"
    rows = "x,dsg,sd1,p1,Is there a dog?,1,0,no\nx,dsg,sd2,p1,Is there a dog?,1,0,yes\n"
    answers = open_questions(file("answers.csv", header + rows), "answers")
    assert {key: own[0].given for key, own in answers.questions.items()} == {"p1_sd1": "no", "p1_sd2": "yes"}
    alone = open_questions(file("one.csv", header + rows.splitlines()[0] + "\n"), "answers")
    assert list(alone.questions) == ["p1"]


def test_dream_has_events(file):
    table = open_questions(file("dream.jsonl", [{"id": "v", "reference": "x", "events": ["A dog runs.", "It jumps."]}]))
    assert [one.text for one in table.questions["v"]] == ["A dog runs.", "It jumps."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"id": "1", "caption": "a dog"}], "row 1: found columns id, caption, expected questions: a column question"),
        ([{"question": "Who?"}], "row 1: no id: found columns question, expected one of image_id, id"),
        ([{"id": "1", "question": 3}], r"row 1: question 1 is a number \(3\), expected a text"),
        ([{"id": "1", "question": "Who?", "choices": 3}], "row 1: question 1: choices are '3', expected a list"),
        ([{"id": "1", "questions": ["Who? A. a B. b"], "answers": []}], "row 1: 0 answers for 1 questions"),
        ([{"id": "1", "questions": ["Who?"], "answers": ["A"]}], "question 1: has no options A, B, … in 'Who[?]'"),
        ([{"id": "1", "questions": ["Who? A. a B. b"], "answers": ["D"]}], "the answer is 'D', expected one of A, B"),
        ([{"id": "1", "question": "Who?", "question_id": 7}] * 2, "item '1' has two questions with the id '7'"),
        ([{"id": "1", "questions": []}], ""),
    ],
)
def test_what_cannot_be_read_is_said_with_its_row(file, content, message):
    path = file("q.jsonl", content)
    if not message:
        assert open_questions(path).questions == {"1": ()}
        return
    with pytest.raises(InputError, match=message):
        open_questions(path)


def test_a_file_that_is_not_there_or_a_folder_without_files_is_named(tmp_path):
    with pytest.raises(InputError, match=r"questions .*nowhere.jsonl: cannot be read \(No such file or directory\)"):
        open_questions(str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(InputError, match="a folder without JSON files, expected a file of answers"):
        open_questions(str(tmp_path), "answers")
    (tmp_path / "1.json").write_text("[1]")
    with pytest.raises(InputError, match=r"1.json: is a list \(\[1\]\), expected an object with questions"):
        open_questions(str(tmp_path))


def test_answers_beside_choices_need_the_text_of_their_question(file):
    path = file("q.jsonl", [{"id": "1", "choices": ["a", "b"], "answer": "a", "given": "b"}])
    with pytest.raises(InputError, match=r"row 1: question 1 is str \(\), expected a text"):
        open_questions(path, "answers")


def test_right_answers_are_not_taken_for_those_of_a_model(file):
    path = file("q.jsonl", [{"id": "1", **COLOR}])
    with pytest.raises(InputError, match="question 1 has choices and the right answer, expected the answer of a model"):
        open_questions(path, "answers")


def test_check_counts_what_is_wrong_with_questions(file):
    captions = {"1": "a dog", "2": "a cat", "3": "a bird"}
    rows = [
        {"id": "1", "question": "Who?", "choices": ["dog", "cat"], "answer": "bird"},
        {"id": "2", "question_id": "a", "question": "Is it?", "parents": ["b"]},
        {"id": "2", "question_id": "b", "question": "Is it?", "parents": ["a"]},
        {"id": "2", "question_id": "c", "question": "Is it?", "parents": ["z"]},
    ]
    found = check(captions, questions=file("q.jsonl", rows))
    assert [(one.level, one.message) for one in found.findings][-5:] == [
        ("note", "q.jsonl: 4 questions about 2 items"),
        ("warning", "q.jsonl: 1 item (id 3) without questions, and without a value"),
        ("error", "q.jsonl: 1 question (id 1) whose answer is none of the choices"),
        ("error", "q.jsonl: 2 questions (id 2) that depend on themselves"),
        ("warning", "q.jsonl: 1 question (id 2) with a parent that is not there"),
    ]
    other = check(captions, questions=file("other.jsonl", [{"id": "x9", "question": "Who?"}]))
    assert "no item has questions: captions have ids such as '1', questions such as 'x9'" in other.errors[0].message


def test_items_are_found_by_id_and_by_the_name_of_their_image(file):
    table = open_questions(file("q.jsonl", [{"id": "a", "question": "Who?"}]))
    captions = CaptionSet.of({"7": ["x", "y"]}, columns={"image": ["photos/a.jpg"]})
    assert table.find("a#1")[0] == table.find("7#0", captions.images[0])[0] == "a" and table.find("7") is None


@pytest.mark.shared_data
def test_the_checklists_of_capeval_are_read_whole(shared_data):
    table = open_questions(str(shared_data / "capeval300" / "questions.jsonl.gz"))
    categories = [one.categories[0] for own in table.questions.values() for one in own]
    assert len(table.questions) == 300 and len(categories) == 14_965
    assert categories.count("attribute") == 3_660 and categories.count("ui") == 584


@pytest.mark.shared_data
def test_the_events_of_dream_are_read_whole(shared_data):
    table = open_questions(str(shared_data / "dream1k" / "references.jsonl.gz"))
    numbers = [len(own) for own in table.questions.values()]
    assert len(numbers) == 1_000 and sum(numbers) == 6_298 and numbers.count(0) == 4


def test_an_empty_file_is_refused_by_its_role(tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    with pytest.raises(InputError, match=r"answers .*: is empty, expected a file of answers"):
        open_questions(str(path), "answers")


DREAM = {
    "idx": 7,
    "dataset": "DREAM/videvo",
    "text": {"prompt": "<video> Describe the video in detail.", "response": "A dog runs and barks."},
    "video_file": "<placeholder>",
    "extra_info": {"duration": 5.09, "n_shots": 2, "events": ["A dog runs.", "The dog barks."], "n_events": 2},
    "vid": 7,
}


def test_dream_1k_as_its_authors_wrote_it(tmp_path):
    """The layout of bytedance/tarsier, data/annotations/DREAM-1k.jsonl: events for AutoDQ, and references."""
    path = tmp_path / "DREAM-1k.jsonl"
    path.write_text(json.dumps(DREAM) + "\n" + json.dumps({**DREAM, "idx": 8, "extra_info": {"events": []}}) + "\n")
    table = open_questions(str(path))
    assert [one.text for one in table.questions["7"]] == ["A dog runs.", "The dog barks."]
    assert table.questions["8"] == ()
    seven, _ = captious.read({"7": "a dog", "8": "a cat"}, references=path)
    assert seven.references == ("A dog runs and barks.",)
    path.write_text(json.dumps({**DREAM, "extra_info": {}}) + "\n")
    with pytest.raises(InputError, match=r"row 1: no text.response with extra_info.events, expected both as DREAM-1K"):
        open_questions(str(path))


@pytest.mark.shared_data
def test_all_of_dream_1k_in_the_layout_of_its_authors(shared_data, tmp_path):
    """1,000 videos with 6,298 events, four of them without any, as the README of the data counts them."""
    with gzip.open(shared_data / "dream1k" / "references.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    authors = [
        {**DREAM, "idx": number, "text": {"response": row["reference"]}, "extra_info": {"events": row["events"]}}
        for number, row in enumerate(rows, 1)
    ]
    (tmp_path / "DREAM-1k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in authors))
    numbers = [len(own) for own in open_questions(str(tmp_path / "DREAM-1k.jsonl")).questions.values()]
    assert (len(numbers), sum(numbers), numbers.count(0)) == (1000, 6298, 4)
