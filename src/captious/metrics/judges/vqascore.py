"""VQAScore: the probability that a model that sees the image answers yes when asked whether it shows the caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.captions import CaptionSet, ImageSource, Item
from captious.metrics.contract import Need
from captious.metrics.explanation import Contribution
from captious.metrics.judges._yes_no import ALTERNATIVES, sum_yes_and_no
from captious.metrics.judges.judged import JudgedMetric, JudgeSetup, JudgeVerdict, quote, shorten
from captious.models.chat.clip_images import split_frames
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column


@dataclass(frozen=True)
class VqaScore(JudgedMetric):
    """VQAScore: the probability of *yes* to the question whether the image shows what the caption says.

    One call per caption, with the image. The probability is that at the first token of the reply, over the whole
    vocabulary; *yes*, *Yes* and *YES* count together::

        VQAScore = p(yes)

    Of a video the model sees several frames in one question; ``frames=each`` asks about each and takes the mean.
    ``normalize=yes`` divides it by p(yes) + p(no), as `fleur` with ``answer=yes-no`` does. The server must send
    probabilities: it is asked for the 20 likeliest tokens. Where *no* is among them and *yes* is not, p(yes) is below
    all of them and counts as 0; where neither is, the caption has no value. (The original takes 1 − p(no), and 0 for a
    failed call.) ``prompt`` names a file with ``{caption}``.

    >>> VqaScore("qwen2-vl").label, VqaScore("qwen2-vl", normalize=True).label
    ('VQAScore', 'VQAScore (yes against no)')
    """

    normalize: bool = False
    """Whether p(yes) is divided by p(yes) + p(no)."""
    frames: Literal["together", "each"] = "together"
    """Whether the frames of a video are asked about in one question, or each in its own; then their mean counts."""

    name: ClassVar[str] = "vqascore"
    needs: ClassVar[tuple[Need, ...]] = ("image", "judge")
    fields: ClassVar[tuple[str, ...]] = ("caption",)
    parse_rule: ClassVar[str] = "p(yes)"
    reply_tokens: ClassVar[int] = 1
    part_unit: ClassVar[str] = "answer"
    part_columns: ClassVar[Sequence[Column]] = (Column("probability", bar=True),)
    citation: ClassVar[str] = (
        "Lin, Pathak, Li, Li, Xia, Neubig, Zhang, Ramanan. Evaluating Text-to-Visual Generation with Image-to-Text "
        "Generation. ECCV 2024."
    )

    @property
    def label(self) -> str:
        """VQAScore, and whether it is normalized."""
        return "VQAScore (yes against no)" if self.normalize else "VQAScore"

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per caption."""
        prompt = setup.prompts[self.name]
        turns = [
            Turn("user", prompt.format(caption=quote(item.candidate)).strip(), (image,))
            for item in captions
            for image in self._list_images(item)
        ]
        return [Request((turn,), max_tokens=1, top_logprobs=ALTERNATIVES) for turn in turns]

    @property
    def sends_frames_together(self) -> bool:
        """Whether the frames of a video are sent in one message."""
        return self.frames == "together"

    def _list_images(self, item: Item) -> list[ImageSource]:
        """List the images of an item that are asked about one by one."""
        image: ImageSource = item.fields["image"]
        return [image] if self.sends_frames_together else split_frames(image)

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the probability of yes for each caption; with ``frames=each`` the mean over its frames."""
        requests = self.build_requests(captions, setup)
        answers = iter(ask_and_parse(setup.judge, requests, self.read, tries=1, what=self.label))
        lists = [[next(answers) for _ in self._list_images(item)] for item in captions]
        return [own[0] if len(own) == 1 else _average(own) for own in lists]

    def read(self, reply: Reply) -> JudgeVerdict:
        """Read the probability of yes in a reply.

        >>> from captious.models.chat.messages import ReplyToken
        >>> reply = Reply("Yes", (ReplyToken(b"Yes", ((b"Yes", 0.25), (b" yes", 0.25), (b"No", 0.125))),))
        >>> VqaScore("m").read(reply).value, VqaScore("m", normalize=True).read(reply).value
        (0.5, 0.8)
        """
        if not any(token.top for token in reply.tokens):
            raise ValueError("the server sent no probabilities, which vqascore needs")
        yes, no = sum_yes_and_no(reply)
        if not yes + no:
            raise ValueError(f"neither yes nor no among the likeliest beginnings of {shorten(reply.text)}")
        total = yes + no if self.normalize else 1.0
        parts = [
            Contribution(word, (word == "yes") * chance / total, details={"probability": chance / total})
            for word, chance in (("yes", yes), ("no", no))
        ]
        return JudgeVerdict(yes / total, parts=parts, summary=f"yes with probability {yes / total:.2f}")


def _average(answers: Sequence[JudgeVerdict | Failure]) -> JudgeVerdict | Failure:
    """Return the mean over the frames of a video, each a part of it; one without an answer fails the caption."""
    readable = [one for one in answers if isinstance(one, JudgeVerdict)]
    if len(readable) < len(answers):
        return next(one for one in answers if isinstance(one, Failure))
    parts = [
        Contribution(f"frame {number}", one.value / len(readable), details={"probability": one.value})
        for number, one in enumerate(readable, 1)
    ]
    value = sum(one.value for one in readable) / len(readable)
    return JudgeVerdict(
        value, parts=parts, summary=f"yes with probability {value:.2f}, the mean of {len(parts)} frames"
    )
