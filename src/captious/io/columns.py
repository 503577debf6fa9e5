"""Names of columns, the same for every command: the first one that a row has is used, unless another is asked for."""

IMAGE_COLUMNS = ("image", "file_name", "filename", "image_path", "path")
"""The file of an image. Whatever its name in the file, a caption set calls it ``image``."""
AUDIO_COLUMN = "audio"
"""The file of a sound."""
AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac")
"""How the names of sound files end: a column of IMAGE_COLUMNS that holds such a name is called ``audio`` instead."""
AUDIO_ID_COLUMNS = ("youtube_id", "audio_id", "sound_id", "audiocap_id")
"""Ids of clips. An ``audiocap_id`` is that of one caption, so it comes last."""
ID_COLUMNS = (
    *("image_id", "id", "item_id", "item", "key", "uid", "sample_id", "__key__", "cocoid", "img_id"),
    *(*AUDIO_ID_COLUMNS, *IMAGE_COLUMNS, AUDIO_COLUMN, "url"),
)
CAPTION_LIST_COLUMNS = ("candidates", "captions", "predictions")
CANDIDATE_COLUMNS = (
    "candidate",
    "candidates",
    "caption",
    "captions",
    "prediction",
    "predictions",
    "hypothesis",
    "text",
    "caption_predicted",
)
CAPTION_COLUMNS = tuple(name for name in CANDIDATE_COLUMNS if name not in CAPTION_LIST_COLUMNS)
REFERENCE_COLUMNS = ("references", "reference", "refs", "ref", "sentences", "annotations_captions", "caption_str")
"""The last three are those of data sets on Hugging Face: Karpathy's splits, NoCaps, TextCaps."""
STYLE_COLUMN = "style"
OBJECT_COLUMN = "objects"
"""What is in the image: a list of objects, for metrics of hallucination."""
UNIT_COLUMNS = ("units",)
WRONG_UNIT_COLUMNS = ("wrong_units", "negative_units")

ITEM_COLUMNS = ("id", "item_id", "key")
"""The id of one rated caption."""
GROUP_COLUMNS = ("image", "image_id", "group", "item", *IMAGE_COLUMNS[1:])
"""What the rated captions of one image share."""
RATING_COLUMNS = ("ratings", "rating", "human", "human_score", "score", "scores")
SYSTEM_COLUMNS = ("system", "captioner", "model", "SYS")
PAIR_SYSTEM_COLUMNS = ("systems",)
"""Both systems of a pair of captions, as a list."""
RATER_COLUMNS = ("rater", "worker", "annotator")
