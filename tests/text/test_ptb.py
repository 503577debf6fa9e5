"""The PTB tokenizer against tokens printed by the original, and its chunk path against itself."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captious.text.ptb import ODD_SPACE, PUNCTUATION, is_local, split, tokenize

# Tokens printed by the Stanford PTBTokenizer 3.4.1 jar of pycocoevalcap 1.2 with -preserveLines -lowerCase.
GOLDEN = """
The grey color of the harbour's theatre isn't great. | the grey color of the harbour 's theatre is n't great .
don't DON'T can't cannot gonna lemme. | do n't do n't ca n't can not gon na lem me .
it's its' dogs' the 90's he'd've o'clock y'all ma'am | it 's its ' dogs ' the 90 's he 'd 've o'clock y' all ma'am
'hello' `hello' ``hello'' "hello" | ` hello ' ` hello ' `` hello '' `` hello ''
“hello” ‘hello’ it’s don’t rock ’n’ roll ’90s “‘a’” | `` hello '' ` hello ' it 's do n't rock ’n’ roll ’90s ``` a '''
'05 '50x '90s '90s-style the number '80' | '05 ' 50x '90s '90s - style the number ' 80 '
'tis 'twas 'em 'til 'cause 'bout | 't is 't was 'em 'til 'cause ` bout
wait... .. .... . . . a...b a..b | wait ... . . ... ... a. . . b a. . b
-- --- ----- - a--b a-b- -a | -- -- ----- - a -- b a-b - - a
!! ?! a!b yes! yes?! hm!!1 | !! ?! a!b yes ! yes ?! hm !! 1
[a] {b} (c) <d> a<b | -lsb- a -rsb- -lcb- b -rcb- -lrb- c -rrb- <d> a < b
AT&T R&B a&b &amp; &quot;hi&quot; it&apos;s &lt;b&gt; | at&t r&b a & b & `` hi '' it 's < b >
$5.00 US$5 #1 #tag @user a@b.com 50% 5th 5' | $ 5.00 us$ 5 # 1 #tag @user a@b.com 50 % 5th 5 '
http://foo.com/bar. www.foo.com foo.org/x a-b.com | http://foo.com/bar . www.foo.com foo.org / x a-b . com
3:30pm 3p.m. 1,000 .5 -5 1.5.2 1/2 12/25/2014 | 3:30 pm 3p . m. 1,000 .5 -5 1.5.2 1/2 12/25/2014
2.5-inch 1/2-inch a-b.c non-U.S. 10,000-seat and/or | 2.5-inch 1/2-inch a-b . c non-u.s. 10,000-seat and/or
a/b/c/d 1-800-555-1234 | a/b/c / d 1-800-555-1234
:) :-) :o) ;D <3 :Dx ^_^ (^_^) | :-rrb- :--rrb- :o-rrb- ;d < 3 : dx ^_^ -lrb-^_^-rrb-
U.S. Army at 5 p.m. The etc. x Mr. T. Inc. | u.s. army at 5 p.m. . the etc. x mr. t. inc. .
vitamin C. The man with vitamin C. the man | vitamin c . the man with vitamin c. the man
No. 5 no.5 no. Five fig. 3 vs. them the road., kitchen.; | no. 5 no. 5 no . five fig. 3 vs. them the road. , kitchen. ;
word.Word word,word 3.word word.3 3.jpg a-b.jpg | word.word word , word 3 . word word .3 3.jpg a-b . jpg
*star* a*b _ a_b 1_2 C++ c# .net \\ a\\b | * star * a * b _ a_b 1_2 c++ c# . net \\ a \\ b
café naïve ½ cup £5 €5 5¢ a–b a—b 5°C x² 中文 | café naïve 1/2 cup # 5 $ 5 5 cents a -- b a -- b 5 ° c x ² 中文
"""

# The same source; an inner space of a fraction, a phone number or a tag is printed as a no-break space.
GOLDEN_SPACED = {
    "1 3/4 cups": ["1\xa03/4", "cups"],
    "call (555) 555-1234 now": ["call", "-lrb-555-rrb-\xa0555-1234", "now"],
    "20 3000 4000": ["20\xa03000\xa04000"],
    "<b c> x": ["<b\xa0c>", "x"],
    "so\xadft-ball": ["soft-ball"],
    "a\x01b \U0001f642 c": ["a", "b", "c"],
    "\ta\tb\xa0c ": ["a", "b", "c"],
    "": [],
    " ": [],
}


@pytest.mark.parametrize("line", GOLDEN.strip().replace("\\\\", "\\").split("\n"))
def test_golden(line: str) -> None:
    text, _, tokens = line.rpartition(" | ")
    assert split(text) == tokens.split(" ")


@pytest.mark.parametrize("text", GOLDEN_SPACED)
def test_golden_spaced(text: str) -> None:
    assert split(text) == GOLDEN_SPACED[text]


def test_tokenize_drops_what_coco_caption_drops_and_keeps_brackets() -> None:
    assert tokenize("A (red) dog, \"good\": 'yes'! Is it? -- No; ... {x} ?!") == [
        *["a", "-lrb-", "red", "-rrb-", "dog", "good", "yes", "is", "it", "no", "-lcb-", "x", "-rcb-", "?!"]
    ]


def test_400_kilobytes_without_a_space_are_read_in_linear_time() -> None:
    """This took minutes: rules that read to the end of the text and fail there did so at every token."""
    units = ("a,b", "a'", "~", "1/", "#a", "a&b", "don't", "\\www.", "<!a", "1a.", "x@.", "a..com", "日", "ab-")
    text = "".join(unit * (400_000 // len(units) // len(unit)) for unit in units)
    tokens = split(text)
    assert len(text) > 399_000 and tokens[:8_000] == split("a,b" * 4_000)[:8_000]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*"adnLA19 .,-@&'<>/:!?+#~_é\xad", "www.", ".com", ".jpg", "&lt;", "<!a", "The "])))
def test_looking_ahead_changes_no_token(parts: list[str]) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("captious.text.ptb._LONG", 0)
        ahead = split(text)
    assert ahead == split(text)


def test_newline_is_a_space() -> None:
    assert split("1\n1/2\ncups\n") == split("1 1/2 cups")


def test_following_caption_decides_the_period_of_an_initial() -> None:
    assert tokenize("the new Wii U.") == ["the", "new", "wii", "u."]
    assert tokenize("the new Wii U.", "A man") == ["the", "new", "wii", "u"]
    assert tokenize("the new Wii U.", "a man") == ["the", "new", "wii", "u."]
    assert tokenize("he says no.", "5 men") == ["he", "says", "no."]


def words(text: str) -> list[str]:
    return text.split(" ")


LOCAL = words(
    "dog dog, dog. dogs' dog's isn't black-and-white (red) 5 12 5th p.m. mr. etc. . ... - & \"hi\" “hi” café :)"
)
NOT_LOCAL = words("no. fig. C. (C. 1/2 3/4-inch 100 2012 555-1234 <b> a<b &amp; R&B .5 .a 3p.m. 's.t. C.\t a\xa0b")


def test_local_chunks() -> None:
    assert [chunk for chunk in LOCAL if not is_local(chunk)] == []
    assert [chunk for chunk in NOT_LOCAL if is_local(chunk)] == []


CHUNKS = [
    *[chunk for line in GOLDEN.split("\n") for chunk in line.rpartition(" | ")[0].split(" ") if chunk],
    *LOCAL,
    *NOT_LOCAL,
    *words(
        "A The an and Mr. Inc. U.S. b. 1 2 12 34 345 6789 1-2 +1 (12) (555) . .. ... , x. J.K. ' 's <a b> b=\"c\"> 1. ."
    ),
]


@settings(max_examples=3000, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(CHUNKS), st.text(max_size=6)), max_size=8))
def test_a_caption_of_local_chunks_is_the_sum_of_its_chunks(chunks: list[str]) -> None:
    caption = " ".join(chunks)
    at_spaces = caption.split(" ")
    if all(map(is_local, at_spaces)):
        assert tokenize(caption) == [token for chunk in at_spaces for token in tokenize(chunk)]
    if not ODD_SPACE.search(caption) and all(map(is_local, caption.split())):
        assert tokenize(caption) == [token for chunk in caption.split() for token in tokenize(chunk)]


@given(st.text())
def test_any_text_gives_lower_case_tokens_without_spaces(text: str) -> None:
    for token in split(text):
        assert token
        assert " " not in token
        assert token == token.lower()


@pytest.fixture(scope="session")
def jar() -> Path:
    if shutil.which("java") is None:
        pytest.skip("java is not on the PATH")
    found = importlib.util.find_spec("pycocoevalcap")
    if found is None or not found.submodule_search_locations:
        pytest.skip("pycocoevalcap, which brings the Stanford jar, is not installed")
    return Path(next(iter(found.submodule_search_locations)), "tokenizer", "stanford-corenlp-3.4.1.jar")


def original(jar: Path, captions: list[str], folder: Path) -> list[list[str]]:
    """The tokens the jar prints for each caption, in one run, as pycocoevalcap calls it."""
    source = folder / "captions.txt"
    source.write_text("".join(f"{caption}\n" for caption in captions), encoding="utf-8", newline="\n")
    command = ["java", "-Dfile.encoding=UTF-8", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
    run = subprocess.run([*command, "-preserveLines", "-lowerCase", str(source)], capture_output=True, check=True)
    lines = run.stdout.decode().split("\n")
    assert len(lines) == len(captions) + 1, "a caption was printed on several lines"
    return [[token for token in line.rstrip(" ").split(" ") if token] for line in lines[:-1]]


PIECES = [
    *"\"'`()[]{}<>.,;:!?-_/\\|@#$%^&*+=~",
    *words(
        "... -- — – ’ ‘ “ ” … « » 1 12 123 1234 5 1/2 ½ ² ° £ € ¢ é É ü 中 🙂 http://a.com/b www.x.org a@b.com @me #tag"
    ),
    *words(
        "Mr. U.S. p.m. etc. no. J. a. &amp; &lt; &quot; &apos; & <b> </b> <br/> 's n't 'll s t A The B x cannot gonna"
    ),
    *words(
        "'tis o'clock O'Neil :) :-( (555) 555-1234 a-b A&B a/b and dog dogs C++ .com .jpg 10:30 3pm 1,000 .5 50% '90s"
    ),
    *["'n'", "ma'am", "\xad", "\u0301", "Inc.", "Co", "St.", ". . .", " ", " ", " ", "\t", "\xa0", "\u3000", "\x01"],
]


def tricky(count: int, seed: int) -> list[str]:
    """Captions made of pieces glued together with and without spaces."""
    choose = random.Random(seed)
    chunks = lambda: "".join(choose.choices(PIECES, k=choose.randint(1, 4)))  # noqa: E731
    return [" ".join(chunks() for _ in range(choose.randint(1, 5))) for _ in range(count)]


@pytest.mark.java
def test_parity_on_tricky_captions(jar: Path, tmp_path: Path) -> None:
    captions = tricky(6000, seed=0)
    following = [*captions[1:], ""]
    expected = original(jar, captions, tmp_path)
    ours = [split(caption, after) for caption, after in zip(captions, following, strict=True)]
    assert [
        (caption, got, want) for caption, got, want in zip(captions, ours, expected, strict=True) if got != want
    ] == []


# File: captions in it, and how many have other tokens when read alone than in the original's stream of captions. Each
# of those ends in an initial or a "no." that the next caption decides about; with that caption given there are none.
FILES = {
    "coco/val2014.jsonl.gz": (202_654, 4),
    "coco/karpathy_test.jsonl": (25_010, 1),
    "flickr8k/captions.jsonl": (40_460, 0),
    "flickr8k/expert.jsonl": (5_822, 0),
    "pascal50s/pairs.jsonl": (28_000, 0),
    "umic/capeval1k.jsonl": (1_000, 0),
    "style/flickrstyle.jsonl": (14_000, 0),
    "iiw400/descriptions.jsonl": (900, 0),
    "lic/age.jsonl.gz": (63_342, 1),
    "lic/gender/nic_equalizer.jsonl.gz": (10_780, 0),
    "lic/gender/nic_plus.jsonl.gz": (10_780, 0),
    "lic/gender/oscar.jsonl.gz": (10_780, 0),
    "lic/gender/sat.jsonl.gz": (10_780, 0),
    "lic/race/oscar.jsonl.gz": (10_969, 0),
    "lic/race/sat.jsonl.gz": (10_969, 0),
}
LABELS = {"id", "image", "label", "style", "caption_of", "category"}


def strings(value: Any) -> Iterator[str]:
    """Every caption in a row: its strings, labels and ids aside."""
    if isinstance(value, str):
        yield value.replace("\n", " ")
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in LABELS:
                yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


@pytest.mark.java
@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_parity_on_shared_data(jar: Path, shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / name
    if not path.exists():
        pytest.skip(f"no {name} in {shared_data}")
    with gzip.open(path, "rt", encoding="utf-8") if name.endswith(".gz") else path.open(encoding="utf-8") as file:
        captions = [caption for line in file for caption in strings(json.loads(line))]
    following = [*captions[1:], ""]
    expected = original(jar, captions, tmp_path)
    in_stream = sum(
        split(caption, after) != want for caption, after, want in zip(captions, following, expected, strict=True)
    )
    alone = sum(
        tokenize(caption) != [token for token in want if token not in PUNCTUATION]
        for caption, want in zip(captions, expected, strict=True)
    )
    assert (len(captions), alone, in_stream) == (*FILES[name], 0)
