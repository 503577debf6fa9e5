"""The tables of Clotho, AudioCaps, DCASE and aac-metrics: ids, candidates, references and the sound's file."""

import pytest

import captious
from captious.errors import InputError
from captious.options import Reading

CLOTHO = """file_name,caption_1,caption_2,caption_3
Rain on roof.wav,rain falls on a roof,"it rains, hard",water drips
dog bark.wav,a dog barks,the dog barks twice,
"""


@pytest.fixture
def write(tmp_path):
    def written(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return written


def test_clotho_references_and_the_predictions_of_dcase(write):
    references = write("clotho.csv", CLOTHO)
    predictions = write("ours.csv", "file_name,caption_predicted\ndog bark.wav,a dog\nRain on roof.wav,rain\n")
    captions = captious.read(predictions, references=references)
    assert captions.ids == ("dog bark.wav", "Rain on roof.wav")
    assert captions["dog bark.wav"].candidates == ("a dog",)
    assert captions["dog bark.wav"].references == ("a dog barks", "the dog barks twice"), "an empty cell is none"
    assert captions["Rain on roof.wav"].references == ("rain falls on a roof", "it rains, hard", "water drips")
    assert captions.columns["audio"] == captions.ids and "image" not in captions.columns


def test_one_table_as_aac_metrics_writes_it(write):
    table = "caption_predicted,caption_1,caption_2,audio_id\na dog,a dog barks,dogs,7\nrain,it rains,rain falls,8\n"
    captions = captious.read(write("both.csv", table))
    assert captions.ids == ("7", "8") and captions["8"].references == ("it rains", "rain falls")
    assert captions["7"].candidates == ("a dog",) and not captions.columns.keys() & {"caption_1", "caption_2"}


AAC_METRICS = """caption_predicted,caption_1,caption_2,mult_captions_predicted_1,mult_captions_predicted_2
a dog,a dog barks,dogs,a dog,two dogs
,it rains,,rain,rain falls
"""


def test_the_tables_of_aac_metrics_have_no_ids_and_are_numbered(write):
    captions = captious.read(write("example.csv", AAC_METRICS))
    assert captions.ids == ("0", "1") and captions["0"].candidates == ("a dog",)
    assert captions["0"].references == ("a dog barks", "dogs")
    assert captions["1"].candidates == ("",) and captions["1"].references == ("it rains",)


def test_the_candidates_of_spider_max_are_named_by_what_their_columns_begin_with(write):
    several = Reading(candidate_column="mult_captions_predicted")
    captions = captious.read(write("example.csv", AAC_METRICS), reading=several)
    assert captions["0"].candidates == ("a dog", "two dogs") and captions["1"].candidates == ("rain", "rain falls")
    assert captions["1"].references == ("it rains",)


def test_a_column_goes_before_numbered_columns_that_begin_with_its_name(write):
    table = "id,caption_predicted,caption,caption_1\n7,a dog,the dog,dogs\n"
    captions = captious.read(write("both.csv", table), reading=Reading(references_column="caption"))
    assert captions["7"].references == ("the dog",)


def test_several_candidates_and_numbered_references(write):
    table = (
        "file_name,mult_captions_predicted_1,mult_captions_predicted_2,caption_reference_01,caption_reference_02\n"
        "a.flac,a dog,two dogs,a dog barks,dogs bark\n"
    )
    captions = captious.read(write("several.csv", table))
    assert captions["a.flac"].candidates == ("a dog", "two dogs")
    assert captions["a.flac"].references == ("a dog barks", "dogs bark") and captions.columns["audio"] == ("a.flac",)


def test_audiocaps_has_a_row_for_each_reference(write):
    references = write(
        "audiocaps.csv",
        "audiocap_id,youtube_id,start_time,caption\n1,xyz,30,a dog barks\n2,xyz,30,dogs bark\n3,uvw,0,it rains\n",
    )
    captions = captious.read(write("ours.csv", "youtube_id,caption\nuvw,rain\nxyz,a dog\n"), references=references)
    assert captions["xyz"].references == ("a dog barks", "dogs bark") and captions["uvw"].references == ("it rains",)


def test_a_named_column_is_a_caption_and_no_reference(write):
    captions = captious.read(write("clotho.csv", CLOTHO), reading=Reading(candidate_column="caption_1"))
    assert captions["dog bark.wav"].candidates == ("a dog barks",) and not captions["dog bark.wav"].references


def test_references_alone_are_no_captions(write):
    with pytest.raises(InputError, match="row 2: no candidate caption: found columns file_name, references"):
        captious.read(write("clotho.csv", CLOTHO))


def test_an_image_stays_an_image_beside_a_sound(write):
    captions = captious.read([{"id": 1, "caption": "a dog", "image": "a.jpg", "audio": "a.wav"}])
    assert captions.columns == {"image": ("a.jpg",), "audio": ("a.wav",)}
