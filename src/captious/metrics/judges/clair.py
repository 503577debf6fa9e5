"""CLAIR: a chat model's rating of how likely caption and references describe the same image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.captions import CaptionSet
from captious.metrics.contract import Need
from captious.metrics.judges.judged import (
    JudgedMetric,
    JudgeSetup,
    JudgeVerdict,
    format_list,
    join_prompts,
    parse_number,
    read_json_object,
)
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn

_SCORE = {"score": {"type": "integer", "minimum": 0, "maximum": 100}}
_REASON = {"reason": {"type": "string"}}


@dataclass(frozen=True)
class Clair(JudgedMetric):
    """CLAIR: a chat model reads captions and references and rates how likely they describe the same image.

    The model reads text only, and no frame of a video. There is one question per item, with all its candidates as one
    set. The reply is a JSON object with a score from 0 to 100 and a reason; the value is the score over 100::

        CLAIR = score / 100

    The temperature is 0. If a reply contains no such object, the request is repeated, at most twice, as a new sample at
    a rising temperature; if no reply can be parsed, the item has no value. (The original code takes the first number
    anywhere, even one quoted from the scale, and scores a failure as 0.) ``prompt`` names a file with ``{candidates}``
    and ``{references}``. With ``schema`` the server is asked to enforce a JSON schema, which helps weak models; the
    signature says whether it does. ``reason=no`` asks only for the score, which is not the original's question and
    takes a tenth of the tokens.

    >>> Clair("gpt-4o-mini").label
    'CLAIR'
    """

    schema: bool = False
    """Whether the server must make the reply follow a JSON schema, which changes what a model says."""
    reason: bool = True
    """Whether the judge is asked why."""

    name: ClassVar[str] = "clair"
    label: ClassVar[str] = "CLAIR"
    needs: ClassVar[tuple[Need, ...]] = ("references", "judge")
    candidates_together: ClassVar[bool] = True
    citation: ClassVar[str] = "Chan et al. CLAIR: Evaluating Image Captions with Large Language Models. EMNLP 2023."

    @property
    def reply_tokens(self) -> int:  # type: ignore[override]  # by the question
        """Length of a usual reply, for the estimate before a run."""
        return 60 if self.reason else 10

    def read_prompts(self) -> dict[str, str]:
        """Read the prompt."""
        ending = "clair_reason" if self.reason else "clair_score"
        return {self.name: join_prompts(self.prompt, self.fields, "clair", ending)}

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per item, with its candidates and references as two lists."""
        prompt = setup.prompts[self.name]
        texts = [
            prompt.format(candidates=format_list(one.candidates), references=format_list(one.references))
            for one in captions
        ]
        properties = _SCORE | _REASON if self.reason else _SCORE
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return [Request((Turn("user", text),), schema=schema if self.schema else None) for text in texts]

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the score of each item with the judge's reason."""
        if self.schema:
            setup.judge.can("schema")  # recorded in the signature; the schema is sent in any case
        return ask_and_parse(setup.judge, self.build_requests(captions, setup), parse_score, what=self.label)


def parse_score(reply: Reply) -> JudgeVerdict:
    """Parse the score and the reason of a reply.

    >>> parse_score(Reply('{"score": 85, "reason": "Both show a dog."}')).value
    0.85
    """
    answer = read_json_object(reply.text, "score")
    return JudgeVerdict(parse_number(answer["score"], 0, 100) / 100, str(answer.get("reason") or ""))
