"""Names of columns, the same for every command: the first one that a row has is used, unless another is asked for."""

IMAGE_COLUMNS = ("image", "file_name", "filename", "image_path", "path")
"""The file of an image. Whatever its name in the file, a caption set calls it ``image``."""
ID_COLUMNS = ("image_id", "id", "item_id", "item", "key", "uid", "sample_id", "__key__", *IMAGE_COLUMNS, "url")
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
)
CAPTION_COLUMNS = tuple(name for name in CANDIDATE_COLUMNS if name not in CAPTION_LIST_COLUMNS)
REFERENCE_COLUMNS = ("references", "reference", "refs", "ref")
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
