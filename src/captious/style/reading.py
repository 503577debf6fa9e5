"""How to read equations 8 and 10 where the paper leaves a choice."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args, get_type_hints

from captious.errors import InputError, nearest

SIGMA = 6.0
"""Of the Gaussian length penalty, as in CIDEr-D."""


class Reading(NamedTuple):
    """One reading of StyleCIDEr in Table 1; the defaults are the literal, unpenalised, leave-one-out mean.

    >>> str(Reading()), str(Reading(references="pooled", itself="keep"))
    ('default', 'references=pooled, itself=keep')
    """

    references: Literal["mean", "max", "pooled"] = "mean"
    """The mean or the highest similarity over references, or the similarity to all of them joined into one text."""
    itself: Literal["drop", "keep"] = "drop"
    """Whether a caption stands among the references of its own style."""
    weights: Literal["style", "reference", "own"] = "style"
    """Whose scores weigh the captions: the style under test or that of the references for both, or each its own."""
    negative: Literal["signed", "zero"] = "signed"
    """N-grams that speak against the style keep their weight, or lose it."""
    tf: bool = False
    """Weigh an n-gram by its count in the caption."""
    clip: bool = False
    """CIDEr-D's clipping: a count above the reference's does not help. It matters with tf only."""
    length_penalty: bool = False
    """CIDEr-D's Gaussian penalty on differing lengths."""
    sampled: int = 0
    """So many references drawn at random from each style instead of all."""

    @property
    def is_linear(self) -> bool:
        """Whether the mean over references can be had from one summed vector, without looking at pairs."""
        pairwise = self.references == "max" or self.weights == "own" or self.clip or self.length_penalty
        return not (pairwise or self.sampled)

    def checked(self) -> Reading:
        """The reading itself, if its parts go together."""
        if self.references == "pooled" and (
            self.clip or self.length_penalty or self.sampled or self.weights != "style"
        ):
            raise InputError(
                f"{self}: pooled references go with itself, negative and tf only, not with clip, length_penalty, "
                "sampled or other weights"
            )
        return self

    @classmethod
    def parse(cls, text: str) -> Reading:
        """A reading from its written form.

        >>> Reading.parse("references=pooled, itself=keep").references
        'pooled'
        """
        hints, values = get_type_hints(cls), dict[str, Any]()
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if part == "default":
                continue
            if name not in hints:
                raise InputError(f"no reading {name!r}, expected {', '.join(hints)}{nearest(name, hints)}")
            legal = get_args(hints[name]) or (("yes", "no") if hints[name] is bool else ())
            if (legal and value not in legal) or (not legal and not value.isdecimal()):
                raise InputError(f"reading {part!r}: expected {', '.join(legal) or 'a whole number'}")
            values[name] = value == "yes" if hints[name] is bool else int(value) if hints[name] is int else value
        return cls(**values).checked()

    def __str__(self) -> str:
        default = Reading._field_defaults
        changed = {name: value for name, value in self._asdict().items() if value != default[name]}
        shown = (f"{name}={'yes' if value is True else value}" for name, value in changed.items())
        return ", ".join(shown) or "default"


DEFAULT = Reading()

READINGS = (
    DEFAULT,
    Reading(itself="keep"),
    Reading(references="pooled"),
    Reading(references="pooled", itself="keep"),
    Reading(references="max"),
    Reading(tf=True),
    Reading(tf=True, clip=True),
    Reading(length_penalty=True),
    Reading(length_penalty=True, itself="keep"),
    Reading(tf=True, clip=True, length_penalty=True),
    Reading(tf=True, clip=True, length_penalty=True, itself="keep"),
    Reading(negative="zero"),
    Reading(negative="zero", itself="keep"),
    Reading(weights="reference"),
    Reading(weights="reference", negative="zero"),
    Reading(weights="reference", negative="zero", itself="keep"),
    Reading(sampled=1),
    Reading(sampled=5),
    Reading(sampled=50),
    Reading(weights="own"),
    Reading(weights="own", sampled=1),
    Reading(weights="own", sampled=2),
)
"""What ``captious style check --readings`` tries."""
