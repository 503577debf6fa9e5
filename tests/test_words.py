"""Comments and docstrings use the words of CONTRIBUTING, not those of its column "not"."""

import io
import re
import tokenize
from pathlib import Path

import captious

SOURCES = Path(captious.__file__).parent
DIALECT = (
    r"lacks|lack|whoever|tell apart|told apart|stands in|lies in|is said|so many|in any case|mends?|mended|"
    r"gone on with|go on with|nobody in particular|rooms?|doors?|house|wings?"
)
# A word that a file may use, and why.
ALLOWED = {
    ("metrics/judges/fleur.py", "so many"): "a consequence: models use few numbers, so many captions tie",
    ("metrics/judges/clair.py", "in any case"): "whatever the server can",
    ("metrics/judges/autodq.py", "in any case"): "whatever the server can",
    ("metrics/judges/_question_metric.py", "in any case"): "whatever the server can",
    ("syntax/scenegraph.py", "house"): "a caption",
    ("_demo.py", "room"): "a caption",
    ("train/_packing.py", "room"): "the name of a parameter",
}


def words_of(path):
    """Yield the text of comments and of strings in triple quotes, with the line on which they begin."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("rR").startswith('"""')
        if token.type == tokenize.COMMENT or is_docstring:
            yield token.start[0], token.string


def test_comments_and_docstrings_have_no_dialect():
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        for line, text in words_of(path):
            for match in re.finditer(rf"\b(?:{DIALECT})\b", " ".join(text.split()), re.IGNORECASE):
                if (name, match[0].lower()) not in ALLOWED:
                    found.append(f"{name}:{line}: {match[0]}")
    assert found == [], "see the table of words in CONTRIBUTING.md"


def test_every_exception_is_used():
    for name, word in ALLOWED:
        texts = [text for _, text in words_of(SOURCES / name)]
        assert any(re.search(rf"\b{word}\b", text, re.IGNORECASE) for text in texts), (name, word)


MESSAGE_DIALECT = (
    r"holds|lacks|told apart|tell apart|go on with|gone on with|comes out|whoever|mended|stands in|lies in"
)
# A word that messages of a file may have, and why.
ALLOWED_IN_MESSAGES = {
    ("edits/_words.py", "holds"): "a list of verbs",
}


def messages_of(path):
    """Yield the parts of strings that are sentences, such as messages and help: those with a space, no docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        is_string = tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE")
        if is_string and '"""' not in token.string and " " in token.string:
            yield token.start[0], token.string


def test_messages_have_no_dialect():
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).as_posix()
        for line, text in messages_of(path):
            for match in re.finditer(rf"\b(?:{MESSAGE_DIALECT})\b", text, re.IGNORECASE):
                if (name, match[0].lower()) not in ALLOWED_IN_MESSAGES:
                    found.append(f"{name}:{line}: {match[0]}: {text[:60]}")
    assert found == [], "see the table of words in CONTRIBUTING.md"
