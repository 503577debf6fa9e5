r"""A tokenizer with the output of the Stanford PTBTokenizer 3.4.1 as coco-caption calls it, without Java.

A rule is an action, the characters it may start with (``a`` a letter, ``0`` a digit, nothing: any) and a pattern. Group
1 of the pattern is the token; the rest of the match is context, which counts for the length but is not consumed. All
rules are tried at the start of a token: the longest match wins, and of equally long ones the first.

The patterns run over the *shadow* of a text, a string of the same length in which one character represents each class
of non-ASCII characters: ``ß`` and ``É`` letters, ``٠`` digits, the others as in ``CLASSES``, and ``\0`` characters that
are dropped.

The token classes and their order follow what is publicly known of the Stanford lexer; the word lists, characters and
the patterns were checked on the output of PTBTokenizer 3.4.1. Abbreviations were tried exhaustively up to four letters,
longer ones from a list of candidates.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

LETTER = "A-Za-zßÉ"
WORDISH = LETTER + "\u0301\xad"
DIGIT = "0-9٠"
APOSTROPHE = "(?:['’]|&(?i:apos);)"
TICK = "(?:['’`‘]|&(?i:apos);)"
SPACE = r"[ \t\xa0\u3000\n]"
NOT_URL = r' \t\n"<>|()'
NOT_EMAIL = NOT_URL + r"{}\xa0"


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _match_any(words: Iterable[str]) -> str:
    return "(?i:" + "|".join(words) + ")"


def _match_capitalized(words: Iterable[str]) -> str:
    return "|".join(f"{word[0].upper()}(?i:{word[1:]})" for word in words)


# Abbreviations that keep their period, which may also end the sentence.
PERIOD_KEPT = _split_words(
    "al ala apr ariz assn aug bancorp bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb "
    "fla fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn plc "
    "ppte pptes ppty pptys pte ptes pty ptys rd rt sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed "
    "wis wisc wyo"
)
PERIOD_KEPT_IF_CAPITALISED = _split_words("ark az del ill la mass miss ore pa tex wash")
# Abbreviations that keep their period, which never ends the sentence.
TITLES = _split_words(
    "adj adm adv alex assoc asst atty attys ave brig capt cf cie cmdr col comdr cpl dept det dr drs elec ens ft gen "
    "gov govs hon insp invt jos lieut lt maj messrs mfg mlle mme mr mrs ms msgr mt mtg natl pfc ph pres prof profs pvt "
    "rep reps rev sen sens sfc sgt spc st ste supt supts vs wm"
)
# Words that keep a period only before a number: `no. 5`.
BEFORE_NUMBER = _split_words("art ca fig figs no nos op pp prop")
# Words that show, capitalized after an initial or an acronym, that the period before them ended a sentence.
OPENERS = _split_words(
    r"a about according additionally after an as at but earlier he her here however if in it last many more mr\. ms\. "
    "now once one other our she since so some such that the their then there these they this we what when while yet you"
)
# Words that are two tokens, such as `cannot`.
FUSED = {
    left + right: (left, right)
    for left, right in (("can", "not"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("gim", "me"), ("wan", "na"))
}
FILE_ENDINGS = _split_words(
    "bat bmp c class cgi cpp dll doc docx exe gif gz h htm html jar java jpeg jpg mov mp3 pdf php pl png ppt ps py sql "
    "tar txt wav x xml zip"
)

ABBREVIATION = rf"(?:{_match_any(PERIOD_KEPT)}|(?i:ed|ph)\.D|{_match_capitalized(PERIOD_KEPT_IF_CAPITALISED)})"
ACRONYM = r"[A-Za-z](?:\.[A-Za-z])+"
CLITIC = f"{APOSTROPHE}(?i:[msd]|re|ve|ll)"
WORD = f"[{WORDISH}][{WORDISH}{DIGIT}]*(?:[.!?][{WORDISH}][{WORDISH}{DIGIT}]*)*"
NUMBER = f"(?:[{DIGIT}]*(?:[.:,\xad٫][{DIGIT}]+)+|[{DIGIT}]+)"
PART = f"(?:[dDoOlL]{TICK}[{LETTER}{DIGIT}])?[{LETTER}{DIGIT}]+"
THING = f"{PART}(?:[-_‐]{PART})*"
HYPHENATED = rf"[A-Za-z0-9][A-Za-z0-9.,\xad]*(?:-(?:{ACRONYM}\.|[A-Za-z0-9\xad]+))+"
COMPANY = "[A-Z]+(?:(?:&(?i:amp);|[+&])[A-Z]+)+"
SLASHED = "[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}"
LABEL = r"[a-z#%&*+~\0-\x08\x0e-\x1f\x7f-\uffff]"
URL_END = rf"[^{NOT_URL}{{}}.,!?-]"
PATH = f"(?:/[^{NOT_URL}]+{URL_END})?"
DOMAIN = rf"(?:[^{NOT_EMAIL}.]+\.)*[^{NOT_EMAIL}.]+"
EYE = "[-^x=~<>']"
GAP = r"[- \xa0]"
SUBSCRIBER = f"[0-9]{{3,4}}{GAP}?[0-9]{{3,5}}"
NAME = "[A-Za-z][A-Za-z0-9:._-]*"
TAG = (
    rf"""(?:</?{NAME}(?: +(?:{NAME}(?: *= *(?:'[^'\n]*'|"[^"\n]*"))?|/))* */?>"""
    r"|<[!?][A-Za-z-][^>\n]*>)"
)
SENTENCE_END = rf"{SPACE}(?:{SPACE}|[A-ZÉ]|{TAG})"
OPENS = rf"{SPACE}+(?:{_match_capitalized(OPENERS)}|{TAG}){SPACE}"

IN_WWW = rf"[^{NOT_URL}{{}}.,!?]+"
WWW = rf"(www\.(?:{IN_WWW}\.)+[A-Za-z]{{2,4}}{PATH})"
WEBSITE = rf"((?:{LABEL}+\.)+(?:com|edu|net|org){PATH})"
EMAIL = rf"((?:<|&lt;)?[A-Za-z0-9][^{NOT_EMAIL}]*@{DOMAIN}(?:>|&gt;)?)"
HYPHENATED_PERIOD = rf"((?:{WORD}|{THING}|{HYPHENATED}|{COMPANY})\.)[,;:]"
FILE_ENDING = rf"\.(?i:{'|'.join(FILE_ENDINGS)})"
FILE = rf"([{WORDISH}{DIGIT}]+(?:\.[{WORDISH}{DIGIT}]+)*{FILE_ENDING})[\s.!?,]"

RULES: list[tuple[str, str, str]] = [
    *(("asis", "a", f"((?i:{left}))(?i:{right})") for left, right in FUSED.values()),
    ("asis", "'", "('[tT])(?i:is|was)"),
    ("drop", " \t\xa0\u3000", "([ \t\xa0\u3000]+)"),
    ("tag", "<", f"({TAG})"),
    ("--", "&", "(&(?i:mdash|ndash|MD);)"),
    ("entity", "&", "(&(?i:amp|lt|gt);)"),
    ("drop", "&", "(&(?i:nbsp);)"),
    ("asis", "&", "(&(?:HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);)"),
    ("word", "a", f"({WORD}){CLITIC}"),
    ("word", "a", f"([A-Za-z\xad]*[A-MO-Za-mo-z]\xad*)[nN]{TICK}[tT]"),
    ("word", "a", f"({WORD})"),
    (
        "asis",
        "'a",
        rf"({APOSTROPHE}[nN]{APOSTROPHE}?|[lLdDjJ]{APOSTROPHE}|(?i:dunkin|somethin|ol){APOSTROPHE}|{APOSTROPHE}[2-9]0[sS]"
        rf"|{APOSTROPHE}(?i:em|till?|cause)|cont{APOSTROPHE}d\."
        rf"|(?i:nor{APOSTROPHE}easter|c{APOSTROPHE}mon|c{APOSTROPHE}est|[eo]{APOSTROPHE}er|s{APOSTROPHE}mores"
        rf"|ev{APOSTROPHE}ry|li{APOSTROPHE}l|nat{APOSTROPHE}l|cap{APOSTROPHE}n))",
    ),
    ("asis", "a", f"([oO]{TICK}[oO])"),
    ("asis", "a", f"([A-HJ-XZn]{TICK}[{LETTER}]{{2,}})"),
    ("asis", "a", f"([{LETTER}]+[aeiouyAEIOUY]{TICK}[aeiouA-Z][{LETTER}]*)"),
    ("asis", "a", f"([yY]{APOSTROPHE})[{LETTER}]"),
    ("asis", "a", rf"((?i:https?)://[^{NOT_URL}{{}}]+{URL_END})"),
    ("asis", "a", WWW),
    ("asis", "", WEBSITE),
    ("asis", "a0<&", EMAIL),
    ("asis", "@#", f"(@[a-zA-Z_][a-zA-Z_0-9]*|#[{WORDISH}]+)"),
    ("clitic", "'", f"({CLITIC})[^A-Za-z]"),
    ("clitic", "a", f"([nN]{TICK}[tT])[^A-Za-z]"),
    ("asis", "0", f"([{DIGIT}]{{1,2}}[-/][{DIGIT}]{{1,2}}[-/][{DIGIT}]{{2,4}})"),
    ("word", "0-+.:,\xad٫", f"([-+]?{NUMBER})"),
    ("spaced", "0", f"((?:[{DIGIT}]{{1,4}}[- \xa0])?[{DIGIT}]{{1,4}}(?:\\\\?/|⁄)[{DIGIT}]{{1,4}})"),
    ("asis", "²⁺", "(⁺?(?:²+|₂+))"),
    ("asis", "a", r"([cC]\+\+|[cCfF]#)"),
    ("asis", "a0", rf"({SLASHED}(?:\\?/{SLASHED}){{1,2}})"),
    ("asis", "a$#", r"([A-Z]*\$|#)"),
    ("ends", "a", rf"({ABBREVIATION}\.){SENTENCE_END}"),
    ("asis", "a", rf"({ABBREVIATION}\.)[\s\S][\s\S]"),
    ("ends", "a", rf"({ABBREVIATION}\.)"),
    ("asis", "a", rf"({_match_any(TITLES)}\.)"),
    ("asis", "a", rf"({_match_any(BEFORE_NUMBER)}\.){SPACE}?[{DIGIT}]"),
    ("ends", "a", rf"({ACRONYM}\.){OPENS}"),
    ("asis", "a", rf"({ACRONYM}\.)"),
    ("asis", "a", rf"([A-Za-z])\.{OPENS}"),
    ("asis", "a", r"([A-Za-z]\.)"),
    ("word", "a0", HYPHENATED_PERIOD),
    ("word", "a0", rf"((?:{WORD}|{THING}|{COMPANY})\.)[,;:]"),
    ("word", "a0", f"({THING})"),
    ("entity", "a", f"({COMPANY})"),
    ("word", "a0", f"({HYPHENATED})"),
    ("asis", "a0", FILE),
    ("asis", "-", "(-(?i:LRB|RRB|LCB|RCB|LSB|RSB)-)"),
    ("bracketed", "<>:;=", r"([<>]?[:;=][-o*']?[]()DOPdp3@[{|\\])[^A-Za-z0-9]"),
    ("bracketed", "a-^=~<>'(", rf"({EYE}_{EYE}|\({EYE}[._]?{EYE}\)|\({EYE}-{EYE}\))"),
    ("phone", "(", rf"(\([0-9]{{2,3}}\)[ \xa0]?{SUBSCRIBER})"),
    ("phone", "0+", rf"(\+{{0,2}}(?:[0-9]{{2,4}}{GAP}){{1,2}}{SUBSCRIBER})"),
    ("phone", "0+", r"((?:\+{0,2}[0-9]{2,4}\.)?[0-9]{2,4}\.[0-9]{3,4}\.[0-9]{3,5})"),
    ("``", '"&', '("|&quot;)[A-Za-z0-9$]'),
    ("''", '"&', '("|&quot;)'),
    ("`", "'", r"(')[A-Za-z][^ \t\n\xa0]"),
    ("clitic", "'", f"({CLITIC})"),
    ("asis", "'", "('')"),
    ("asis", "'", f"({APOSTROPHE}[0-9]{{2}}){SPACE}"),
    ("'", "'", "('|&apos;)"),
    ("asis", "&", "(&(?i:apos|quot);)"),
    ("quotes", "`‘’“”‹›„", "([`‘’“”‹›„]{1,2})"),
    ("...", ".…", r"(\.{3,5}|(?:\.[ \xa0]){2,4}\.|…)"),
    ("dash", "-–", "(--+|–)"),
    ("asis", "?!*\\@#_<>", r"([?!]+|\*+|(?:\\\*)+|@+|#+|_+|<<|>>)"),
    ("bracket", "()[]{}", r"([()\[\]{}])"),
    ("sign", "¢", "(¢)"),
    ("asis", "-.,;:/\\%&+=<>~^|©", r"([-.,;:/\\%&+=<>~^|©])"),
]

_HYPHEN_AHEAD = r"[A-Za-z0-9.,\xad]+-?", r"-[A-Za-z0-9\xad]"
# Patterns that may read far and then fail: the run that such a pattern reads, and the mark that must be in it. A run
# ends at the same position wherever in it a match starts, so a text is searched once for each, not at every token.
LOOKAHEAD: dict[str, tuple[str, str]] = {
    f"({TAG})": (r"[^>\n]+>?", ">"),
    WWW: (rf"{IN_WWW}(?:\.{IN_WWW})*", rf"\.{IN_WWW}\.[A-Za-z]{{2}}"),
    WEBSITE: (rf"{LABEL}+(?:\.{LABEL}+)*", r"\.(?:com|edu|net|org)"),
    EMAIL: (f"<?[^{NOT_EMAIL}]+", f"@[^{NOT_EMAIL}.]"),
    HYPHENATED_PERIOD: _HYPHEN_AHEAD,
    f"({HYPHENATED})": _HYPHEN_AHEAD,
    FILE: (rf"[{WORDISH}{DIGIT}]+(?:\.[{WORDISH}{DIGIT}]+)*", rf"{FILE_ENDING}[\s.!?,]"),
}

# The character that represents a class of characters in the patterns, and the code points of the class.
CLASSES = {
    "\u0301": "2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-36f 375 378-379 384-385 3f6 483-487 55a-55f 591-5bd 5bf 5c1-5c2 "
    "5c4-5c5 5c7 615-61a 64b-65e 670 6d6-6e4 6e7-6ed 6fd-6fe 70f 711 730-74c 7a6-7b0 7eb-7f3 900-903 93c "
    "93e-94e 951-955 962-963 981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 a01-a03 a3c a3e-a4f a81-a83 "
    "abc abe-acf b82 bbe-bc2 bc6-bc8 bca-bcd c01-c03 c3e-c56 d3e-d44 d46-d48 e31 e34-e3a e47-e4e eb1 "
    "eb4-ebc ec8-ecd",
    "©": "a1 a5-a9 ac ae-b1 b4 b6-b8 bf d7 f7 37e 387 589 5be 5c0 5c3 5c6 5f3-5f4 600-603 606-60c 614 61b "
    "61e-61f 66a 66d 6d4 700-70d 7f6-7f8 964-965 e3f e4f 1fbd 2016-2017 2020-2023 2030-2038 203b "
    "203e-2042 207c-207e 208c-208e 20a4 2100-2101 2103-2106 2108-2109 2114 2116-2118 211e-2123 2125 2127 "
    "2129 212e 213a-213b 2140-2144 214a-214d 214f 2155-215e 2190-2bff 3001-3002 3012 30fb ff01-ff0f "
    "ff1a-ff20 ff3b-ff40 ff5b-ff65 ffe0-ffe1 ffe5-ffe6",
    "\xad": "ad",
    "٫": "66b-66c",
    "⁄": "2044",
    "²": "b2-b3 b9 2070 2074-2079",
    "₂": "2080-2089",
    "⁺": "207a-207b 208a-208b",
    "¢": "80 a2-a4 bc-be 20a0 20ac 2153-2154",
    "–": "96-97 2013-2015",
    "‐": "58a 2010-2011",
    "‘": "91 2018 201b",
    "’": "92 2019",
    "“": "93 ab 201c",
    "”": "94 bb 201d",
    "„": "201a 201e-201f",
    "‹": "2039",
    "›": "203a",
    "…": "85 2026",
    "\xa0": "a0",
    "\u3000": "2000-200a 3000",
    "\n": "b-d 2028-2029",
}


# Tokens that coco-caption drops. Its list has brackets in upper case, so `-lrb-` is kept, there and here.
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])

# Characters that `str.split` splits at and this tokenizer may not: texts with one must not go through `str.split`.
ODD_SPACE = re.compile("[\x0b-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")

_SIGNS = {
    **dict.fromkeys("\x80¤₠€", "$"),
    "¢": "cents",
    "£": "#",
    "¼": "1/4",
    "½": "1/2",
    "¾": "3/4",
    "⅓": "1/3",
    "⅔": "2/3",
}
_BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_QUOTES = {
    **dict.fromkeys("‘\x91‛‹", "`"),
    **dict.fromkeys("’\x92›", "'"),
    **dict.fromkeys("“\x93«", "``"),
    **dict.fromkeys("”\x94»", "''"),
}


def _escape_brackets(token: str) -> str:
    return token.replace("(", "-lrb-").replace(")", "-rrb-")


def _replace_spaces(token: str) -> str:
    return token.replace(" ", "\xa0")


# Functions that write a lower-cased token, by the action of its rule; any other action is itself the token.
_WRITE: dict[str, Callable[[str], str]] = {
    "asis": str,
    "ends": str,
    "word": lambda token: token.replace("\xad", "") or "-",
    "clitic": lambda token: re.sub("[’\x92]|&apos;", "'", token),
    "tag": _replace_spaces,
    "spaced": _replace_spaces,
    "phone": lambda token: _escape_brackets(_replace_spaces(token)),
    "bracketed": _escape_brackets,
    "bracket": _BRACKETS.__getitem__,
    "dash": lambda token: "--" if len(token) < 5 else token,
    "entity": lambda token: token.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"),
    "quotes": lambda token: "".join(_QUOTES.get(mark, mark) for mark in token),
    "sign": _SIGNS.__getitem__,
    "drop": lambda token: "",
}


class _Shadow(dict[int, str]):
    """A ``str.translate`` table from a non-ASCII character to the one that represents its class in the rules."""

    def __missing__(self, code: int) -> str:
        category = unicodedata.category(chr(code)) if code < 0x10000 else ""
        self[code] = shadow = "ß" if category[:1] == "L" else "٠" if category == "Nd" else "\0"
        if category == "Lu":
            self[code] = shadow = "É"
        return shadow


def _build_shadow_table() -> _Shadow:
    table = _Shadow((code, chr(code)) for code in range(128))
    for shadow, codes in CLASSES.items():
        for part in codes.split():
            first, _, last = part.partition("-")
            table.update(dict.fromkeys(range(int(first, 16), int(last or first, 16) + 1), shadow))
    return table


class _Rule(NamedTuple):
    action: str
    pattern: re.Pattern[str]
    lookahead: tuple[str, str] | None


class _RulesAt(dict[str, list[_Rule]]):
    """The rules that can match at a given character of a shadow, compiled when it first occurs."""

    def __missing__(self, character: str) -> list[_Rule]:
        starts = {"a" if character.isalpha() else "0" if character.isdecimal() else character}
        if character in "\u0301\xad":
            starts = {"a", character}
        elif character in "’&":
            starts = {"'", character}
        self[character] = rules = [
            _Rule(action, re.compile(pattern), LOOKAHEAD.get(pattern))
            for action, first, pattern in RULES
            if not first or not starts.isdisjoint(first)
        ]
        return rules


class _Lookahead:
    """A filter of rules: whether the mark of a rule is in the run that starts at a position; positions only grow.

    Every stretch of the text is searched once per rule, so that a long text without a space takes linear time.
    """

    def __init__(self, shadow: str) -> None:
        self.shadow = shadow
        self.runs: dict[tuple[str, str], tuple[int, int]] = {}

    def can_match(self, lookahead: tuple[str, str], at: int) -> bool:
        """Return False only if the rule cannot match at this position."""
        end, mark = self.runs.get(lookahead, (0, -1))
        if at >= end:
            run = re.compile(lookahead[0]).match(self.shadow, at)
            end = run.end() if run else at
        if at > mark:
            match = re.compile(lookahead[1]).search(self.shadow, at)
            mark = match.start() if match else len(self.shadow)
        self.runs[lookahead] = end, mark
        return mark < end


# Texts longer than this get a lookahead; for a caption it costs more than it saves.
_LONG = 2000
_SHADOW = _build_shadow_table()
_RULES_AT = _RulesAt()
_FUSED = FUSED
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z]+(?: +(?![ \t\xa0\u3000])|\Z))+").match
_PLAIN_END = re.compile(r"([A-Za-z]{2,})([.,;:?!])(?= [^.]| ?\Z)").match
_MARKS = frozenset(".,;:?!")
_WITH_PERIOD = frozenset(
    [
        *PERIOD_KEPT,
        *PERIOD_KEPT_IF_CAPITALISED,
        *TITLES,
        *BEFORE_NUMBER,
    ]
)


def split(text: str, following: str = "") -> list[str]:
    """Split a text into lower-cased tokens, including punctuation.

    The original reads all captions as one stream and looks past the end of a line: the period of ``plan B.`` is a
    separate token if the next caption starts with *The*. Pass the next caption as ``following`` to reproduce the tokens
    of such a stream; by default a caption is read on its own.

    >>> split("A dog's ball (red) isn't there.")
    ['a', 'dog', "'s", 'ball', '-lrb-', 'red', '-rrb-', 'is', "n't", 'there', '.']
    >>> split("This is plan B."), split("This is plan B.", "The end.")
    (['this', 'is', 'plan', 'b.'], ['this', 'is', 'plan', 'b', '.'])
    """
    text = text.replace("\n", " ")
    end = len(text)
    shadow = f"{text}\n{following}\n" if following else f"{text}\n"
    if not (text.isprintable() and shadow.isascii()):
        shadow = shadow.translate(_SHADOW)
    tokens: list[str] = []
    ahead = _Lookahead(shadow) if len(shadow) > _LONG else None
    at = 0
    # Most of a caption is plain words, which one pattern reads at once; the rules are tried only at the rest.
    while at < end:
        plain = _PLAIN_WORDS(shadow, at, end)
        if plain:
            words = plain.group().lower().split()
            if _FUSED.keys().isdisjoint(words):
                tokens += words
            else:
                tokens += [part for word in words for part in _FUSED.get(word, (word,))]
            at = plain.end()
        last = _PLAIN_END(shadow, at, end)
        if last:
            word, mark = last[1].lower(), last[2]
            if word not in _FUSED and (mark != "." or word not in _WITH_PERIOD):
                tokens += (word, mark)
                at = last.end()
                continue
        if at < end:
            at = _take_token(text, shadow, at, tokens, ahead)
    return tokens


def _take_token(text: str, shadow: str, at: int, tokens: list[str], ahead: _Lookahead | None) -> int:
    """Append the token that starts at a position, if there is one, and return the next position."""
    furthest = at
    for action, pattern, lookahead in _RULES_AT[shadow[at]]:
        if ahead and lookahead and not ahead.can_match(lookahead, at):
            continue
        match = pattern.match(shadow, at)
        if match and match.end() > furthest:
            furthest, stop, best = match.end(), match.end(1), action
    if furthest == at:
        return at + 1
    token = text[at:stop].lower()
    token = _WRITE[best](token) if best in _WRITE else best
    if token:
        tokens.append(token)
    # The period of an abbreviation that ends a sentence is read twice: with the abbreviation and on its own.
    return stop - (best == "ends")


def find_plain_word(text: str) -> str | None:
    """Return the token of a plain word, with or without one trailing mark that is always dropped; None for all else.

    >>> find_plain_word("Dogs,"), find_plain_word("cannot"), find_plain_word("no.")
    ('dogs', None, None)
    """
    if text.isalpha():
        body = text
    elif len(text) > 2 and text[-1] in _MARKS and text[:-1].isalpha():
        body = text[:-1]
    else:
        return None
    word = body.lower()
    if not word.isascii() or word in _FUSED or (text[-1] == "." and word in _WITH_PERIOD):
        return None
    return word


def tokenize(text: str, following: str = "") -> list[str]:
    """Split a caption into the tokens that coco-caption's metrics see: lower-cased, without its list of punctuation.

    >>> tokenize('A man (left) says: "hi!"')
    ['a', 'man', '-lrb-', 'left', '-rrb-', 'says', 'hi']
    """
    if (word := find_plain_word(text)) is not None:
        return [word]
    return [token for token in split(text, following) if token not in PUNCTUATION]


_REACHES_OUT = re.compile(
    r"\s|<|&.|.&"  # odd spaces, tags, entities
    r"|\d{3}|\d\\?[/⁄]"  # a telephone number or a fraction, which may go on behind a space
    r"|^\.+[^.]"  # the end of a spaced ellipsis
    r"|(?<![A-Za-z])(?:[A-Za-z]|(?i:" + "|".join(BEFORE_NUMBER) + r"))\.\Z"  # C. The, no. 5
    r"|['’\x92`‘\x91‛][A-Za-z0-9]*\.\Z|[A-Z]\+[A-Z]|www\.|\.(?:com|edu|net|org)"  # the same behind a token: '90sC. The
).search
_ACRONYM = re.compile(r'["(]*(?:[A-Za-z]\.){2,}\Z').match


def is_local(chunk: str) -> bool:
    """Return True if the tokens of a chunk between spaces never depend on the chunks around it; False in doubt.

    The tokens are those of ``tokenize``; a chunk that contains a tab or another odd space is not local.

    >>> [is_local(chunk) for chunk in ("dog's", "end.", "p.m.", "1/2", "no.", "<b")]
    [True, True, True, False, False, False]
    """
    return chunk.isalpha() or not _REACHES_OUT(chunk) or bool(_ACRONYM(chunk))
