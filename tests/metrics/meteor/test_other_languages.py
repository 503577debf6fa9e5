"""METEOR in other languages equals the Java original without its paraphrase tables."""

import gzip
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import captious
from captious import InputError, Reading, Resampling
from captious.captions import CaptionSet
from captious.errors import MissingExtra
from captious.metrics.meteor import _stem, resources
from captious.metrics.registry import parse
from captious.text.ngram_tables import TextTable

pytest.importorskip("snowballstemmer", reason="pip install 'captious[meteor]'")
pytestmark = pytest.mark.skipif(resources._find_package() is None, reason="METEOR's jar comes with pycocoevalcap")

# Language, function words, candidate, references, counts and score, recorded from meteor-1.5.jar of pycocoevalcap 1.2:
#   java -jar meteor-1.5.jar - - -stdio -l fr -norm -m "exact stem", a line SCORE and with its result a line EVAL.
# For Czech, cz there, with -m exact; for function words of the language with -s and its list from the jar.
GOLDEN = [
    (
        "fr",
        "english",
        "l'homme s'assied devant une maison , c.-à-d. no. 5",
        ["un homme est assis devant sa maison", "les hommes s'asseyaient devant les maisons d'aujourd'hui"],
        "13 7 3 0 3 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 3 3",
        0.16082474226804125,
    ),
    (
        "fr",
        "own",
        "l'homme s'assied devant une maison , c.-à-d. no. 5",
        ["un homme est assis devant sa maison", "les hommes s'asseyaient devant les maisons d'aujourd'hui"],
        "13 7 5 3 3 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 3 3",
        0.19597989949748745,
    ),
    (
        "es",
        "english",
        "dos perros corrían por la playa , nº. 3",
        ["el perro corre en una playa", "unos perros corriendo por las playas de la ciudad"],
        "11 9 2 0 3 3 0 0 2 2 0 0 0 0 0 0 0 0 0 0 3 5 5",
        0.3723241703964196,
    ),
    (
        "es",
        "own",
        "dos perros corrían por la playa , nº. 3",
        ["el perro corre en una playa", "unos perros corriendo por las playas de la ciudad"],
        "11 6 5 3 1 1 0 0 2 2 0 0 0 0 0 0 0 0 0 0 2 3 3",
        0.3683607716872063,
    ),
    (
        "de",
        "english",
        "zwei hunde laufen über die wiesen , z.b. bei nr. 7",
        ["ein hund läuft über eine wiese", "hunde liefen z.b. über die grünen wiesen"],
        "12 7 2 0 5 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4 5 5",
        0.38717787554996846,
    ),
    (
        "de",
        "own",
        "zwei hunde laufen über die wiesen , z.b. bei nr. 7",
        ["ein hund läuft über eine wiese", "hunde liefen z.b. über die grünen wiesen"],
        "12 7 5 2 3 3 2 2 0 0 0 0 0 0 0 0 0 0 0 0 4 5 5",
        0.3785288270377733,
    ),
    (
        "ru",
        "english",
        "две собаки бегут по зелёной траве у дома",
        ["собака бежала по траве", "собаки бегают по зелёным полям у домов"],
        "8 7 0 0 3 3 0 0 2 2 0 0 0 0 0 0 0 0 0 0 3 5 5",
        0.36282421736028275,
    ),
    (
        "ru",
        "own",
        "две собаки бегут по зелёной траве у дома",
        ["собака бежала по траве", "собаки бегают по зелёным полям у домов"],
        "8 7 2 2 1 1 2 2 2 2 0 0 0 0 0 0 0 0 0 0 3 5 5",
        0.36282421736028275,
    ),
    (
        "cs",
        "english",
        "dva psi běží po zelené louce u domu",
        ["pes běží po louce", "psi běhají po zelené trávě u domu"],
        "8 7 0 0 5 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 3 5 5",
        0.32501541073158824,
    ),
    (
        "cs",
        "own",
        "dva psi běží po zelené louce u domu",
        ["pes běží po louce", "psi běhají po zelené trávě u domu"],
        "8 4 2 1 2 2 1 1 0 0 0 0 0 0 0 0 0 0 0 0 2 3 3",
        0.2945507163368989,
    ),
]


@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_counts_and_scores_equal_the_originals(number):
    language, words, candidate, references, counts, score = GOLDEN[number]
    metric = parse(f"meteor(language={language},function_words={words},tokenizer=whitespace)")
    measured = metric.measure(CaptionSet.of({"1": candidate}, {"1": references}))
    assert np.asarray(measured.rows)[0].astype(int).tolist() == list(map(int, counts.split()))
    assert measured.corpus == pytest.approx(score, abs=1e-12)


def test_the_signature_says_what_counts():
    captions = CaptionSet.of({"1": "un chien"}, {"1": ["le chien"]})
    text = str(parse("meteor(language=fr)").measure(captions).signature)
    assert text.startswith(
        "meteor(language=fr)|tok:ptb.1|version:1.5|lang:fr|norm:yes|modules:exact+stem|weights:1.0/0.2|"
    )
    assert "|abgd:0.9/1.4/0.6/0.65|" in text and "|stemmer:snowballstemmer-2" in text
    czech = str(parse("meteor(language=cs)").measure(captions).signature)
    assert "|modules:exact|weights:1.0|" in czech and "stemmer" not in czech
    assert parse("meteor(language=fr)").label == "METEOR (fr, without paraphrases)"


def test_a_run_in_french_is_told_how_to_write_it():
    captions = captious.read(["un chien court"], references=[["le chien court"]], reading=Reading(language="fr"))
    with pytest.raises(
        InputError, match=r"^meteor knows English only, .* French \(language='fr'\); write meteor\(language=fr\)$"
    ):
        captious.evaluate(captions, "meteor", resampling=Resampling(0))
    assert captious.evaluate(captions, "meteor(language=fr)", resampling=Resampling(0)).measurements
    with pytest.raises(InputError, match=r"^meteor\(language=fr\) knows French only, the captions are in Chinese"):
        captious.evaluate(replace(captions, language="zh"), "meteor(language=fr)", resampling=Resampling(0))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("meteor(language=zh)", r"expected one of en, cs, de, es, fr, ru"),
        ("meteor(language=fr,task=hter)", r"meteor\(language=fr,task=hter\): this tuning is for English only"),
        ("meteor(function_words=none)", r"expected one of english, own"),
    ],
)
def test_what_the_original_does_not_have_is_refused(written, expected):
    with pytest.raises(InputError, match=expected):
        parse(written)


def test_a_missing_stemmer_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    _stem.load_snowball.cache_clear()
    with pytest.raises(MissingExtra, match=r"this needs snowballstemmer, .*captious\[meteor\]"):
        parse("meteor(language=de)").measure(CaptionSet.of({"1": "ein hund"}, {"1": ["hunde"]}))


@pytest.mark.java
@pytest.mark.shared_data
def test_french_captions_equal_the_original(shared_data):
    if shutil.which("java") is None:
        pytest.skip("no java to run the original with")
    with gzip.open(shared_data / "multilingual" / "fr.jsonl.gz", "rt", encoding="utf-8") as lines:
        captions = captious.read([json.loads(line) for line in lines][:200])
    table, lines = TextTable.of(captions), []
    for first, end in zip(table.first_caption[:-1], table.first_caption[1:], strict=True):
        texts = [" ".join(table.words(caption)) for caption in (*range(first + 1, end), first)]
        lines.append(" ||| ".join(["SCORE", *texts]))
    command = ["java", "-Dfile.encoding=UTF-8", "-jar", str(resources._find_package().entries), "-", "-", "-stdio"]
    command += ["-l", "fr", "-norm", "-m", "exact stem"]
    printed = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
    theirs = [list(map(float, line.split())) for line in printed.splitlines()]
    assert np.asarray(parse("meteor(language=fr)").measure(captions).rows).tolist() == theirs
