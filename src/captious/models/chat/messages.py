"""Requests to a chat model and its replies as values, with their JSON form."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from captious.captions import ImageData, ImageSource
from captious.io.images import decode_image, read_image

# Image formats that servers decode, with their first bytes; others are converted to PNG.
AS_THEY_ARE = {"image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n", "image/gif": b"GIF8"}


# Average characters per token of English.
CHARACTERS = 4
# Estimated tokens of an image: GPT-4o needs 765 for 1024 × 1024 pixels, LLaVA-1.5 576.
IMAGE_TOKENS = 765
# Distance between the seeds of a question and of its repetition: samples and further tries use the seeds between.
SEEDS_PER_REPEAT = 1_000_000
# Largest plausible token count of one call; a larger report is an error of the server.
MOST_TOKENS = 10**8


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text.

    >>> estimate_tokens(""), estimate_tokens("a dog")
    (0, 2)
    """
    return -(-len(text) // CHARACTERS)


class ImageGroup(ImageData):
    """Several images that stand for one, such as the frames of a video, and a sentence that says what they are."""

    def __init__(
        self, images: Sequence[str], sentence: str, name: str = "video", counts: Mapping[str, int] = {}
    ) -> None:
        self.images, self.sentence, self.name, self.counts = tuple(images), sentence, name, counts
        self.channels_first = False

    @property
    def value(self) -> bytes:
        """The content of the first image, for those who show only one."""
        return read_image(self.images[0])


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; its images come before its text."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[ImageSource, ...] = ()

    @property
    def pictures(self) -> list[ImageSource]:
        """The images as they are sent, a group one by one."""
        groups = [one.images if isinstance(one, ImageGroup) else (one,) for one in self.images]
        return [image for group in groups for image in group]

    @property
    def words(self) -> str:
        """The text as it is sent, after the sentences about groups of images."""
        sentences = [one.sentence for one in self.images if isinstance(one, ImageGroup)]
        return "\n\n".join([*sentences, self.text])


@dataclass(frozen=True)
class Request:
    """A conversation that the model continues, with sampling parameters."""

    turns: tuple[Turn, ...]
    temperature: float = 0.0
    max_tokens: int = 1024
    top_logprobs: int = 0
    """Number of alternatives per token; 0 requests no probabilities."""
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply; it changes replies, so it is part of the digest."""
    detail: Literal["auto", "low", "high"] = "auto"
    """How closely OpenAI's models look at an image; other servers ignore it."""
    sample: int = 0
    """0, 1, … for several replies to the same question; also the seed."""
    choices: int = 1
    """Number of replies per call; many servers send only one."""
    probe: bool = False
    """True for a question about the server, which is not asked again when questions are repeated."""

    def repeat(self, number: int) -> Request:
        """Return the same question for another reply: with another seed, and so another digest.

        >>> Request((), sample=2).repeat(3).sample, Request((), probe=True).repeat(3).sample
        (3000002, 0)
        """
        return self if self.probe or not number else replace(self, sample=self.sample + SEEDS_PER_REPEAT * number)

    @property
    def images(self) -> int:
        """Number of images."""
        return sum(len(turn.pictures) for turn in self.turns)

    @property
    def estimated_tokens(self) -> int:
        """Estimated length of the prompt in tokens."""
        return estimate_tokens("".join(turn.words for turn in self.turns)) + IMAGE_TOKENS * self.images

    @property
    def beginning(self) -> list[tuple[list[str], str]]:
        """Sort key of requests: those with a common prefix follow each other, so that servers reuse their cache."""
        return [
            ([one if isinstance(one, str) else str(id(one)) for one in turn.pictures], turn.text) for turn in self.turns
        ]

    def build_payload(self, model: str, encoded: bool = True) -> dict[str, Any]:
        """Build the body of the HTTP request; with ``encoded=False`` images are replaced by their digests."""
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": turn.role, "content": self._content(turn, encoded)} for turn in self.turns],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.sample,
        }
        if self.choices > 1:
            body["n"] = self.choices
        if self.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        if self.schema is not None:
            schema = {"name": "reply", "strict": True, "schema": dict(self.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def digest(self, model: str) -> str:
        """Return the key of the reply in the store: a hash of model, messages, image contents, parameters, sample."""
        text = json.dumps(self.build_payload(model, encoded=False), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _content(self, turn: Turn, encoded: bool) -> Any:
        if not turn.images:
            return turn.text
        addresses = [make_data_url(image) if encoded else hash_image(image) for image in turn.pictures]
        pictures = [{"type": "image_url", "image_url": {"url": url, "detail": self.detail}} for url in addresses]
        return [*pictures, {"type": "text", "text": turn.words}]


def make_data_url(image: ImageSource) -> str:
    """Encode an image as a data URL; cached for consecutive questions about the same image."""
    return _make_data_url(image, _get_stamp(image))


@lru_cache(maxsize=64)
def _make_data_url(image: ImageSource, stamp: object) -> str:
    content = read_image(image)
    kind = next((kind for kind, start in AS_THEY_ARE.items() if content.startswith(start)), None)
    if kind is None:
        from io import BytesIO

        buffer, kind = BytesIO(), "image/png"
        decode_image(content, image).convert("RGB").save(buffer, "PNG")
        content = buffer.getvalue()
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def hash_image(image: ImageSource) -> str:
    """Return the digest of an image's content, for the digest of a request."""
    if isinstance(image, str):
        return _hash_file(image, _get_stamp(image))
    return f"sha256:{hashlib.sha256(read_image(image)).hexdigest()}"


@lru_cache(maxsize=100_000)
def _hash_file(path: str, stamp: object) -> str:
    return f"sha256:{hashlib.sha256(read_image(path)).hexdigest()}"


def _get_stamp(image: ImageSource) -> object:
    """Return modification time and size of a file, for cache keys; None for an image in memory."""
    if not isinstance(image, str):
        return None
    try:
        status = Path(image).stat()
    except OSError:
        return None  # reading it says why
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class ReplyToken:
    """One token of a reply, with the alternatives of the model."""

    text: bytes
    top: tuple[tuple[bytes, float], ...]
    """Alternatives and their probabilities, the likeliest first; they need not sum to 1."""


@dataclass(frozen=True)
class Reply:
    """Reply of a model."""

    text: str
    tokens: tuple[ReplyToken, ...] = ()
    """Empty if the server sent no probabilities."""
    finish: str = "stop"
    """The reason why it stopped: ``stop``, ``length``, ``content_filter``."""
    model: str = ""
    """Model name that the server reports."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    counted: bool = True
    """True if the server counted the tokens; otherwise they are estimated."""
    without: tuple[str, ...] = ()
    """Parameters that the model refused, such as the temperature."""
    others: tuple[str, ...] = ()
    """Further replies, if several were requested."""
    thoughts: str = ""
    """Text between <think> and </think>, which is not part of ``text``."""

    @classmethod
    def of(cls, response: Mapping[str, Any]) -> Reply:
        """Parse the response of a server; missing or null parts are tolerated.

        >>> Reply.of({"choices": [{"message": {"content": "8"}, "finish_reason": "stop"}], "model": "m"}).text
        '8'
        """
        try:
            return cls._read(response)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError):
            raise ValueError("a response that is not in the form of the OpenAI protocol") from None

    @classmethod
    def _read(cls, response: Mapping[str, Any]) -> Reply:
        choice, *others = response["choices"]
        message, usage = choice.get("message") or {}, response.get("usage") or {}
        content = (choice.get("logprobs") or {}).get("content") or ()
        written = str(message.get("content") or message.get("refusal") or "")
        said = written.encode("utf-8", "replace").decode()  # halves of a character, which JSON allows
        thoughts, text = _split_thoughts(said)
        prompt, reply = _read_count(usage.get("prompt_tokens")), _read_count(usage.get("completion_tokens"))
        counted = bool(prompt) and reply is not None and (reply > 0 or not said)
        return cls(
            text=text,
            tokens=_select_answer_tokens(tuple(map(_parse_token, content)), text),
            finish="content_filter" if message.get("refusal") else str(choice.get("finish_reason") or "stop"),
            model=str(response.get("model") or ""),
            prompt_tokens=prompt or 0 if counted else 0,
            reply_tokens=reply or 0 if counted else estimate_tokens(said),
            counted=counted,
            without=tuple(map(str, response.get("without") or ())),
            others=tuple(_split_thoughts(str((one.get("message") or {}).get("content") or ""))[1] for one in others),
            thoughts=thoughts,
        )

    def find_token(self, position: int) -> tuple[ReplyToken, int] | None:
        """Return the token at a character position of the text, and the byte offset within the token.

        >>> reply = Reply("a 0.8", (ReplyToken(b"a ", ()), ReplyToken(b"0.", ()), ReplyToken(b"8", ())))
        >>> reply.find_token(4)[0].text
        b'8'
        """
        offset = len(self.text[:position].encode())
        if b"".join(token.text for token in self.tokens) != self.text.encode()[: self._bytes]:
            return None
        for token in self.tokens:
            if offset < len(token.text):
                return token, offset
            offset -= len(token.text)
        return None

    @property
    def _bytes(self) -> int:
        return sum(len(token.text) for token in self.tokens)


@dataclass(frozen=True)
class Failure:
    """Reason why there is no reply, or none that can be parsed."""

    reason: str
    reply: str = ""
    """Text of a reply that could not be parsed."""


def _split_thoughts(content: str) -> tuple[str, str]:
    """Split a reply into thoughts and answer; the opening mark may be missing, and the answer may be empty.

    >>> _split_thoughts("<think>A dog? 10?</think> 8"), _split_thoughts("hm</think>8")
    (('A dog? 10?', '8'), ('hm', '8'))
    >>> _split_thoughts("<think>hm"), _split_thoughts("8")
    (('hm', ''), ('', '8'))
    """
    before, end, answer = content.rpartition("</think>")
    if not end and not content.lstrip().startswith("<think>"):
        return "", content
    thoughts = before if end else content
    return thoughts.strip().removeprefix("<think>").strip(), answer.lstrip() if end else ""


def _select_answer_tokens(tokens: tuple[ReplyToken, ...], text: str) -> tuple[ReplyToken, ...]:
    """Return the tokens of the answer without those of the thoughts; none if one token belongs to both."""
    size = sum(len(token.text) for token in tokens)
    answer = text.encode()
    if size <= len(answer) or not b"".join(token.text for token in tokens).endswith(answer):
        return tokens
    for index, token in enumerate(tokens):
        if size <= len(answer):
            return tokens[index:] if size == len(answer) else ()
        size -= len(token.text)
    return ()


def _read_count(value: Any) -> int | None:
    """Return a token count that a server reports; None if it is missing or impossible."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST_TOKENS else None


def _parse_token(entry: Mapping[str, Any]) -> ReplyToken:
    top = [(_get_bytes(one), math.exp(float(one["logprob"]))) for one in entry.get("top_logprobs") or ()]
    return ReplyToken(_get_bytes(entry), tuple(sorted(top, key=lambda pair: -pair[1])))


def _get_bytes(entry: Mapping[str, Any]) -> bytes:
    """Return the bytes of a token, which may be a part of a character."""
    raw = entry.get("bytes")
    return bytes(raw) if raw else str(entry.get("token", "")).encode()
